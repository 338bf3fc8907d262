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
//	process_*, go_*                                          the process and the Go runtime
//
// and, in programs with controllers, those of controller.go.
//
// A watch is one request, however long it lasts.
package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pintle-go/pintle/kube"
)

// Metrics are a program's metrics, in a registry of their own. All methods may
// be called at any time from any goroutine.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	stores   stores

	controllers controllers
}

// New returns the metrics of the process and the Go runtime, to which clients
// and stores are added.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rest_client_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, method, and host.",
		}, []string{"code", "method", "host"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rest_client_request_duration_seconds",
			Help: "Request latency in seconds. Broken down by verb, and host.",
			// controller-runtime's.
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60},
		}, []string{"verb", "host"}),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.duration, &m.stores,
	)
	return m
}

// Observe counts a request. It is for [kube.Config].Observe, of one client or
// of several.
func (m *Metrics) Observe(r kube.RequestInfo) {
	code := "<error>"
	if r.Code != 0 {
		code = strconv.Itoa(r.Code)
	}
	m.requests.WithLabelValues(code, r.Method, r.Host).Inc()
	m.duration.WithLabelValues(r.Method, r.Host).Observe(r.Duration.Seconds())
}

// AddStore adds a store under a name, in the place of what had the name before.
// A store that has stopped is left out.
func (m *Metrics) AddStore(name string, s Store) { m.stores.add(name, s) }

// Registry returns the registry, for metrics of the program's own. It is a
// collector itself: registering it in another registry shows all of it there.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves the metrics in the text format, or in what else the request
// accepts.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
