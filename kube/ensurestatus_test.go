package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// The field manager may apply other fields by another verb. The next Ensure restores the
// ensured fields. An Ensure that changes nothing costs no request.
func TestEnsureAfterOtherWrites(t *testing.T) {
	s := start(t)
	mine := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	e := ensure(t, s, mine, kube.For[corev1.ConfigMap](s.connect(t, s.cluster.Config())).In(s.namespace),
		func() *corev1.ConfigMap {
			return configMap("map", "a", "1")
		})
	for _, tc := range []struct {
		name  string
		write func() error
	}{
		{"an Apply", func() error { _, err := mine.Apply(soon(t), configMap("map", "a", "1", "b", "2")); return err }},
		{"a Patch that applies", func() error {
			patch := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"map"},"data":{"a":"1","b":"2"}}`
			_, err := mine.Patch(soon(t), "map", types.ApplyYAMLPatchType, []byte(patch))
			return err
		}},
	} {
		e.writes()
		e.quiet("before " + tc.name)
		must(t, tc.write())
		if n := e.writes(); n != 1 {
			t.Errorf("after %s: %d requests, want 1", tc.name, n)
		}
		if o := got(mine.Get(soon(t), "map"))(t); len(o.Data) != 1 {
			t.Errorf("after %s: %v is left", tc.name, o.Data)
		}
		e.quiet("after it was put right after " + tc.name)
	}
	// Another kind of write that takes nothing from the manager is no reason for a
	// request.
	got(mine.Modify(soon(t), "map", func(o *corev1.ConfigMap) error { o.Data["c"] = "3"; return nil }))(t)
	e.quiet("after a Modify of another field")
	got(mine.Modify(soon(t), "map", func(o *corev1.ConfigMap) error { o.Data["a"] = "9"; return nil }))(t)
	e.settles("a value comes back after a Modify", "map", func(o *corev1.ConfigMap) bool { return o.Data["a"] == "1" })
	o := got(mine.Get(soon(t), "map"))(t)
	o.Data["a"] = "8"
	got(mine.Update(soon(t), o))(t)
	e.settles("a value comes back after an Update", "map", func(o *corev1.ConfigMap) bool { return o.Data["a"] == "1" })
}

// statuses checks EnsureStatus of books, with a store.
type statuses struct {
	*testing.T
	*server
	mine, others kube.Resource[book]
	store        *kube.Store[book]
}

// writes returns the number of requests of an EnsureStatus.
func (s *statuses) writes(o *book) int {
	s.Helper()
	return len(s.during(func() { must(s.T, s.mine.Status().Ensure(soon(s.T), o)) }))
}

// sees waits until the store shows a book as it should be.
func (s *statuses) sees(what, name string, right func(*book) bool) *book {
	s.Helper()
	var is *book
	kubetest.Eventually(s.T, what, func() (err error) {
		is, err = s.store.Get(soon(s.T), kube.Key{Namespace: s.namespace, Name: name})
		if err == nil && !right(is) {
			err = fmt.Errorf("%+v", is)
		}
		return err
	})
	return is
}

func startStatuses(t *testing.T) *statuses {
	t.Helper()
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	other := s.connect(t, s.cluster.Config())
	st := &statuses{T: t, server: s, mine: kube.For[book](s.Client, kind).In(s.namespace),
		others: kube.For[book](other, kind).In(s.namespace)}
	ctx, cancel := context.WithCancel(t.Context())
	st.store = kube.StoreOf(ctx, st.mine)
	t.Cleanup(func() { cancel(); <-st.store.Done() })
	must(t, st.store.Sync(soon(t)))
	return st
}

func TestEnsureStatus(t *testing.T) {
	s := startStatuses(t)
	b := got(s.mine.Create(soon(t), newBook("b", "Emma")))(t)

	// An empty status is written once, so that there is one.
	if n := s.writes(b); n != 1 {
		t.Errorf("an empty status took %d requests, want 1", n)
	}
	for range 3 {
		if n := s.writes(b); n != 0 {
			t.Errorf("an empty status again took %d requests", n)
		}
	}
	raw := got(kube.ViewOf[withStatus](s.Client, s.mine.Kind()).In(s.namespace).Get(soon(t), "b"))(t)
	if raw.Status == nil {
		t.Error("there is no status")
	}

	// A status is written when it changes.
	b.Status.Lent, b.Status.Replicas = true, 3
	if n := s.writes(b); n != 1 {
		t.Errorf("a changed status took %d requests, want 1", n)
	}
	if n := s.writes(b); n != 0 {
		t.Errorf("the same status took %d requests", n)
	}
	got(s.mine.Modify(soon(t), "b", func(o *book) error { o.Spec.Title = "Persuasion"; return nil }))(t)
	s.sees("the spec", "b", func(o *book) bool { return o.Spec.Title == "Persuasion" })
	if n := s.writes(b); n != 0 {
		t.Errorf("the same status after a change of the spec took %d requests", n)
	}

	// An EnsureStatus of the status that was read costs no request. That also holds for
	// another process.
	again := kube.For[book](s.connect(t, s.cluster.Config()), s.mine.Kind()).In(s.namespace)
	store := kube.StoreOf(t.Context(), again)
	must(t, store.Sync(soon(t)))
	read := got(store.Get(soon(t), kube.KeyOf(b)))(t)
	if calls := s.during(func() { must(t, again.Status().Ensure(soon(t), read)) }); len(calls) > 0 {
		t.Errorf("another process wrote the status that it read: %s", rows(calls))
	}

	// If somebody else edits the status, EnsureStatus puts it back. Other fields that
	// they set stay.
	if _, err := kube.Sub[book](s.others, "status").Patch(soon(t), "b", types.MergePatchType,
		[]byte(`{"status":{"replicas":9}}`)); err != nil {
		t.Fatal(err)
	}
	s.sees("an edit", "b", func(o *book) bool { return o.Status.Replicas == 9 })
	if n := s.writes(b); n != 1 {
		t.Errorf("an edited status took %d requests, want 1", n)
	}
	if o := got(s.mine.Get(soon(t), "b"))(t); o.Status.Replicas != 3 || !o.Status.Lent {
		t.Errorf("the status is %+v", o.Status)
	}
	if n := s.writes(b); n != 0 {
		t.Errorf("the same status took %d requests", n)
	}

	// EnsureStatus knows of an ApplyStatus.
	more := newBook("b", "")
	more.Status.Lent = true
	must(t, s.mine.Status().Apply(soon(t), more))
	if n := s.writes(b); n != 1 {
		t.Errorf("after an ApplyStatus of less it took %d requests, want 1", n)
	}
}

type withStatus struct {
	kube.Object
	Status *struct{} `json:"status"`
}

// A recreated object is another object. An object whose deletion has begun has a status
// like other objects.
func TestEnsureStatusOfOtherObjects(t *testing.T) {
	s := startStatuses(t)
	first := newBook("b", "Emma")
	first.Finalizers = []string{"pintle.test/hold"}
	was := got(s.mine.Create(soon(t), first))(t)
	was.Status.Replicas = 2
	s.writes(was)
	must(t, s.others.Delete(soon(t), "b"))
	deleting := s.sees("the deletion", "b", func(o *book) bool { return o.DeletionTimestamp != nil })
	if n := s.writes(deleting); n != 0 {
		t.Errorf("the same status while it is deleted took %d requests", n)
	}
	deleting.Status.Replicas = 1
	if n := s.writes(deleting); n != 1 {
		t.Errorf("a changed status while it is deleted took %d requests", n)
	}
	got(s.others.Patch(soon(t), "b", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))(t)
	is := got(s.others.Create(soon(t), newBook("b", "Emma")))(t)
	s.sees("the successor", "b", func(o *book) bool { return o.UID == is.UID })
	if err := s.mine.Status().Ensure(soon(t), deleting); !apierrors.IsConflict(err) {
		t.Errorf("the status of an object that is gone: %v, want a conflict", err)
	}
	named := newBook("b", "")
	named.Status.Replicas = 1
	if n := s.writes(named); n != 0 { // the call before made the server write it, to the successor
		t.Logf("the successor's status took %d requests", n)
	}
	if o := got(s.mine.Get(soon(t), "b"))(t); o.Status.Replicas != 1 {
		t.Errorf("the successor's status is %+v", o.Status)
	}
	must(t, s.others.Delete(soon(t), "b"))
	// Before that, EnsureStatus need not send a request.
	kubetest.Eventually(t, "the store has seen the deletion", func() error {
		o, err := s.store.Get(soon(t), kube.KeyOf(is))
		if apierrors.IsNotFound(err) {
			return nil
		}
		must(t, err)
		return fmt.Errorf("it shows %+v", o)
	})
	if err := s.mine.Status().Ensure(soon(t), named); !apierrors.IsNotFound(err) {
		t.Errorf("the status of a missing object: %v", err)
	}
	if err := s.mine.Status().Ensure(soon(t), nil); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("of nothing: %v", err)
	}
}

// A custom status may lose its last field, or an object in it may. The server makes of that
// a null, which the schema refuses.
func TestApplyOfAStatusThatBecomesEmpty(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	got(kube.For[book](s.Client, kind).In(s.namespace).Create(soon(t), newBook("b", "Emma")))(t)
	type lent struct {
		By string `json:"by,omitempty"`
	}
	type shelf struct {
		kube.Object
		Status struct {
			Replicas int32 `json:"replicas,omitempty"`
			Loan     *lent `json:"loan,omitempty"`
		} `json:"status"`
	}
	shelves := kube.ViewOf[shelf](s.Client, kind).In(s.namespace)
	is := new(shelf)
	is.Name = "b"
	for _, step := range []struct {
		replicas int32
		loan     *lent
	}{{1, nil}, {0, nil}, {1, &lent{"Anne"}}, {1, &lent{}}, {0, &lent{"Anne"}}, {0, nil}, {0, nil}} {
		is.Status.Replicas, is.Status.Loan = step.replicas, step.loan
		must(t, shelves.Status().Apply(soon(t), is))
		raw := got(kube.ViewOf[withStatus](s.Client, kind).In(s.namespace).Get(soon(t), "b"))(t)
		if raw.Status == nil {
			t.Errorf("%+v: there is no status", step)
		}
		o := got(shelves.Get(soon(t), "b"))(t)
		if o.Status.Replicas != step.replicas || (o.Status.Loan == nil) != (step.loan == nil) ||
			step.loan != nil && o.Status.Loan.By != step.loan.By {
			t.Errorf("%+v became %+v", step, o.Status)
		}
	}
}
