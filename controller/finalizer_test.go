package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

const testFinalizer = "example.com/test"

// outside is what reconciles make that no garbage collector knows of.
type outside struct {
	mu     sync.Mutex
	things map[string]bool
}

func (o *outside) set(name string, there bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.things == nil {
		o.things = make(map[string]bool)
	}
	o.things[name] = there
}

func (o *outside) has(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.things[name]
}

// cleaner is a controller with a finalizer, which fails the test if it is to
// reconcile an object without.
func (b *bench) cleaner(parents kube.Resource[corev1.ConfigMap], out *outside) Controller[corev1.ConfigMap] {
	return Controller[corev1.ConfigMap]{
		Name: "cleaner", For: parents, Finalizer: testFinalizer, Backoff: Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			now, err := b.parents.Get(b.Context(), p.Name) // by another client: as the server has it
			if err == nil && now.DeletionTimestamp == nil && !slices.Contains(now.Finalizers, testFinalizer) {
				b.Errorf("%s is reconciled without its finalizer", p.Name)
			}
			if !slices.Contains(p.Finalizers, testFinalizer) {
				b.Errorf("the reconcile of %s does not get its finalizer to see", p.Name)
			}
			out.set(p.Name, true)
			// A write in the middle of a reconcile, for the program to end in.
			_, err = parents.Patch(ctx, p.Name, types.MergePatchType, []byte(`{"data":{"seen":"true"}}`))
			return Done, err
		},
		Cleanup: func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
			out.set(p.Name, false)
			return Done, nil
		},
	}
}

// death is how a program ends: at one of its writes, before the server has got it or
// after.
type death struct {
	at   int64
	lost string // "request" or "answer"

	writes atomic.Int64
	dead   chan struct{}
	die    func()
}

func newDeath(at int, lost string) *death {
	d := &death{at: int64(at), lost: lost, dead: make(chan struct{})}
	d.die = sync.OnceFunc(func() { close(d.dead) })
	return d
}

var errDead = errors.New("the program has ended")

func (d *death) wire(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if d.has() {
		return nil, errDead
	}
	if r.Method == http.MethodGet || d.writes.Add(1) < d.at {
		return send()
	}
	defer d.die()
	if d.lost == "answer" {
		if resp, err := send(); err == nil {
			resp.Body.Close()
		}
	}
	return nil, errDead
}

func (d *death) has() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

const formerFinalizer = "kube.rs/documents"

// guarded watches an object and fails the test if it loses all its finalizers before
// the cleanup.
func (b *bench) guarded(name string, out *outside) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var watching sync.WaitGroup
	watching.Go(func() {
		guarded := false
		for ev, err := range kube.For[corev1.ConfigMap](b.client).In(b.namespace).Watch(ctx) {
			if err != nil || ev.Object == nil || ev.Object.Name != name {
				continue
			}
			n := 0
			for _, f := range ev.Object.Finalizers {
				if f == testFinalizer || f == formerFinalizer {
					n++
				}
			}
			switch {
			case n > 1:
				b.Errorf("%s has the finalizers %q at a time", name, ev.Object.Finalizers)
			case n == 0 && guarded && out.has(name):
				b.Errorf("%s is without a finalizer before its cleanup", name)
			}
			guarded = n > 0
		}
	})
	return func() { cancel(); watching.Wait() }
}

// The next process goes on with the work of one that ends anywhere: nothing is left
// behind, nothing is done without the finalizer, also if it takes over that of a
// predecessor.
func TestFinalizerSurvivesCrashes(t *testing.T) {
	b := newBench(t)
	for _, carries := range [][]string{
		nil, {formerFinalizer}, {"example.com/other", formerFinalizer}, {formerFinalizer, testFinalizer},
	} {
		// A life has three writes: the finalizer, the reconcile's own, the finalizer
		// again. The program ends before or after each of them.
		for _, lost := range []string{"request", "answer"} {
			for n := 1; n <= 3; n++ {
				t.Run(fmt.Sprintf("%s %d is lost carrying %q", lost, n, carries), func(t *testing.T) {
					b := b.sub(t)
					b.live(fmt.Sprintf("p-%d-%s-%d", len(strings.Join(carries, "")), lost, n), carries, newDeath(n, lost))
				})
			}
		}
	}
}

