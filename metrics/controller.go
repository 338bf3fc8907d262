package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Result is what a reconcile ended with, in controller_runtime_reconcile_total.
type Result string

const (
	Success      Result = "success"
	Failure      Result = "error"
	Requeue      Result = "requeue"       // again at once
	RequeueAfter Result = "requeue_after" // again after a time
)

// ControllerStats are how things are in a controller.
type ControllerStats struct {
	Depth      map[string]int // keys that wait for their turn, by priority
	Active     int            // reconciles that are running
	Unfinished time.Duration  // what they have taken so far, together
	Longest    time.Duration  // what the longest of them has taken so far
}

// Controller counts what a controller does.
type Controller struct {
	results                                    map[Result]prometheus.Counter
	errors, terminal, panics, adds, retries    prometheus.Counter
	hot                                        prometheus.Counter
	reconcileTime, queueDuration, workDuration prometheus.Observer
}

// Reconciled counts a reconcile and how long it took.
func (c *Controller) Reconciled(r Result, took time.Duration) {
	c.results[r].Inc()
	if r == Failure {
		c.errors.Inc()
	}
	c.reconcileTime.Observe(took.Seconds())
}

// Terminal counts a failure that is not tried again.
func (c *Controller) Terminal() { c.terminal.Inc() }

// Panicked counts a panic.
func (c *Controller) Panicked() { c.panics.Inc() }

// Added counts keys that were added to the queue.
func (c *Controller) Added(n int) { c.adds.Add(float64(n)) }

// Retried counts a key that waits for its next try.
func (c *Controller) Retried() { c.retries.Inc() }

// Taken notes how long a key has waited for its turn.
func (c *Controller) Taken(waited time.Duration) { c.queueDuration.Observe(waited.Seconds()) }

// Worked notes how long a key was worked on.
func (c *Controller) Worked(took time.Duration) { c.workDuration.Observe(took.Seconds()) }

// HotLoop counts an object that was found to reconcile without end.
func (c *Controller) HotLoop() { c.hot.Inc() }

// controllers are the metrics of all controllers. They are registered when the
// first is added, so that programs without have none.
type controllers struct {
	once    sync.Once
	results *prometheus.CounterVec
	counts  map[string]*prometheus.CounterVec
	times   map[string]*prometheus.HistogramVec
	leader  *prometheus.GaugeVec
	live    liveControllers
}

// Controller returns the counters of a controller, whose stats are asked for
// when somebody asks for the metrics. A second one of a name takes the place of the
// first, and goes on counting where that has ended.
func (m *Metrics) Controller(name string, concurrency int, stats func() ControllerStats) *Controller {
	m.controllers.register(m.registry)
	c := &Controller{results: make(map[Result]prometheus.Counter)}
	for _, r := range []Result{Success, Failure, Requeue, RequeueAfter} {
		c.results[r] = m.controllers.results.WithLabelValues(name, string(r))
	}
	count := func(metric string, labels ...string) prometheus.Counter {
		return m.controllers.counts[metric].WithLabelValues(labels...)
	}
	c.errors = count("controller_runtime_reconcile_errors_total", name)
	c.terminal = count("controller_runtime_terminal_reconcile_errors_total", name)
	c.panics = count("controller_runtime_reconcile_panics_total", name)
	c.hot = count("pintle_controller_hot_loops_total", name)
	c.adds = count("workqueue_adds_total", name, name)
	c.retries = count("workqueue_retries_total", name, name)
	c.reconcileTime = m.controllers.times["controller_runtime_reconcile_time_seconds"].WithLabelValues(name)
	c.queueDuration = m.controllers.times["workqueue_queue_duration_seconds"].WithLabelValues(name, name)
	c.workDuration = m.controllers.times["workqueue_work_duration_seconds"].WithLabelValues(name, name)
	m.controllers.live.add(name, concurrency, stats)
	return c
}

