// Package metrics turns the work of a kube client into Prometheus metrics. A metric has
// the name that client-go or controller-runtime uses if the meaning is the same, so
// dashboards and alerts for those continue to work.
//
//	m := metrics.New()
//	client, err := kube.Config{Observe: m.Observe}.Connect()
//	books := kube.For[Book](client).Store(ctx)
//	m.AddStore("books", books)
//	http.Handle("/metrics", m.Handler())
//
// The metrics are:
//
//	rest_client_requests_total{code,method,host}             requests; code is <error> if there was no answer
//	rest_client_request_duration_seconds{verb,host}          time until the answer's headers; verb is the HTTP method
//	pintle_store_synced{store}                               1 after the first sync
//	pintle_store_objects{store}                              objects in a store
//	pintle_store_bytes{store}                                their encoded size
//	pintle_store_last_event_age_seconds{store}               time since the server last sent something; absent before the first sync
//	pintle_metrics_errors                                    mistakes of [Metrics.Err], and metrics that could not be appended
//	process_*, go_*                                          the process and the Go runtime, as Prometheus' own Go library has them
//
// and, in programs with controllers:
//
//	controller_runtime_*, workqueue_*, leader_election_master_status  as controller-runtime has them
//	pintle_controller_hot_loops_total{controller}                     hot loops and fights with other writers that were reported
//
// A watch is one request, however long it lasts.
//
// # Metrics of a program's own
//
// Declare a metric once, with the names of its labels. With returns the metric for some
// label values. Keep the result where it is used often:
//
//	printed := m.Counter("books_printed_total", "Books that were printed.", "language")
//	seconds := m.Histogram("books_print_seconds", "How long a book took to print.", nil)
//
//	english := printed.With("en")
//	english.Inc()
//	seconds.With().Observe(time.Since(begun).Seconds())
//
// Some values are expensive to find out or are kept elsewhere. Collect registers a
// function that reports such values at each scrape:
//
//	paper := m.Gauge("books_paper_sheets", "Sheets that are left.", "printer")
//	m.Collect(func(s *metrics.Scrape) {
//		for _, p := range printers() {
//			s.Gauge(paper, float64(p.Sheets()), p.Name)
//		}
//	})
//
// Counting takes no lock and allocates nothing. A wrong declaration or use does not
// panic: the metric works, but no scrape shows it. [Metrics.Err] returns such mistakes,
// controller.Run returns them at its start, pintle_metrics_errors counts them, and
// comments at the end of the text name them.
//
// Every combination of label values is kept and shown until it is deleted. Some tens of
// values for a label are fine. Do not use names and UIDs of objects: they take memory
// here and far more in Prometheus. Information about a single object belongs in its
// status, in an event or in the log.
//
// # Metrics of Prometheus' Go library
//
// A program that has metrics of github.com/prometheus/client_golang shows them too with
//
//	m.Append(func(w io.Writer) error {
//		families, err := prometheus.DefaultGatherer.Gather()
//		for _, f := range families {
//			_, failed := expfmt.MetricFamilyToText(w, f)
//			err = errors.Join(err, failed)
//		}
//		return err
//	})
//
// In the other direction, expfmt.TextParser reads the output of [Metrics.WriteTo].
package metrics

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Metrics holds the metrics of a program. Any goroutine may call its methods at any time.
// Its counterpart in controller-runtime is metrics.Registry.
type Metrics struct {
	mu         sync.Mutex
	families   map[string]*family // by name
	taken      map[string]string  // names of samples, with their families
	collectors []func(*Scrape)
	appended   []func(io.Writer) error
	mistakes   []error

	size atomic.Int64 // of the last text

	wrong    *Family[Gauge]
	requests requests
	stores   *stores
}

// New returns metrics that contain those of the process and of the Go runtime. Clients,
// stores and the program add theirs.
func New() *Metrics {
	m := &Metrics{families: make(map[string]*family), taken: make(map[string]string)}
	m.wrong = m.Gauge(
		"pintle_metrics_errors",
		"Number of metrics that are declared or used wrongly, or could not be appended. Comments at the end name them.",
	)
	m.requests = newRequests(m)
	m.stores = newStores(m)
	collectGo(m)
	collectProcess(m)
	return m
}

// Counter declares counts of events. A count only grows. By convention its name ends in
// _total, after the unit if there is one.
//
// A metric's name has only letters, digits, underscores and colons. A label's name has
// only letters, digits and underscores. Neither begins with a digit. A declaration that
// is repeated word by word returns the same family. For a wrong declaration, and for one
// that differs from an earlier one, see [Metrics.Err].
func (m *Metrics) Counter(name, help string, labels ...string) *Family[Counter] {
	return &Family[Counter]{m.declare(counter, name, help, nil, labels)}
}

// Gauge declares values that rise and fall. For names see [Metrics.Counter].
func (m *Metrics) Gauge(name, help string, labels ...string) *Family[Gauge] {
	return &Family[Gauge]{m.declare(gauge, name, help, nil, labels)}
}

// Histogram declares distributions of values, such as durations in seconds. For each
// bound it counts the values that are at most the bound. Bounds ascend. The default
// bounds are those of Prometheus' libraries, for durations from 5 ms to 10 s. For names
// see [Metrics.Counter]; le cannot be a label of a histogram.
//
// Each bound is a time series for each combination of label values.
func (m *Metrics) Histogram(name, help string, bounds []float64, labels ...string) *Family[Histogram] {
	if len(bounds) == 0 {
		bounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	}
	return &Family[Histogram]{m.declare(histogram, name, help, bounds, labels)}
}

// Collect registers a function that each scrape calls. The goroutine of the scrape calls
// it, and several scrapes can run at a time. The function should take milliseconds at
// most. A read of a store waits until the store is filled, so give it a context with a
// deadline. Its counterpart is prometheus.Collector of client_golang.
func (m *Metrics) Collect(report func(*Scrape)) {
	if report == nil {
		m.note(errors.New("collect metrics: the function is nil"))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collectors = append(m.collectors, report)
}

// Append registers a function that each scrape calls. The function writes further metrics
// in the text format, such as those of another library. Series that already exist are left
// out, so the Go runtime and the process are shown once. A family may have series of both,
// as in a program that is moved from controller-runtime; if its types differ, that of the
// text is left out, which [Metrics.Err] tells. If the function returns an error, all of its
// text is left out.
func (m *Metrics) Append(write func(io.Writer) error) {
	if write == nil {
		m.note(errors.New("append metrics: the function is nil"))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appended = append(m.appended, write)
}

// Err returns the wrong declarations and uses so far, joined, or nil. They are mistakes
// of the program: an invalid name, one name for different things, a wrong number of
// values, a counter that should fall. Err has the first wrong use of each family, and the
// first hundred mistakes in total.
func (m *Metrics) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.mistakes...)
}

func (m *Metrics) note(mistake error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noteLocked(mistake)
}

func (m *Metrics) noteLocked(mistake error) {
	if len(m.mistakes) < 100 {
		m.mistakes = append(m.mistakes, mistake)
	}
}