// live has a program die and another go on.
func (b *bench) live(name string, carries []string, d *death) {
	out := new(outside)
	program := func(client *kube.Client) Controller[corev1.ConfigMap] {
		c := b.cleaner(kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent"), out)
		c.FormerFinalizers = []string{"example.com/older", formerFinalizer}
		return c
	}
	o := parent(name)
	o.Finalizers = carries
	if _, err := b.parents.Create(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	if slices.Contains(carries, formerFinalizer) {
		out.set(name, true) // by the predecessor
	}
	if !slices.Contains(carries, testFinalizer) {
		defer b.guarded(name, out)()
	}
	stop := b.start(Options{Grace: time.Millisecond}, program(b.connect(d.wire)))
	if d.at == 3 {
		b.eventually("the object is reconciled", func() bool { return d.writes.Load() >= 2 })
		b.delete(name)
	}
	b.eventually("the program ends", d.has)
	stop()
	stop = b.start(Options{}, program(b.client))
	defer stop()
	if d.at < 3 {
		b.eventually("the next program has reconciled", func() bool {
			p, err := b.parents.Get(b.Context(), name)
			return err == nil && p.Data["seen"] == "true" && out.has(name)
		})
		b.delete(name)
	}
	b.release(name, "example.com/other")
	b.eventually("the object is gone", func() bool {
		_, err := b.parents.Get(b.Context(), name)
		return apierrors.IsNotFound(err)
	})
	if out.has(name) {
		b.Error("the cleanup has left something behind")
	}
}

// release removes the finalizer of somebody else, once that is the only one.
func (b *bench) release(name, finalizer string) {
	b.Helper()
	b.eventually("only the finalizers of others are left", func() bool {
		p, err := b.parents.Get(b.Context(), name)
		switch {
		case apierrors.IsNotFound(err):
			return true
		case err != nil || !slices.Equal(p.Finalizers, []string{finalizer}):
			return false
		}
		_, err = b.parents.Modify(b.Context(), name, func(p *corev1.ConfigMap) error {
			p.Finalizers = nil
			return nil
		})
		return err == nil
	})
}

// An object that was deleted while it carried a former finalizer alone is cleaned up.
// A controller without a Cleanup removes former finalizers.
func TestFormerFinalizers(t *testing.T) {
	b := newBench(t)
	former := func(name string) {
		t.Helper()
		o := parent(name)
		o.Finalizers = []string{formerFinalizer}
		if _, err := b.parents.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(name string) func() bool {
		return func() bool {
			_, err := b.parents.Get(t.Context(), name)
			return apierrors.IsNotFound(err)
		}
	}
	out := new(outside)
	former("p")
	out.set("p", true)
	b.delete("p")
	c := b.cleaner(b.parents, out)
	c.FormerFinalizers = []string{formerFinalizer}
	stop := b.start(Options{}, c)
	b.eventually("it is gone", gone("p"))
	if out.has("p") {
		t.Error("there was no cleanup")
	}
	stop()

	former("q")
	former("r")
	b.delete("r")
	var deleted atomic.Int32
	stop = b.start(Options{}, Controller[corev1.ConfigMap]{
		For: b.parents, FormerFinalizers: []string{formerFinalizer},
		Reconcile: func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
			if p.DeletionTimestamp != nil {
				deleted.Add(1)
			}
			return Done, nil
		},
	})
	defer stop()
	b.eventually("a deleted object is let go", gone("r"))
	b.eventually("a live object is without", func() bool {
		q, err := b.parents.Get(t.Context(), "q")
		return err == nil && len(q.Finalizers) == 0
	})
	if deleted.Load() > 0 {
		t.Error("a deleted object was reconciled")
	}
}

// Trinket is a custom kind, whose finalizers need no slash.
type Trinket struct{ kube.Object }

func (Trinket) GVK() kube.GVK {
	return kube.GVK{Group: "finalizers.pintle.test", Version: "v1", Kind: "Trinket"}
}

// trinkets has the server know trinkets until the test ends.
func (b *bench) trinkets() kube.Resource[Trinket] {
	b.Helper()
	def, err := crd.Of[Trinket](crd.Options{})
	if err != nil {
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

// A name is accepted if, and only if, API servers accept it: those of custom kinds
// need no slash.
func TestFinalizerNames(t *testing.T) {
	b := newBench(t)
	trinkets := b.trinkets()
	for i, name := range []string{
		"example.com/echo", "documents.kube.rs", "plain", "UPPER", "a_b.c-d", "example.com/A_b.c",
		"", "/", "a/", "/a", "a/b/c", "UPPER.com/a", "-a", "a-", "a b", "ä", "a:b",
		strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a.", 126) + "b/c", strings.Repeat("a.", 127) + "b/c",
	} {
		if name != "" { // it stands for the default
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
	// They mean something else to the server.
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

// An operator in Rust names its finalizers without a slash: a port keeps them, or
// takes them over.
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

// Two controllers must not have a finalizer of a kind in common: the first that is
// done would cut the other's cleanup short.
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
		p := &program{Options: Options{Logger: slog.Default(), Metrics: metrics.New()}}
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

// The finalizers of others stay, also those that come at the same moment; and a
// cleanup is called until it is done.
func TestFinalizersOfOthers(t *testing.T) {
	b := newBench(t)
	var meddle atomic.Int64
	other, rival := "example.com/other", b.client
	slow := func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.Header.Get("Content-Type"), "json-patch+json") && meddle.Add(1)%2 == 1 {
			// Somebody is quicker by a hair.
			_, err := kube.For[corev1.ConfigMap](rival).In(b.namespace).Modify(r.Context(), "p", func(p *corev1.ConfigMap) error {
				p.Finalizers = append([]string{fmt.Sprintf("%s%d", other, meddle.Load())}, p.Finalizers...)
				if p.DeletionTimestamp != nil {
					p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return strings.HasPrefix(f, other) })
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		return send()
	}
	parents := kube.For[corev1.ConfigMap](b.connect(slow)).In(b.namespace).Labeled("role=parent")
	out := new(outside)
	c := b.cleaner(parents, out)
	var cleanups atomic.Int32
	c.Cleanup = func(context.Context, *corev1.ConfigMap) (Action, error) {
		switch cleanups.Add(1) {
		case 1:
			return Done, errBroken
		case 2:
			return After(time.Millisecond), nil
		}
		out.set("p", false)
		return Done, nil
	}
	c.Reconcile = func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
		out.set(p.Name, true)
		return Done, nil
	}
	b.create("p")
	b.start(Options{}, c)
	b.eventually("it is reconciled", func() bool { return out.has("p") })
	p, err := b.parents.Get(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{other + "1", testFinalizer}; !slices.Equal(p.Finalizers, want) {
		t.Errorf("the finalizers are %q, want %q", p.Finalizers, want)
	}
	meddle.Store(2)
	b.delete("p")
	b.eventually("it is gone", func() bool {
		_, err := b.parents.Get(t.Context(), "p")
		return apierrors.IsNotFound(err)
	})
	if out.has("p") || cleanups.Load() < 3 {
		t.Errorf("cleaned up %d times", cleanups.Load())
	}
}

// Without Cleanup there is no finalizer, and a deletion costs nothing.
func TestNoFinalizer(t *testing.T) {
	b := newBench(t)
	var runs atomic.Int32
	b.create("p")
	b.start(Options{}, Controller[corev1.ConfigMap]{For: b.parents, Reconcile: func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
		runs.Add(1)
		if len(p.Finalizers) > 0 {
			t.Errorf("the finalizers are %q", p.Finalizers)
		}
		return Done, nil
	}})
	b.eventually("it is reconciled", func() bool { return runs.Load() == 1 })
	b.delete("p")
	b.create("q")
	b.eventually("the next is reconciled", func() bool { return runs.Load() >= 2 })
	if n := runs.Load(); n != 2 {
		t.Errorf("%d reconciles of two objects", n)
	}
}

// The beginning of the deletion of an object with a former finalizer passes all
// filters, with or without a Cleanup.
func TestFormerFinalizerIsNotFiltered(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(g *gizmo) { g.Finalizers = []string{"example.com/old"} })
		s.run(Options{}, Controller[gizmo]{
			For: s.gizmos, FormerFinalizers: []string{"example.com/old"},
			Predicate: Where(func(_, g *gizmo) bool { return g.Spec.Size > 0 }),
			Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
		})
		s.sleep(time.Second)
		s.put("g", func(g *gizmo) { now := metav1.Now(); g.DeletionTimestamp = &now })
		s.sleep(time.Second)
		if s.count("PATCH "+playedPath+"/g") == 0 {
			t.Error("the finalizer is not removed: the object is never deleted")
		}
	})
}
