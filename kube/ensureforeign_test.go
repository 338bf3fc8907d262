package kube_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// mapView is a view of ConfigMaps.
type mapView struct {
	kube.Object
	Data map[string]string `json:"data,omitempty"`
}

// applied describes a field of one kind that two processes apply.
type applied[T any] struct {
	kind string
	mine kube.View[T]
	// others has another client. Its field manager has the same name.
	others kube.View[T]
	// intent returns an object that sets the field "ours" and the field that theirs names.
	intent func(theirs string) *T
	theirs func(*T) string
}

// Another process may apply more fields in the name of the same field manager. Ensure
// notices that, and the next Ensure takes these fields away again. Other field managers
// may apply fields in their own names. Ensure leaves these fields alone, and they cost no
// request.
func TestEnsureAfterAnotherProcess(t *testing.T) {
	s := start(t)
	other := s.connect(t, s.cluster.Config())
	books := installBooks(t, s, kube.Namespaced)
	maps, views := kube.For[corev1.ConfigMap], kube.ViewOf[mapView]
	t.Run("protobuf", func(t *testing.T) {
		applied[corev1.ConfigMap]{"map", maps(s.Client).View, maps(other).View, func(theirs string) *corev1.ConfigMap {
			return configMap("a", theirs, "1", "ours", "1")
		}, func(o *corev1.ConfigMap) string { return o.Data["theirs"] }}.test(t, s)
	})
	t.Run("view", func(t *testing.T) {
		kind := kube.KindOf[corev1.ConfigMap]()
		applied[mapView]{"view", views(s.Client, kind), views(other, kind), func(theirs string) *mapView {
			return &mapView{Object: named("a"), Data: map[string]string{"ours": "1", theirs: "1"}}
		}, func(o *mapView) string { return o.Data["theirs"] }}.test(t, s)
	})
	t.Run("metadata", func(t *testing.T) {
		kind, metadata := kube.KindOf[corev1.Secret](), kube.ViewOf[metav1.PartialObjectMetadata]
		applied[metav1.PartialObjectMetadata]{"metadata", metadata(s.Client, kind), metadata(other, kind),
			func(theirs string) *metav1.PartialObjectMetadata {
				labels := map[string]string{"ours": "1", theirs: "1"}
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}
			}, func(o *metav1.PartialObjectMetadata) string { return o.Labels["theirs"] }}.test(t, s)
	})
	t.Run("JSON", func(t *testing.T) {
		mine, others := kube.For[book](s.Client, books).View, kube.For[book](other, books).View
		applied[book]{"book", mine, others, func(theirs string) *book {
			b := newBook("a", "Emma")
			b.Spec.Notes = map[string]string{"ours": "1", theirs: "1", "<b>": "1"}
			return b
		}, func(o *book) string { return o.Spec.Notes["theirs"] }}.test(t, s)
	})
}

func named(name string) (o kube.Object) {
	o.Name = name
	return o
}

func (a applied[T]) test(t *testing.T, s *server) {
	a.mine, a.others = a.mine.In(s.namespace), a.others.In(s.namespace)
	ctx, cancel := context.WithCancel(t.Context())
	store := kube.StoreOf(ctx, a.mine)
	t.Cleanup(func() { cancel(); <-store.Done() })
	must(t, store.Sync(soon(t)))
	key := kube.Key{Namespace: s.namespace, Name: any(a.intent("ours")).(metav1.Object).GetName()}
	ensure := func(want int, when string) {
		t.Helper()
		calls := s.during(func() { got(a.mine.Ensure(soon(t), a.intent("ours")))(t) })
		if len(calls) != want {
			t.Errorf("%s: %d requests, want %d: %s", when, len(calls), want, rows(calls))
		}
	}
	shows := func(theirs string) {
		t.Helper()
		kubetest.Eventually(t, fmt.Sprintf("the store shows %q", theirs), func() error {
			o, err := store.Get(soon(t), key)
			if err == nil && a.theirs(o) != theirs {
				err = fmt.Errorf("it shows %q", a.theirs(o))
			}
			return err
		})
	}
	ensure(1, "at first")
	ensure(0, "again")
	for _, manager := range []string{"somebody", ""} {
		got(a.others.With(kube.WriteOptions{FieldManager: manager}).Apply(soon(t), a.intent("theirs")))(t)
		first := a.theirs(a.intent("theirs"))
		shows(first)
		if manager != "" {
			ensure(0, "after an apply by another manager")
			ensure(0, "and again")
			empty := a.intent("ours")
			got(a.others.With(kube.WriteOptions{FieldManager: manager}).Apply(soon(t), empty))(t)
			shows("")
			ensure(0, "after the other manager took its field away")
			continue
		}
		ensure(1, "after an apply by another process of the same manager")
		if o := got(a.mine.Get(soon(t), key.Name))(t); a.theirs(o) != "" {
			t.Errorf("the field of the other process is %q", a.theirs(o))
		}
		ensure(0, "at the end")
	}
}

// The same holds for a status.
func TestEnsureStatusAfterAnotherProcess(t *testing.T) {
	s := startStatuses(t)
	b := got(s.mine.Create(soon(t), newBook("b", "Emma")))(t)
	b.Status.Lent = true
	if n := s.writes(b); n != 1 {
		t.Errorf("a status took %d requests, want 1", n)
	}
	theirs := newBook("b", "")
	theirs.Status.Lent, theirs.Status.Replicas = true, 3
	must(t, s.others.With(kube.WriteOptions{FieldManager: "somebody"}).Status().Apply(soon(t), theirs))
	s.sees("another manager's field", "b", func(o *book) bool { return o.Status.Replicas == 3 })
	if n := s.writes(b); n != 0 {
		t.Errorf("after another manager's apply it took %d requests", n)
	}
	must(t, s.others.Status().Apply(soon(t), theirs))
	must(t, s.others.With(kube.WriteOptions{FieldManager: "somebody"}).Status().Apply(soon(t), b))
	got(s.others.Modify(soon(t), "b", func(o *book) error { o.Spec.Title = "Persuasion"; return nil }))(t)
	s.sees("all of it", "b", func(o *book) bool { return o.Spec.Title == "Persuasion" })
	if n := s.writes(b); n != 1 {
		t.Errorf("after an apply by another process of the same manager it took %d requests, want 1", n)
	}
	if o := got(s.mine.Get(soon(t), "b"))(t); o.Status.Replicas != 0 || !o.Status.Lent {
		t.Errorf("the status is %+v", o.Status)
	}
	if n := s.writes(b); n != 0 {
		t.Errorf("at the end it took %d requests", n)
	}
}
