package controller

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/workmetrics"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// Trinket is a custom kind, whose finalizers need no slash.
type Trinket struct{ kube.Object }

func (Trinket) GVK() kube.GVK {
	return kube.GVK{Group: "finalizers.pintle.test", Version: "v1", Kind: "Trinket"}
}

// trinkets makes the server know trinkets until the test ends.
func (b *bench) trinkets() kube.Resource[Trinket] {
	b.Helper()
	def := crd.Of[Trinket](crd.Options{})
	if err := def.Err(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := kube.For[crd.Definition](b.client).Delete(context.WithoutCancel(b.Context()), def.Name); err != nil {
			b.Error(err)
		}
	})
	if err := crd.Install(b.Context(), b.client, def); err != nil {
		b.Fatal(err)
	}
	return kube.For[Trinket](b.client).In(b.namespace)
}

// A name is accepted if, and only if, API servers accept it: those of custom kinds need
// no slash.
func TestFinalizerNames(t *testing.T) {
	b := newBench(t)
	trinkets := b.trinkets()
	for i, name := range []string{
		"example.com/echo", "documents.kube.rs", "plain", "UPPER", "a_b.c-d", "example.com/A_b.c",
		"", "/", "a/", "/a", "a/b/c", "UPPER.com/a", "-a", "a-", "a b", "ä", "a:b",
		strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a.", 126) + "b/c", strings.Repeat("a.", 127) + "b/c",
	} {
		if name != "" { // the empty name stands for the default
			o := new(Trinket)
			o.Name, o.Finalizers = fmt.Sprint("named-", i), []string{name}
			_, err := trinkets.Create(t.Context(), o)
			wrong := configures(Controller[Trinket]{
				For: trinkets, Finalizer: name, Reconcile: nothing[Trinket], Cleanup: nothing[Trinket],
			})
			if (err == nil) != (wrong == nil) {
				t.Errorf("%q of a custom kind: the server says %v, the controller %v", name, err, wrong)
			}
			if err == nil {
				none := []byte(`{"metadata":{"finalizers":null}}`)
				if _, err := trinkets.Patch(t.Context(), o.Name, types.MergePatchType, none); err != nil {
					t.Error(err)
				}
			}
		}
		o := parent(fmt.Sprint("named-", i))
		o.Finalizers = []string{name}
		_, err := b.parents.Create(t.Context(), o)
		c := b.cleaner(b.parents, new(outside))
		c.Finalizer = name
		if wrong := configures(c); (err == nil) != (wrong == nil) {
			t.Errorf("%q of a ConfigMap: the server says %v, the controller %v", name, err, wrong)
		}
		if err == nil {
			b.release(o.Name, name)
		}
	}
	// These names mean something else to the server.
	for _, name := range []string{"orphan", "foregroundDeletion"} {
		c := b.cleaner(b.parents, new(outside))
		if c.Finalizer = name; configures(c) == nil {
			t.Errorf("%q is accepted", name)
		}
		c.Finalizer, c.FormerFinalizers = testFinalizer, []string{name}
		if configures(c) == nil {
			t.Errorf("%q is accepted as a former one", name)
		}
	}
}

// An operator in Rust names its finalizers without a slash. A port of it keeps these
// names, or takes the finalizers over.
func TestFinalizerOfAnotherToolkit(t *testing.T) {
	b := newBench(t)
	trinkets := b.trinkets()
	for name, c := range map[string]Controller[Trinket]{
		"kept":       {Finalizer: "documents.kube.rs"},
		"taken-over": {FormerFinalizers: []string{"documents.kube.rs"}},
	} {
		o := new(Trinket)
		o.Name, o.Finalizers = name, []string{"documents.kube.rs"}
		if _, err := trinkets.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var reconciled, cleaned atomic.Bool
		c.For = trinkets.Fielded("metadata.name=" + name)
		c.Reconcile = func(_ context.Context, o *Trinket) (Action, error) {
			want := cmp.Or(c.Finalizer, "finalizers.pintle.test/trinket")
			if !slices.Equal(o.Finalizers, []string{want}) {
				t.Errorf("the finalizers of %s are %q, want %q", name, o.Finalizers, want)
			}
			reconciled.Store(true)
			return Done, nil
		}
		c.Cleanup = func(context.Context, *Trinket) (Action, error) {
			cleaned.Store(true)
			return Done, nil
		}
		stop := b.start(Options{}, c)
		b.eventually("it is reconciled", reconciled.Load)
		if err := trinkets.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		b.eventually("it is gone", func() bool {
			_, err := trinkets.Get(t.Context(), name)
			return apierrors.IsNotFound(err)
		})
		if !cleaned.Load() {
			t.Errorf("there was no cleanup of %s", name)
		}
		stop()
	}
}

