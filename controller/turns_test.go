package controller

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// BenchmarkTurns measures the work from a request to the end of a reconcile that does
// nothing, for 5,000 small objects that four sources ask for.
func BenchmarkTurns(b *testing.B) {
	const objects, sources = 5000, 4
	server := newPlayed()
	keys := make([]kube.Key, objects)
	for i := range keys {
		keys[i] = named(fmt.Sprint(i))
		server.put(keys[i].Name, func(*gizmo) {})
	}
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: server}}.Connect()
	if err != nil {
		b.Fatal(err)
	}
	var worked atomic.Int64
	turns := make([]atomic.Int64, objects)
	started := make(chan *engine[gizmo], 1)
	c := Controller[gizmo]{
		For: kube.For[gizmo](client).In("default"),
		Reconcile: func(_ context.Context, g *gizmo) (Action, error) {
			k, err := strconv.Atoi(g.Name)
			turns[k].Add(1)
			worked.Add(1)
			return Done, err
		},
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Options{Logger: slog.New(slog.DiscardHandler)}, spied{c, started}) }()
	e := <-started
	kubetest.Eventually(b, "all objects have had their first turn", func() error {
		if n := worked.Load(); n < objects {
			return fmt.Errorf("%d of %d", n, objects)
		}
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	var asking sync.WaitGroup
	for source := range sources {
		asking.Go(func() {
			for i := source; i < b.N; i += sources {
				k := i % objects // of this source alone
				for turns[k].Load() < int64(1+i/objects) {
					time.Sleep(20 * time.Microsecond) // the last turn of the object has not ended
				}
				askFor(e, request{key: keys[k], priority: live, cause: Cause{Reason: Listed}})
			}
		})
	}
	asking.Wait()
	for worked.Load() < int64(objects+b.N) {
		time.Sleep(time.Millisecond) // it is part of the measurement
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/turn")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func askFor(e *engine[gizmo], r request) { e.current.Load().ask(r) }

// cpuTime returns the processor time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
