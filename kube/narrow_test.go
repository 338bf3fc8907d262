package kube

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// In, Labeled and Fielded only narrow. What leaves nothing, or would widen, is an error.
func TestNarrow(t *testing.T) {
	cms := configMaps(newAPIServer().client(t))
	for name, test := range map[string]struct {
		handle     Reader[corev1.ConfigMap]
		namespaces []string
		label      string
		field      string
	}{
		"no narrowing":        {handle: cms},
		"two namespaces":      {handle: cms.In("b", "a", "b"), namespaces: []string{"a", "b"}},
		"some of them":        {handle: cms.In("a", "b").In("b", "c"), namespaces: []string{"b"}},
		"the same again":      {handle: cms.In("a").In("a"), namespaces: []string{"a"}},
		"labels":              {handle: cms.Labeled("app=web"), label: "app=web"},
		"labels and labels":   {handle: cms.Labeled("app=web").Labeled("tier in (a,b)"), label: "app=web,tier in (a,b)"},
		"labels and none":     {handle: cms.Labeled("app=web").Labeled(""), label: "app=web"},
		"none and labels":     {handle: cms.Labeled("").Labeled("app=web"), label: "app=web"},
		"fields and fields":   {handle: cms.Fielded("a=1").Fielded("b!=2"), field: "a=1,b!=2"},
		"fields and none":     {handle: cms.Fielded("a=1").Fielded(""), field: "a=1"},
		"none and fields":     {handle: cms.Fielded("").Fielded("a=1"), field: "a=1"},
		"the same labels":     {handle: cms.Labeled("app=web").Labeled("app==web,tier").Labeled("tier"), label: "app=web,tier"},
		"the same fields":     {handle: cms.Fielded("a=1").Fielded("b=2,a=1").Fielded("b=2"), field: "a=1,b=2"},
		"labels that exclude": {handle: cms.Labeled("app=web").Labeled("app=db"), label: "app=db,app=web"},
	} {
		is := test.handle.handle
		if is.err != nil || !slices.Equal(is.namespaces, test.namespaces) ||
			!sameRequirements(is.selector.label, test.label) || is.selector.field != test.field {
			t.Errorf("%s: in %q, labels %q, fields %q, error %v",
				name, is.namespaces, is.selector.label, is.selector.field, is.err)
		}
	}
	wide := Wide[corev1.ConfigMap](cms.In("a").Labeled("app=web").Fielded("a=1")).handle
	if wide.err != nil || tableOf(wide) != tableOf(cms.handle) {
		t.Errorf("a handle that was widened is of %+v", tableOf(wide))
	}
	if err := Wide[corev1.ConfigMap](cms.In("a").In("b")).Err(); !errors.Is(err, ErrScope) {
		t.Errorf("a wrong handle that was widened: %v", err)
	}
	var none []string
	for name, err := range map[string]error{
		"no namespace":            cms.In().Err(),
		"an empty list":           cms.In(none...).Err(),
		"an empty namespace":      cms.In("").Err(),
		"one of two is empty":     cms.In("a", "").Err(),
		"a list in one":           cms.In("a,b").Err(),
		"a space":                 cms.In("a b").Err(),
		"a capital":               cms.In("A").Err(),
		"nothing in common":       cms.In("a").In("b").Err(),
		"nothing in common later": cms.In("a", "b").In("b").In("a").Err(),
	} {
		if !errors.Is(err, ErrScope) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := cms.In("a").In("b").Err(); !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("the error does not name both namespaces: %v", err)
	}
}

// sameRequirements compares two selectors without regard to the order of their requirements.
func sameRequirements(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// A handle with labels refuses to write an object that it would not read back, and sends
// nothing then.
func TestWritesOutsideTheLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("there"), "1", func(o *modelObject) { o.labels = map[string]string{"app": "web"} })
		all := For[corev1.ConfigMap](s.client(t)).In("default")
		web := all.Labeled("app=web")
		other := func() *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"app": "db"}}}
		}
		labeledWeb := func() *corev1.ConfigMap {
			o := other()
			o.Labels["app"] = "web"
			return o
		}
		bare := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		ctx := t.Context()
		writes := func() (n int) {
			for _, line := range s.paths() {
				if line == "post" || line == "put" || line == "patch" {
					n++
				}
			}
			return n
		}
		for name, err := range map[string]error{
			"create":            second(web.Create(ctx, other())),
			"create without":    second(web.Create(ctx, bare)),
			"update":            second(web.Update(ctx, other())),
			"apply":             second(web.Apply(ctx, other())),
			"ensure":            second(web.Ensure(ctx, other())),
			"ensure without":    second(web.Ensure(ctx, bare)),
			"of a narrower one": second(web.Labeled("tier").Create(ctx, labeledWeb())),
			"modify": second(web.Modify(ctx, "there", func(o *corev1.ConfigMap) error {
				o.Labels = nil
				return nil
			})),
		} {
			if !errors.Is(err, ErrScope) || !strings.Contains(err.Error(), "app=web") {
				t.Errorf("%s: error %v", name, err)
			}
		}
		if n := writes(); n > 0 {
			t.Errorf("%d writes were sent: %q", n, s.paths())
		}
		if _, err := web.Create(ctx, labeledWeb()); err != nil {
			t.Errorf("create with the labels: %v", err)
		}
		if _, err := all.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "y"}}); err != nil {
			t.Errorf("create by a handle without labels: %v", err)
		}
	})
}

