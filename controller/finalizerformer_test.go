package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const formerFinalizer = "kube.rs/documents"

// An object that was deleted while it carried only a former finalizer is cleaned up. A
// controller without a Cleanup removes former finalizers.
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

// The beginning of the deletion of an object with a former finalizer passes all
// predicates, with or without a Cleanup.
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