// Leader notes whether this process holds a lease.
func (m *Metrics) Leader(lease string, held bool) {
	m.controllers.register(m.registry)
	value := 0.0
	if held {
		value = 1
	}
	m.controllers.leader.WithLabelValues(lease).Set(value)
}

// reconcileBuckets are controller-runtime's.
var reconcileBuckets = []float64{
	0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
	1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
}

func (cs *controllers) register(registry *prometheus.Registry) {
	cs.once.Do(func() {
		cs.counts = make(map[string]*prometheus.CounterVec)
		cs.times = make(map[string]*prometheus.HistogramVec)
		counter := func(name, help string, labels ...string) *prometheus.CounterVec {
			v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
			cs.counts[name] = v
			registry.MustRegister(v)
			return v
		}
		histogram := func(name, help string, buckets []float64, labels ...string) {
			v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
			cs.times[name] = v
			registry.MustRegister(v)
		}
		queueBuckets := prometheus.ExponentialBuckets(10e-9, 10, 12) // controller-runtime's
		cs.results = counter("controller_runtime_reconcile_total", "Total number of reconciliations per controller and result.", "controller", "result")
		counter("controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller.", "controller")
		counter("controller_runtime_terminal_reconcile_errors_total", "Total number of terminal reconciliation errors per controller.", "controller")
		counter("controller_runtime_reconcile_panics_total", "Total number of reconciliation panics per controller.", "controller")
		counter("pintle_controller_hot_loops_total", "Number of objects found to reconcile without end because of what their reconcile writes.", "controller")
		counter("workqueue_adds_total", "Total number of keys added to the queue.", "name", "controller")
		counter("workqueue_retries_total", "Total number of retries of failed reconciles.", "name", "controller")
		histogram("controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller.", reconcileBuckets, "controller")
		histogram("workqueue_queue_duration_seconds", "How long a key waits for its turn.", queueBuckets, "name", "controller")
		histogram("workqueue_work_duration_seconds", "How long a key is worked on.", queueBuckets, "name", "controller")
		cs.leader = prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "leader_election_master_status", Help: "Whether this process holds the lease: 1 if it does.",
		}, []string{"name"})
		registry.MustRegister(cs.leader, &cs.live)
	})
}

var (
	maxConcurrent = prometheus.NewDesc("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller.", []string{"controller"}, nil)
	activeWorkers = prometheus.NewDesc("controller_runtime_active_workers", "Number of currently used workers per controller.", []string{"controller"}, nil)
	queueDepth    = prometheus.NewDesc("workqueue_depth", "Number of keys that wait for their turn, by priority.", []string{"name", "controller", "priority"}, nil)
	unfinished    = prometheus.NewDesc("workqueue_unfinished_work_seconds", "What the running reconciles have taken so far, together.", []string{"name", "controller"}, nil)
	longest       = prometheus.NewDesc("workqueue_longest_running_processor_seconds", "What the longest running reconcile has taken so far.", []string{"name", "controller"}, nil)
)

// liveControllers asks the controllers only when somebody asks for the metrics.
type liveControllers struct {
	mu     sync.Mutex
	byName map[string]liveController
}

type liveController struct {
	concurrency int
	stats       func() ControllerStats
}

func (l *liveControllers) add(name string, concurrency int, stats func() ControllerStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = make(map[string]liveController)
	}
	l.byName[name] = liveController{concurrency, stats}
}

func (l *liveControllers) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{maxConcurrent, activeWorkers, queueDepth, unfinished, longest} {
		ch <- d
	}
}

func (l *liveControllers) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.byName {
		gauge := func(d *prometheus.Desc, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
		}
		s := c.stats()
		gauge(maxConcurrent, float64(c.concurrency), name)
		gauge(activeWorkers, float64(s.Active), name)
		for priority, n := range s.Depth {
			gauge(queueDepth, float64(n), name, name, priority)
		}
		gauge(unfinished, s.Unfinished.Seconds(), name, name)
		gauge(longest, s.Longest.Seconds(), name, name)
	}
}
