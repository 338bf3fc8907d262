package plan_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
)

// filled opens a store and fills it.
func (b *bench) filled(store interface{ Sync(context.Context) error }) {
	b.Helper()
	b.ok(store.Sync(b.soon()))
}

// named returns a ConfigMap with one value.
func named(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

// detached is a program's own handle. Its Ensure has a context of its own, and uses the answer.
type detached struct {
	kube.Resource[corev1.ConfigMap]
	ensured map[string]int // by the names of the answers
}

func (d detached) Ensure(_ context.Context, o *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	is, err := d.Resource.Ensure(ctx, o)
	if err == nil {
		d.ensured[is.Name]++
	}
	return is, err
}

// A handle that a program has wrapped makes its own objects, and those that need them read
// these objects and no others.
func TestWrappedHandle(t *testing.T) {
	b := newBench(t)
	shops := b.op.shops
	all := kube.For[corev1.ConfigMap](shops.Client()).In(b.namespace)
	b.filled(shops.Open(t.Context()))
	b.filled(all.Open(t.Context()))
	b.create("wrapped")
	wrapped := detached{all, make(map[string]int)}
	read := make(map[string]int)
	for range 5 {
		s, err := shops.In(b.namespace).Cached().Get(b.soon(), "wrapped")
		b.ok(err)
		p := plan.New(shops, s, &s.Status.Status)
		build := func(name string) func(plan.Inputs) (*corev1.ConfigMap, error) {
			return func(plan.Inputs) (*corev1.ConfigMap, error) { return named(name, name), nil }
		}
		first := plan.Object(p, "first", all, build("first"))
		second := plan.Object(p, "second", wrapped, build("second")).Needs(first)
		plan.Object(p, "third", all, func(in plan.Inputs) (*corev1.ConfigMap, error) {
			read[second.From(in).Data["value"]]++
			return named("third", "third"), nil
		}).Needs(second)
		_, err = p.Run(b.soon())
		b.ok(err)
	}
	if want := map[string]int{"second": 5}; !maps.Equal(read, want) || !maps.Equal(wrapped.ensured, want) {
		t.Errorf("the third has read %v, and the wrapped handle has ensured %v, want %v", read, wrapped.ensured, want)
	}
}

// mapView has the data of a ConfigMap.
type mapView struct {
	kube.Object
	Data map[string]string `json:"data,omitempty"`
}

// A store of one type of a kind shows nothing about the objects of another type. So an object
// of somebody else that has taken the place of a child is not taken.
func TestStoreOfAnotherType(t *testing.T) {
	b := newBench(t)
	shops := b.op.shops
	all := kube.For[corev1.ConfigMap](shops.Client()).In(b.namespace)
	views := kube.ViewOf[mapView](shops.Client(), kube.KindOf[corev1.ConfigMap]()).In(b.namespace)
	b.filled(shops.Open(t.Context()))
	b.filled(all.Open(t.Context())) // and none of the views
	b.create("types")
	run := func(value string) error {
		s, err := shops.Get(b.soon(), "types")
		b.ok(err)
		p := plan.New(shops, s, &s.Status.Status)
		plan.Object(p, "first", all, func(plan.Inputs) (*corev1.ConfigMap, error) { return named("first", value), nil })
		plan.Object(p, "second", views, func(plan.Inputs) (*mapView, error) {
			o := &mapView{Data: map[string]string{"value": "ours"}}
			o.Name = "second"
			return o, nil
		})
		_, err = p.Run(b.soon())
		return err
	}
	b.ok(run("1"))
	b.ok(run("1"))
	is, err := all.Get(b.soon(), "second")
	b.ok(err)
	b.ok(all.Delete(b.soon(), "second"))
	_, err = all.Create(b.soon(), named("second", "theirs"))
	b.ok(err)
	kubetest.Eventually(t, "the store shows that", func() error {
		o, err := all.In(b.namespace).Cached().Get(b.soon(), "second")
		if err == nil && o.UID == is.UID {
			err = errors.New("it has the first object")
		}
		return err
	})
	if err := run("2"); !errors.Is(err, kube.ErrTaken) {
		t.Errorf("got %v, want ErrTaken", err)
	}
	if o, err := all.Get(b.soon(), "second"); err != nil || o.Data["value"] != "theirs" || len(o.OwnerReferences) > 0 {
		t.Errorf("somebody else's object is %+v, %v", o, err)
	}
}
