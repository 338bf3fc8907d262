package metrics_test

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
)

// Prometheus' Go library wrote own.txt for the metrics that it has in common with this
// package. Dashboards and alerts depend on their names, help texts, types, labels and
// bounds.
//
//go:embed testdata/own.txt
var ownText string

func TestOwn(t *testing.T) {
	m := metrics.New()
	for _, code := range []int{0, 200, 404} {
		m.Observe(
			kube.RequestInfo{
				Verb: "get", Method: "GET", Host: "[::1]:443", Code: code, Duration: time.Duration(code+1) * time.Millisecond,
			},
		)
	}
	m.Observe(
		kube.RequestInfo{Verb: "apply", Method: "PATCH", Host: "10.0.0.1:443", Code: 200, Duration: 61 * time.Second},
	)
	m.AddStore("books", &store{stats: kube.StoreStats{Objects: 20000, Bytes: 61_000_000}, synced: true})
	m.AddStore("pods", &store{})
	m.Leader("held", true)
	m.Leader("lost", false)
	for _, name := range []string{"echo", "book"} {
		c := m.Controller(name, 4, func() metrics.ControllerStats {
			return metrics.ControllerStats{
				Depth: map[string]int{"high": 3, "low": 1}, Active: 2, Unfinished: 1500 * time.Millisecond, Longest: time.Second,
			}
		})
		for i, r := range []metrics.Result{metrics.Success, metrics.Failure, metrics.Requeue, metrics.RequeueAfter, metrics.Success} {
			c.Reconciled(r, time.Duration(i*i)*70*time.Millisecond)
			c.Worked(time.Duration(i*i) * 70 * time.Millisecond)
			c.Taken(time.Duration(i*i*i) * time.Microsecond)
		}
		c.Terminal()
		c.Panicked()
		c.Added(7)
		c.Retried()
		c.HotLoop()
	}
	got, want := strings.SplitAfter(own(scrape(t, m.Handler())), "\n"), strings.SplitAfter(ownText, "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d:\ngot  %q\nwant %q", i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
}
