package plan_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
)

// The limits of a run of a settled plan of 200 nodes.
const (
	settledTime  = 5 * time.Millisecond
	settledAlloc = 2 << 20 // bytes
)

// BenchmarkSettled checks a plan of 200 ConfigMaps, of which each needs two others, on a
// real API server with a store. Nothing is to be done. It fails if a run takes more than the
// limits, so it needs an idle machine.
func BenchmarkSettled(b *testing.B) {
	b.Run("references", func(b *testing.B) { benchmarkSettled(b, false) })
	b.Run("marks", func(b *testing.B) { benchmarkSettled(b, true) })
}

func benchmarkSettled(b *testing.B, marks bool) {
	cluster := kubetest.Start(b, kubetest.Options{ServerOnly: true})
	requests := 0
	client, err := kube.Config{Rest: cluster.Config(), Observe: func(r kube.RequestInfo) { requests++ }}.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	definition := crd.Of[Shop](crd.Options{})
	if err := crd.Install(ctx, client, definition); err != nil {
		b.Fatal(err)
	}
	ns := cluster.Namespace(b)
	shops, maps := kube.For[Shop](client).In(ns), kube.For[corev1.ConfigMap](client).In(ns)
	for _, store := range []interface{ Sync(context.Context) error }{shops.Open(ctx), maps.Open(ctx)} {
		if err := store.Sync(ctx); err != nil {
			b.Fatal(err)
		}
	}
	s := new(Shop)
	s.Name, s.Spec.Image, s.Finalizers = "large", "shop:1", []string{keeper}
	if s, err = shops.Create(ctx, s); err != nil {
		b.Fatal(err)
	}
	run := func() {
		if s, err = shops.In(s.Namespace).Cached().Get(ctx, s.Name); err != nil {
			b.Fatal(err)
		}
		p := plan.New(shops, s, &s.Status.Status)
		p.Marks = marks
		var all []plan.Need
		for i := range 200 {
			n := plan.Object(p, fmt.Sprintf("node-%d", i), maps, func(plan.Inputs) (*corev1.ConfigMap, error) {
				data := map[string]string{"a": "1", "b": fmt.Sprint(i)}
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%d", i)}, Data: data}, nil
			})
			if i > 10 {
				n.Needs(all[i-10], all[i/2])
			}
			all = append(all, n)
		}
		if _, err := p.Run(ctx); err != nil {
			b.Fatal(err)
		}
	}
	run()
	run()
	before := requests
	b.ReportAllocs()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	for b.Loop() {
		run()
	}
	runtime.ReadMemStats(&end)
	if took := b.Elapsed() / time.Duration(b.N); took > settledTime {
		b.Errorf("a settled plan of 200 nodes is checked in %s, want %s at most", took, settledTime)
	}
	if size := (end.TotalAlloc - start.TotalAlloc) / uint64(b.N); size > settledAlloc {
		b.Errorf("the check of a settled plan of 200 nodes allocates %d bytes, want %d at most", size, settledAlloc)
	}
	if requests != before {
		b.Errorf("a settled plan sends %d requests", requests-before)
	}
}