// A handle that is narrowed further than a store by labels is served by that store.
func TestStoreServesNarrowerLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "1", func(o *modelObject) { o.labels = map[string]string{"app": "web", "tier": "front"} })
		s.put(key("b"), "1", func(o *modelObject) { o.labels = map[string]string{"app": "web"} })
		web := configMaps(s.client(t)).Labeled("app=web")
		startStore(t, web)
		wantLines(t, "with both labels", namesOf(t, web.Labeled("tier=front").Cached().All(t.Context())), "default/a")
		wantLines(t, "of a narrower set", namesOf(t, configMaps(web.handle.client).Labeled("app=web,!tier").Cached().
			All(t.Context())), "default/b")
		for _, err := range configMaps(web.handle.client).Labeled("tier=front").Cached().All(t.Context()) {
			if !errors.Is(err, ErrNotCached) {
				t.Errorf("with one of the labels: %v", err)
			}
		}
	})
}

// A cached read by name needs the namespace, as a read from the server does.
func TestCachedNamesNeedANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "1")
		cms := configMaps(s.client(t))
		startStore(t, cms)
		for name, h := range map[string]Reader[corev1.ConfigMap]{"all": cms, "two": cms.In("default", "other")} {
			if _, err := h.Cached().Get(t.Context(), "a"); !errors.Is(err, ErrScope) {
				t.Errorf("%s namespaces: error %v", name, err)
			}
		}
		if o, err := cms.In("default").Cached().Get(t.Context(), "a"); err != nil || o.Name != "a" {
			t.Errorf("in its namespace: %v, %v", o, err)
		}
	})
}

// Informers of one handle share a store, which runs until each is closed or its context ends.
func TestOpenSharesAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "1")
		cms := configMaps(s.client(t))
		first := cms.Open(t.Context())
		store, stop := startStore(t, cms)
		if err := first.Sync(t.Context()); err != nil || first.Stats().Objects != 1 {
			t.Errorf("synced with %+v: %v", first.Stats(), err)
		}
		synctest.Wait() // Sync returns before the watch is asked for
		if n := len(s.paths()); n != 2 {
			t.Errorf("%d requests, want a list and a watch: %q", n, s.paths())
		}
		first.Close()
		first.Close() // it counts once
		if _, err := cms.In("default").Cached().Get(t.Context(), "a"); err != nil {
			t.Errorf("the store of the other informer does not run: %v", err)
		}
		stop()
		<-store.Done()
		if _, err := cms.In("default").Cached().Get(t.Context(), "a"); !errors.Is(err, ErrNotCached) {
			t.Errorf("after the end of both: %v", err)
		}
	})
}

// The handle of the unselected objects has the namespaces of the other one, and its selectors
// of names: rights may be limited to both. Objects leave neither.
func TestUnselected(t *testing.T) {
	cms := configMaps(newAPIServer().client(t))
	for name, test := range map[string]struct {
		handle     Reader[corev1.ConfigMap]
		namespaces []string
		field      string
		leave      bool
	}{
		"all":               {handle: cms},
		"two namespaces":    {handle: cms.In("b", "a"), namespaces: []string{"a", "b"}},
		"labels":            {handle: cms.In("a").Labeled("app=web"), namespaces: []string{"a"}, leave: true},
		"all labels":        {handle: cms.Labeled("")},
		"fields":            {handle: cms.Fielded("status.phase=Running"), leave: true},
		"a name":            {handle: cms.Fielded("metadata.name=a"), field: "metadata.name=a"},
		"not a name":        {handle: cms.Fielded("metadata.name!=a"), field: "metadata.name!=a"},
		"a name and labels": {handle: cms.Labeled("app").Fielded("metadata.name=a,b=1"), field: "metadata.name=a", leave: true},
	} {
		all, leave := Unselected(test.handle)
		h := all.handle
		if all.Err() != nil || leave != test.leave || !slices.Equal(h.namespaces, test.namespaces) ||
			h.selector.label != "" || h.selector.field != test.field || h.kind.GVK != cms.Kind().GVK {
			t.Errorf("%s: %t, in %q, labels %q, fields %q, %v", name, leave, h.namespaces, h.selector.label, h.selector.field,
				all.Err())
		}
	}
	for name, wrong := range map[string]AnyHandle{"zero": Reader[corev1.ConfigMap]{}, "no namespace": cms.In("")} {
		if all, _ := Unselected(wrong); all.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
