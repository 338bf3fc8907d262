package kube_test

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube"
)

// An operator may follow another one that wrote by Update. It takes over the fields of
// its predecessor: the fields that it does not set are removed. The fields of others and
// the finalizers stay.
func TestTakeOver(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	former := maps.With(kube.WriteOptions{FieldManager: "manager"})
	others := maps.With(kube.WriteOptions{FieldManager: "somebody"})
	heir := maps.With(kube.WriteOptions{FieldManager: "heir", TakeOver: []string{"manager"}})
	store := kube.StoreOf(t.Context(), maps)
	must(t, store.Sync(soon(t)))

	was := configMap("map", "a", "1", "old", "2", "nested", "3")
	was.Labels = map[string]string{"app": "web", "old": "yes"}
	was.Finalizers = []string{"pintle.test/hold"}
	got(former.Create(soon(t), was))(t)
	got(others.Apply(soon(t), configMap("map", "theirs", "yes")))(t)

	wanted := func() *corev1.ConfigMap {
		o := configMap("map", "a", "1", "new", "4")
		o.Labels = map[string]string{"app": "web"}
		return o
	}
	plain := maps.With(kube.WriteOptions{FieldManager: "heir"})
	if o := got(plain.Apply(soon(t), wanted()))(t); o.Data["old"] != "2" {
		t.Fatalf("without taking over: %v", o.Data)
	}
	o := got(heir.Ensure(soon(t), wanted()))(t)
	if len(o.Data) != 3 || o.Data["a"] != "1" || o.Data["new"] != "4" || o.Data["theirs"] != "yes" {
		t.Errorf("the data is %v", o.Data)
	}
	if len(o.Labels) != 1 || !slices.Equal(o.Finalizers, was.Finalizers) {
		t.Errorf("the labels are %v, the finalizers %v", o.Labels, o.Finalizers)
	}
	if calls := s.during(func() { got(heir.Ensure(soon(t), wanted()))(t) }); len(calls) > 0 {
		t.Errorf("once it is taken over, Ensure makes requests: %s", rows(calls))
	}
	if calls := s.during(func() { got(heir.Apply(soon(t), wanted()))(t) }); len(calls) != 1 {
		t.Errorf("once it is taken over, Apply makes requests: %s", rows(calls))
	}
	// A field that the successor drops later is removed.
	less := wanted()
	delete(less.Data, "a")
	if o := got(heir.Ensure(soon(t), less))(t); len(o.Data) != 2 {
		t.Errorf("the data is %v", o.Data)
	}
	got(former.Modify(soon(t), "map", func(o *corev1.ConfigMap) error { o.Finalizers = nil; return nil }))(t)
}

// A handle takes the fields of a predecessor over although another handle of the same field
// manager has ensured the same object without that.
func TestTakeOverAfterAnEnsure(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	filled(t, maps.ReadOnly())
	plain := maps.With(kube.WriteOptions{FieldManager: "heir"})
	heir := maps.With(kube.WriteOptions{FieldManager: "heir", TakeOver: []string{"manager"}})
	got(maps.With(kube.WriteOptions{FieldManager: "manager"}).Create(soon(t), configMap("map", "a", "1", "old", "2")))(t)
	wanted := configMap("map", "a", "1")
	if o := got(plain.Ensure(soon(t), wanted))(t); o.Data["old"] != "2" {
		t.Fatalf("without taking over: %v", o.Data)
	}
	if o := got(heir.Ensure(soon(t), wanted))(t); len(o.Data) != 1 {
		t.Errorf("the data is %v", o.Data)
	}
	if calls := s.during(func() { got(heir.Ensure(soon(t), wanted))(t) }); len(calls) > 0 {
		t.Errorf("once it is taken over, Ensure makes requests: %s", rows(calls))
	}
	asked := glance.Object{UID: got(maps.Get(soon(t), "map"))(t).UID}
	look := configMap("map", "a", "1")
	look.Namespace = s.namespace
	if _, err := heir.Ensure(glance.Only(soon(t), &asked), look); err != nil {
		t.Errorf("once it is taken over, a look does not show it: %v", err)
	}
}

// afterPatch calls a function after each JSON patch.
type afterPatch struct {
	http.RoundTripper
	do func() error
}

func (p afterPatch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.RoundTripper.RoundTrip(req)
	if err == nil && req.Header.Get("Content-Type") == string(types.JSONPatchType) {
		err = p.do()
	}
	return resp, err
}

// WrappedRoundTripper lets idle connections be closed.
func (p afterPatch) WrappedRoundTripper() http.RoundTripper { return p.RoundTripper }

// A former field manager may still write, or a webhook may put its entry back. Then a taking
// over ends with an error that says so.
func TestTakeOverFromALivingPredecessor(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	former := maps.With(kube.WriteOptions{FieldManager: "manager"})
	got(former.Create(soon(t), configMap("map", "old", "1")))(t)
	config := s.cluster.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return afterPatch{next, func() error {
			_, err := former.Patch(soon(t), "map", types.MergePatchType, []byte(`{"data":{"beat":"`+rand.Text()+`"}}`))
			return err
		}}
	})
	heir := kube.For[corev1.ConfigMap](s.connect(t, config)).In(s.namespace).With(kube.WriteOptions{
		FieldManager: "heir", TakeOver: []string{"manager"},
	})
	_, err := heir.Apply(soon(t), configMap("map", "a", "1"))
	if err == nil || !strings.Contains(err.Error(), `take over the fields of ["manager"]`) {
		t.Errorf("the error is %v", err)
	}
	if o := got(maps.Get(soon(t), "map"))(t); o.Data["a"] != "1" || o.Data["old"] != "" {
		t.Errorf("the data is %v", o.Data)
	}
}
