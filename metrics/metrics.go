// Package metrics turns what a kube client does into Prometheus metrics, under
// the names that client-go and controller-runtime use where the meaning is the
// same, so that dashboards and alerts for those go on working.
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
//	pintle_store_bytes{store}                                what they take, encoded
//	pintle_store_last_event_age_seconds{store}               time since the server was last heard of; absent before the first sync
//	pintle_metrics_errors                                    what [Metrics.Err] says, and what could not be appended
//	process_*, go_*                                          the process and the Go runtime, as Prometheus' own Go library has them
//
// and, in programs with controllers, those of controller.go.
//
// A watch is one request, however long it lasts.
//
// # Metrics of a program's own
//
// They are declared once, with the names of their labels; With gives the one of
// some values, to be kept where it is used often:
//
//	printed := m.Counter("books_printed_total", "Books that were printed.", "language")
//	seconds := m.Histogram("books_print_seconds", "How long a book took to print.", nil)
//
//	english := printed.With("en")
//	english.Inc()
//	seconds.With().Observe(time.Since(begun).Seconds())
//
// What costs something to find out, or is known elsewhere, is asked for when
// somebody asks for the metrics:
//
//	paper := m.Gauge("books_paper_sheets", "Sheets that are left.", "printer")
//	m.Collect(func(s *metrics.Scrape) {
//		for _, p := range printers() {
//			s.Gauge(paper, float64(p.Sheets()), p.Name)
//		}
//	})
//
// Counting takes no lock and allocates nothing. What is declared or used wrongly
// does not panic: it goes on working unseen, [Metrics.Err] says what is wrong,
// which controller.Run returns at its start, pintle_metrics_errors counts it, and
// comments at the end of the text name it.
//
// Every combination of values that was ever used is kept and shown until it is
// deleted: some tens for a label are well, names and UIDs of objects are not, for
// they take memory here and far more in Prometheus. What is told of each object
// belongs into its status, an event or the log.
//
// # Metrics of Prometheus' Go library
//
// A program that has metrics of github.com/prometheus/client_golang shows them
// too with
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
// The other way round, [Metrics.WriteTo] writes what expfmt.TextParser reads.
package metrics

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Metrics are a program's metrics. All methods may be called at any time from any
// goroutine.
type Metrics struct {
	mu         sync.Mutex
	families   map[string]*family // by name
	taken      map[string]string  // names of samples: the families they are of
	collectors []func(*Scrape)
	appended   []func(io.Writer) error
	mistakes   []error

	size atomic.Int64 // of the last text

	wrong       *Family[Gauge]
	requests    requests
	stores      *stores
	controllers *controllers
}

// New returns the metrics of the process and the Go runtime, to which clients,
// stores and a program's own are added.
func New() *Metrics {
	m := &Metrics{families: make(map[string]*family), taken: make(map[string]string)}
	m.wrong = m.Gauge("pintle_metrics_errors", "Number of metrics that are declared or used wrongly, or could not be appended. Comments at the end say which.")
	m.requests = newRequests(m)
	m.stores = newStores(m)
	m.controllers = newControllers(m)
	collectGo(m)
	collectProcess(m)
	return m
}

// Counter declares counts of what happens: they only grow. Their name ends in
// _total by convention, and names the unit before that if there is one.
//
// A name is of letters, digits, underscores and colons, a label's of letters,
// digits and underscores, and neither begins with a digit. What is declared again
// in the same words is the same. Of what is declared wrongly, or otherwise than
// before, see [Metrics.Err].
func (m *Metrics) Counter(name, help string, labels ...string) *Family[Counter] {
	return &Family[Counter]{m.declare(counter, name, help, nil, labels)}
}

// Gauge declares values that rise and fall. For names see [Metrics.Counter].
func (m *Metrics) Gauge(name, help string, labels ...string) *Family[Gauge] {
	return &Family[Gauge]{m.declare(gauge, name, help, nil, labels)}
}

// Histogram declares distributions of values, such as durations in seconds: how
// many are at most each of the bounds, which ascend. Without bounds they are
// those that Prometheus' libraries have, for durations from 5 ms to 10 s. For
// names see [Metrics.Counter]; le is no label of a histogram's.
//
// Each bound is a time series for each combination of values.
func (m *Metrics) Histogram(name, help string, bounds []float64, labels ...string) *Family[Histogram] {
	if len(bounds) == 0 {
		bounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	}
	return &Family[Histogram]{m.declare(histogram, name, help, bounds, labels)}
}

// Collect has a function called whenever somebody asks for the metrics, by the
// goroutine that asks, of which there can be several at a time. It should take
// milliseconds at most.
func (m *Metrics) Collect(report func(*Scrape)) {
	if report == nil {
		m.note(errors.New("collect metrics: the function is nil"))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collectors = append(m.collectors, report)
}

// Append has a function called whenever somebody asks for the metrics, which
// writes more of them in the text format, such as those of another library.
// Families that are there already are left out, so that the Go runtime and the
// process are shown once. If it returns an error, what it wrote is left out.
func (m *Metrics) Append(write func(io.Writer) error) {
	if write == nil {
		m.note(errors.New("append metrics: the function is nil"))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.appended = append(m.appended, write)
}

// Err returns what was declared or used wrongly so far, joined, or nil. These are
// mistakes of the program: a name that is none, the same one for different
// things, a wrong number of values, a counter that is to fall. Of each family the
// first wrong use is told, and of all the first hundred.
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
