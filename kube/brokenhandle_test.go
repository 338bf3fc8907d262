package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Each method of a handle that could not be made returns the handle's error. None panics.
func TestBrokenHandles(t *testing.T) {
	ctx := t.Context()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "y"}}
	keep := func(*corev1.ConfigMap) error { return nil }
	for name, broken := range map[string]struct {
		handle Resource[corev1.ConfigMap]
		says   string
	}{
		"zero":       {Resource[corev1.ConfigMap]{}, "zero value"},
		"nil client": {For[corev1.ConfigMap](nil), "client is nil"},
		"two kinds":  {For[corev1.ConfigMap](newAPIServer().client(t), Kind{}, Kind{}), "2 kinds"},
	} {
		h := broken.handle
		for verb, use := range map[string]func() error{
			"get":           func() error { return second(h.Get(ctx, "x")) },
			"create":        func() error { return second(h.Create(ctx, o)) },
			"update":        func() error { return second(h.Update(ctx, o)) },
			"apply":         func() error { return second(h.Apply(ctx, o)) },
			"ensure":        func() error { return second(h.Ensure(ctx, o)) },
			"modify":        func() error { return second(h.Modify(ctx, "x", keep)) },
			"patch":         func() error { return second(h.Patch(ctx, "x", types.MergePatchType, []byte("{}"))) },
			"delete":        func() error { return h.Delete(ctx, "x") },
			"delete all":    func() error { return h.DeleteAll(ctx) },
			"status apply":  func() error { return h.Status().Apply(ctx, o) },
			"status ensure": func() error { return h.Status().Ensure(ctx, o) },
			"status update": func() error { return h.Status().Update(ctx, o) },
			"status modify": func() error { return h.Status().Modify(ctx, "x", keep) },
			"status patch":  func() error { return h.Status().Patch(ctx, "x", types.MergePatchType, []byte("{}")) },
			"cached get":    func() error { return second(h.In("a").Cached().Get(ctx, "x")) },
			"until":         func() error { return second(h.In("a").Until(ctx, "x", func(*corev1.ConfigMap) bool { return true })) },
			"until gone":    func() error { return h.In("a").UntilGone(ctx, "x") },
			"wide":          func() error { return Wide[corev1.ConfigMap](h).Err() },
			"subresource":   func() error { return second(Sub[corev1.ConfigMap](h, "x").Get(ctx, "x")) },
			"narrowed":      func() error { return h.In("a").Labeled("a=b").Fielded("x=y").Err() },
			"list": func() error {
				for _, err := range h.List(ctx) {
					return err
				}
				return nil
			},
			"watch": func() error {
				for _, err := range h.Watch(ctx) {
					return err
				}
				return nil
			},
			"open": func() error {
				f := h.Open(ctx)
				defer f.Close()
				if err := f.Sync(ctx); err == nil {
					return nil
				}
				return f.err()
			},
			"informer get": func() error {
				f := h.Open(ctx)
				defer f.Close()
				return second(Get[corev1.ConfigMap](ctx, f, Key{"a", "x"}))
			},
		} {
			if err := use(); err == nil || !strings.Contains(err.Error(), broken.says) {
				t.Errorf("%s handle, %s: error %v", name, verb, err)
			}
		}
	}
}

// An informer that is opened with an ended context ends at once.
func TestOpenWithAnEndedContext(t *testing.T) {
	cms := configMaps(newAPIServer().client(t))
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := cms.Open(ctx)
		<-f.Done()
		f.Close()
	}
}

// A store that cannot be filled does not keep a filled one from serving a narrower handle.
func TestUnfilledStoreDoesNotServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"a", "x"}, "1")
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/api/v1/configmaps" {
				return jsonAnswer(http.StatusForbidden, &metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
				}), nil
			}
			return nil, nil
		})
		all := configMaps(s.client(t))
		two, _ := startStore(t, all.In("a", "b"))
		startStore(t, all)
		if err := two.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if o, err := all.In("a").Cached().Get(ctx, "x"); err != nil || o.Name != "x" {
			t.Errorf("got %v, %v", o, err)
		}
	})
}

// A cached read of a cluster-scoped kind in a namespace tells the mistake, as a read from the
// server does. It does not say that there is no such object.
func TestCachedReadOfAClusterScopedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/apis/example.com/v1":
				return jsonAnswer(http.StatusOK, &metav1.APIResourceList{
					TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "example.com/v1",
					APIResources: []metav1.APIResource{{Name: "widgets", Kind: widgetKind.Kind, Verbs: []string{"list", "watch"}}},
				}), nil
			case strings.HasPrefix(r.URL.Path, "/apis/example.com/v1/widgets") && r.URL.Query().Get("watch") == "":
				list := map[string]any{"kind": "WidgetList", "apiVersion": "example.com/v1",
					"metadata": map[string]any{"resourceVersion": "5"},
					"items":    []any{map[string]any{"metadata": map[string]any{"name": "a", "uid": "u", "resourceVersion": "4"}}}}
				return jsonAnswer(http.StatusOK, list), nil
			}
			return nil, nil
		})
		kind := widgetKind
		kind.Scope, kind.Plural = "", ""
		all := For[widget](s.client(t), kind)
		startStore(t, all.ReadOnly())
		if o, err := all.Cached().Get(t.Context(), "a"); err != nil || o.Name != "a" {
			t.Errorf("without a namespace: %v, %v", o, err)
		}
		if _, err := all.In("ns").Cached().Get(t.Context(), "a"); !errors.Is(err, ErrScope) {
			t.Errorf("in a namespace: error %v", err)
		}
	})
}