func nothing[T any](context.Context, *T) (Action, error) { return Done, nil }

func configures[T any](c Controller[T]) error {
	_, err := c.withDefaults()
	return err
}

// Two controllers must not have a finalizer of a kind in common: the first to finish
// would cut the other's cleanup short.
func TestFinalizerInCommon(t *testing.T) {
	client, err := kube.Config{Rest: &rest.Config{Host: "https://one.example.com"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	other, err := kube.Config{Rest: &rest.Config{Host: "https://two.example.com"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, finalizer string, former ...string) Controller[gizmo] {
		return Controller[gizmo]{
			Name: name, For: kube.For[gizmo](client), Finalizer: finalizer, FormerFinalizers: former,
			Reconcile: nothing[gizmo], Cleanup: nothing[gizmo],
		}
	}
	view := func(c Controller[gizmo]) Controller[gizmo] { c.For = kube.ViewOf[gizmo](client); return c }
	narrow := func(c Controller[gizmo]) Controller[gizmo] { c.For = kube.For[gizmo](client).In("a"); return c }
	elsewhere := func(c Controller[gizmo]) Controller[gizmo] { c.For = kube.For[gizmo](other); return c }
	idle := func(c Controller[gizmo]) Controller[gizmo] { c.Cleanup = nil; return c }
	younger := Controller[youngerGizmo]{
		Name: "b", For: kube.For[youngerGizmo](client), Finalizer: "x/y",
		Reconcile: nothing[youngerGizmo], Cleanup: nothing[youngerGizmo],
	}
	for name, test := range map[string]struct {
		a, b Any
		bad  bool
	}{
		"the same":               {with("a", "x/y"), with("b", "x/y"), true},
		"of a view":              {with("a", "x/y"), view(with("b", "x/y")), true},
		"of a namespace":         {with("a", "x/y"), narrow(with("b", "x/y")), true},
		"of another version":     {with("a", "x/y"), younger, true},
		"formerly the other's":   {with("a", "x/y"), with("b", "x/z", "x/y"), true},
		"both formerly another":  {with("a", "x/y", "x/old"), with("b", "x/z", "x/old"), true},
		"removed by one":         {with("a", "x/y"), idle(with("b", "x/z", "x/y")), true},
		"its own formerly":       {with("a", "x/y", "x/y"), with("b", "x/z"), true},
		"by default":             {with("a", ""), with("b", "example.com/a"), true},
		"others":                 {with("a", "x/y"), with("b", "x/z"), false},
		"defaults":               {with("a", ""), with("b", ""), false},
		"of another cluster":     {with("a", "x/y"), elsewhere(with("b", "x/y")), false},
		"of one without cleanup": {with("a", "x/y"), idle(with("b", "x/y")), false},
	} {
		m := metrics.New()
		p := &program{Options: Options{Logger: slog.Default(), Metrics: m}, work: workmetrics.New(m)}
		err := p.prepare([]Any{test.a, test.b})
		if (err != nil) != test.bad {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			t.Log(err)
		}
	}
}

// youngerGizmo is a gizmo in another version.
type youngerGizmo struct{ kube.Object }

func (youngerGizmo) GVK() kube.GVK {
	return kube.GVK{Group: "example.com", Version: "v2", Kind: "Gizmo"}
}
