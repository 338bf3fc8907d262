package plan_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// The object of a node for which there is nothing to do is decoded when somebody reads it:
// with all fields, also those of others.
func TestObjectsOfSettledNodesAreRead(t *testing.T) {
	b := newBench(t)
	shops := b.operator(func(r kube.RequestInfo) {
		if r.Method != http.MethodGet {
			b.writes.Add(1)
		}
	}).shops
	maps := kube.For[corev1.ConfigMap](shops.Client()).In(b.namespace)
	for _, store := range []interface{ Sync(context.Context) error }{shops.Open(t.Context()), maps.Open(t.Context())} {
		b.ok(store.Sync(b.soon()))
	}
	s := new(Shop)
	s.Name, s.Namespace, s.Spec.Image = "reads", b.namespace, "shop:1"
	s, err := shops.Create(b.soon(), s)
	b.ok(err)
	run := func() (last *corev1.ConfigMap, writes int32) {
		t.Helper()
		s, err := shops.In(s.Namespace).Cached().Get(b.soon(), s.Name)
		b.ok(err)
		p := plan.New(shops, s, &s.Status.Status)
		first := plan.Object(p, "first", maps, func(plan.Inputs) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Data: map[string]string{"own": "1"}}, nil
		})
		plan.Object(p, "second", maps, func(in plan.Inputs) (*corev1.ConfigMap, error) {
			is := first.From(in)
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Data: map[string]string{
				"own": is.Data["own"], "theirs": is.Data["theirs"], "uid": string(is.UID),
			}}, nil
		}).Needs(first)
		p.Report = func() { last = first.Last() }
		before := b.writes.Load()
		_, err = p.Run(b.soon())
		b.ok(err)
		return last, b.writes.Load() - before
	}
	for end := time.Now().Add(patience); ; {
		if _, writes := run(); writes == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatal("the plan does not settle")
		}
	}
	last, _ := run()
	if last == nil || last.Data["own"] != "1" || last.UID == "" {
		t.Errorf("Last returned %+v", last)
	}
	_, err = maps.Modify(b.soon(), "first", func(o *corev1.ConfigMap) error { o.Data["theirs"] = "2"; return nil })
	b.ok(err)
	run()
	second, err := maps.Get(b.soon(), "second")
	b.ok(err)
	if second.Data["theirs"] != "2" || second.Data["uid"] != string(last.UID) || second.Data["own"] != "1" {
		t.Errorf("the second has read %v", second.Data)
	}
}
