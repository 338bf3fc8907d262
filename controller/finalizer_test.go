package controller

import (
	"context"
	"fmt"
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

	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/kube"
)

const testFinalizer = "example.com/test"

// outside holds things that reconciles make and that no garbage collector knows of.
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

// cleaner is a controller with a finalizer. It fails the test if it gets an object to
// reconcile without the finalizer.
func (b *bench) cleaner(parents kube.Resource[corev1.ConfigMap], out *outside) Controller[corev1.ConfigMap] {
	return Controller[corev1.ConfigMap]{
		Name: "cleaner", For: parents, Finalizer: testFinalizer, Backoff: Backoff{Min: time.Millisecond,
			Max: 50 * time.Millisecond},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			now, err := b.parents.Get(b.Context(), p.Name) // by another client: as the server has it
			if err == nil && now.DeletionTimestamp == nil && !slices.Contains(now.Finalizers, testFinalizer) {
				b.Errorf("%s is reconciled without its finalizer", p.Name)
			}
			if !slices.Contains(p.Finalizers, testFinalizer) {
				b.Errorf("the reconcile of %s does not get its finalizer to see", p.Name)
			}
			others := &metav1.ObjectMeta{Finalizers: []string{"somebody.example.com/else"}}
			if !finalizers.CleansUp(ctx, p) || finalizers.CleansUp(ctx, others) {
				b.Errorf("the context of a reconcile does not say which finalizer is the controller's")
			}
			out.set(p.Name, true)
			// A write in the middle of a reconcile, at which the program may end.
			_, err = parents.Patch(ctx, p.Name, types.MergePatchType, []byte(`{"data":{"seen":"true"}}`))
			return Done, err
		},
		Cleanup: func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
			out.set(p.Name, false)
			return Done, nil
		},
	}
}

// release removes somebody else's finalizer, once that is the only one left.
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

// The finalizers of others stay, also those that are added at the same moment. A cleanup
// is called until it is done.
func TestFinalizersOfOthers(t *testing.T) {
	b := newBench(t)
	var meddle atomic.Int64
	other, rival := "example.com/other", b.client
	slow := func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.Header.Get("Content-Type"), "json-patch+json") &&
			meddle.Add(1)%2 == 1 {
			// Another program writes just before.
			_, err := kube.For[corev1.ConfigMap](rival).In(b.namespace).Modify(r.Context(), "p",
				func(p *corev1.ConfigMap) error {
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
	b.start(Options{}, Controller[corev1.ConfigMap]{For: b.parents,
		Reconcile: func(_ context.Context, p *corev1.ConfigMap) (Action, error) {
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

// On a real server too, an object that has left the labels of its controller is cleaned up
// when it is deleted.
func TestDeletionOutsideTheSelectionOfARealServer(t *testing.T) {
	b := newBench(t)
	var out outside
	parents := kube.For[corev1.ConfigMap](b.client).In(b.namespace).Labeled("role=parent")
	stop := b.start(Options{}, b.cleaner(parents, &out))
	all := kube.Wide(b.parents).In(b.namespace)
	unlabel := []byte(`{"metadata":{"labels":null}}`)
	for _, name := range []string{"left", "left-earlier"} {
		b.create(name)
		b.eventually("the object is reconciled", func() bool { return out.has(name) })
	}
	if _, err := b.parents.Patch(t.Context(), "left", types.MergePatchType, unlabel); err != nil {
		t.Fatal(err)
	}
	b.delete("left")
	b.eventually("the object is cleaned up and gone", func() bool {
		_, err := all.Get(t.Context(), "left")
		return apierrors.IsNotFound(err) && !out.has("left")
	})
	stop()
	if _, err := b.parents.Patch(t.Context(), "left-earlier", types.MergePatchType, unlabel); err != nil {
		t.Fatal(err)
	}
	b.delete("left-earlier")
	b.start(Options{}, b.cleaner(parents, &out))
	b.eventually("the object that left before is cleaned up and gone", func() bool {
		_, err := all.Get(t.Context(), "left-earlier")
		return apierrors.IsNotFound(err) && !out.has("left-earlier")
	})
}
