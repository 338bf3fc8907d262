// Package workmetrics has the metrics of controllers and leases. They have the names, help
// texts and labels of controller-runtime's.
package workmetrics

import (
	"maps"
	"sync"
	"time"

	"github.com/pintle-go/pintle/metrics"
)

// Result is the outcome of a reconcile. It is a label of
// controller_runtime_reconcile_total, with the values of controller-runtime.
type Result string

const (
	Success      Result = "success"
	Failure      Result = "error"
	Requeue      Result = "requeue"       // at once
	RequeueAfter Result = "requeue_after" // after a time
)

// ControllerStats is the state of a controller.
type ControllerStats struct {
	Depth      map[string]int // keys that wait for their turn, by priority
	Active     int            // reconciles that are running
	Unfinished time.Duration  // the time that the running reconciles have taken so far, in total
	Longest    time.Duration  // the time that the longest of them has taken so far
}

// Controller counts the work of a controller.
type Controller struct {
	name                                       string
	results                                    *metrics.Family[metrics.Counter]
	errors, terminal, panics, adds, retries    *metrics.Counter
	hot                                        *metrics.Counter
	reconcileTime, queueDuration, workDuration *metrics.Histogram
}

// Reconciled counts a reconcile and its duration.
func (c *Controller) Reconciled(r Result, took time.Duration) {
	c.results.With(c.name, string(r)).Inc()
	if r == Failure {
		c.errors.Inc()
	}
	c.reconcileTime.Observe(took.Seconds())
}

// Terminal counts a failure that is not retried.
func (c *Controller) Terminal() { c.terminal.Inc() }

// Panicked counts a panic.
func (c *Controller) Panicked() { c.panics.Inc() }

// Added counts n keys that were added to the queue.
func (c *Controller) Added(n int) { c.adds.Add(float64(n)) }

// Retried counts a key that waits for its next attempt.
func (c *Controller) Retried() { c.retries.Inc() }

// Taken records the time for which a key waited for its turn.
func (c *Controller) Taken(waited time.Duration) { c.queueDuration.Observe(waited.Seconds()) }

// Worked records the time for which a key was worked on.
func (c *Controller) Worked(took time.Duration) { c.workDuration.Observe(took.Seconds()) }

// HotLoop counts an object that reconciles in an endless loop.
func (c *Controller) HotLoop() { c.hot.Inc() }

// Controller returns the counters of a controller. Each scrape calls stats.
func (w *Work) Controller(name string, concurrency int, stats func() ControllerStats) *Controller {
	for _, r := range []Result{Success, Failure, Requeue, RequeueAfter} {
		w.results.With(name, string(r)) // shown as 0 until there is one
	}
	w.add(name, runningController{concurrency, stats})
	return &Controller{
		name:          name,
		results:       w.results,
		errors:        w.errors.With(name),
		terminal:      w.terminal.With(name),
		panics:        w.panics.With(name),
		hot:           w.hot.With(name),
		adds:          w.adds.With(name, name),
		retries:       w.retries.With(name, name),
		reconcileTime: w.reconcileTime.With(name),
		queueDuration: w.queueDuration.With(name, name),
		workDuration:  w.workDuration.With(name, name),
	}
}

// Leader records whether this process holds a lease.
func (w *Work) Leader(lease string, held bool) {
	value := 0.0
	if held {
		value = 1
	}
	w.leader.With(lease).Set(value)
}

// Work holds the metrics of the controllers and the lease of one run. A program may run
// several times with the same metrics; the counts go on.
type Work struct {
	results, errors, terminal, panics, hot, adds, retries *metrics.Family[metrics.Counter]
	reconcileTime, queueDuration, workDuration            *metrics.Family[metrics.Histogram]
	leader                                                *metrics.Family[metrics.Gauge]

	// Each scrape reads their values from stats.
	concurrency, active, depth, unfinished, longest *metrics.Family[metrics.Gauge]

	mu      sync.Mutex
	running map[string]runningController
}

type runningController struct {
	concurrency int
	stats       func() ControllerStats
}

// New declares the metrics. The caller must close the Work.
func New(m *metrics.Metrics) *Work {
	w := &Work{
		results: m.Counter(
			"controller_runtime_reconcile_total", "Total number of reconciliations per controller and result.", "controller",
			"result",
		),
		errors: m.Counter(
			"controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller.", "controller",
		),
		terminal: m.Counter(
			"controller_runtime_terminal_reconcile_errors_total",
			"Total number of terminal reconciliation errors per controller.", "controller",
		),
		panics: m.Counter(
			"controller_runtime_reconcile_panics_total", "Total number of reconciliation panics per controller.", "controller",
		),
		hot: m.Counter(
			"pintle_controller_hot_loops_total",
			"Number of objects that were found to reconcile without end because of their own writes.", "controller",
		),
		adds:    m.Counter("workqueue_adds_total", "Total number of keys added to the queue.", "name", "controller"),
		retries: m.Counter("workqueue_retries_total", "Total number of retries of failed reconciles.", "name", "controller"),

		reconcileTime: m.Histogram(
			"controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller.",
			reconcileBounds(), "controller",
		),
		queueDuration: m.Histogram(
			"workqueue_queue_duration_seconds", "Time that a key waits for its turn.", queueBounds(), "name", "controller",
		),
		workDuration: m.Histogram(
			"workqueue_work_duration_seconds", "Time that the work on a key takes.", queueBounds(), "name", "controller",
		),

		leader: m.Gauge("leader_election_master_status", "Whether this process holds the lease: 1 if it does.", "name"),

		concurrency: m.Gauge(
			"controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller.",
			"controller",
		),
		active: m.Gauge(
			"controller_runtime_active_workers", "Number of currently used workers per controller.", "controller",
		),
		depth: m.Gauge(
			"workqueue_depth", "Number of keys that wait for their turn, by priority.", "name", "controller", "priority",
		),
		unfinished: m.Gauge(
			"workqueue_unfinished_work_seconds", "Total time that the running reconciles have taken so far.", "name",
			"controller",
		),
		longest: m.Gauge(
			"workqueue_longest_running_processor_seconds", "Time that the longest running reconcile has taken so far.", "name",
			"controller",
		),

		running: make(map[string]runningController),
	}
	m.Collect(w.collect)
	return w
}

// reconcileBounds returns controller-runtime's bounds.
func reconcileBounds() []float64 {
	return []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
		1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}
}

// queueBounds returns controller-runtime's bounds: powers of ten from 10 ns to 1,000 s,
// with the rounding errors of its multiplications. The text of a bound is part of the
// name of a series.
func queueBounds() []float64 {
	bounds := make([]float64, 12)
	for i, v := 0, 10e-9; i < len(bounds); i, v = i+1, v*10 {
		bounds[i] = v
	}
	return bounds
}

func (w *Work) add(name string, c runningController) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[name] = c
}

// Close ends the values that are read at each scrape, such as the number of running
// reconciles. The counts stay.
func (w *Work) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.running)
}

func (w *Work) collect(s *metrics.Scrape) {
	w.mu.Lock()
	running := maps.Clone(w.running)
	w.mu.Unlock()
	for name, c := range running {
		stats := c.stats()
		s.Gauge(w.concurrency, float64(c.concurrency), name)
		s.Gauge(w.active, float64(stats.Active), name)
		for priority, n := range stats.Depth {
			s.Gauge(w.depth, float64(n), name, name, priority)
		}
		s.Gauge(w.unfinished, stats.Unfinished.Seconds(), name, name)
		s.Gauge(w.longest, stats.Longest.Seconds(), name, name)
	}
}
