package workmetrics_test

import (
	_ "embed"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/workmetrics"
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
	m.AddStore("books", store{stats: kube.StoreStats{Objects: 20000, Bytes: 61_000_000}, synced: true})
	m.AddStore("pods", store{})
	w := workmetrics.New(m)
	w.Leader("held", true)
	w.Leader("lost", false)
	for _, name := range []string{"echo", "book"} {
		c := w.Controller(name, 4, func() workmetrics.ControllerStats {
			return workmetrics.ControllerStats{
				Depth: map[string]int{"high": 3, "low": 1}, Active: 2, Unfinished: 1500 * time.Millisecond, Longest: time.Second,
			}
		})
		for i, r := range []workmetrics.Result{workmetrics.Success, workmetrics.Failure, workmetrics.Requeue, workmetrics.RequeueAfter, workmetrics.Success} {
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
	got, want := strings.SplitAfter(own(text(t, m)), "\n"), strings.SplitAfter(ownText, "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d:\ngot  %q\nwant %q", i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
}

// A program runs twice with the same metrics. The counts go on, and the values of the first
// run end with it.
func TestRunAgain(t *testing.T) {
	m := metrics.New()
	run := func(active int) *workmetrics.Work {
		w := workmetrics.New(m)
		w.Controller("echo", 4, func() workmetrics.ControllerStats {
			return workmetrics.ControllerStats{Active: active}
		}).Added(2)
		return w
	}
	const adds, workers = `workqueue_adds_total{controller="echo",name="echo"} `, `active_workers{controller="echo"} `
	first := run(1)
	if got := text(t, m); !strings.Contains(got, adds+"2\n") || !strings.Contains(got, workers+"1\n") {
		t.Errorf("while it runs:\n%s", own(got))
	}
	first.Close()
	if got := text(t, m); !strings.Contains(got, adds+"2\n") || strings.Contains(got, workers) {
		t.Errorf("after the first run:\n%s", own(got))
	}
	second := run(3)
	defer second.Close()
	if got := text(t, m); !strings.Contains(got, adds+"4\n") || !strings.Contains(got, workers+"3\n") {
		t.Errorf("in the second run:\n%s", own(got))
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

// TestNoAllocations checks that counting a reconcile allocates nothing.
func TestNoAllocations(t *testing.T) {
	w := workmetrics.New(metrics.New())
	c := w.Controller("echo", 1, func() workmetrics.ControllerStats { return workmetrics.ControllerStats{} })
	if n := testing.AllocsPerRun(100, func() { c.Reconciled(workmetrics.Success, 1) }); n != 0 {
		t.Errorf("Reconciled allocates %v times", n)
	}
}

type store struct {
	stats  kube.StoreStats
	synced bool
}

func (s store) Stats() kube.StoreStats { return s.stats }
func (s store) Synced() bool           { return s.synced }
func (s store) Done() <-chan struct{}  { return nil }

func text(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	var b strings.Builder
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// own returns a text without the metrics that every program has.
func own(text string) string {
	always := regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(go_|process_|pintle_metrics_).*\n`)
	return always.ReplaceAllString(text, "")
}
