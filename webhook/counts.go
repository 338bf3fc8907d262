package webhook

import (
	"strconv"
	"time"

	"github.com/pintle-go/pintle/metrics"
)

// counts are the metrics of hooks. They have the names, help texts and labels of controller-runtime's.
type counts struct {
	requests           *metrics.Family[metrics.Counter]
	latency            *metrics.Family[metrics.Histogram]
	inFlight, outlived *metrics.Family[metrics.Gauge]
	panics             *metrics.Counter
}

func newCounts(m *metrics.Metrics) *counts {
	if m == nil {
		m = metrics.New()
	}
	return &counts{
		requests: m.Counter(
			"controller_runtime_webhook_requests_total", "Total number of admission requests by HTTP status code.",
			"webhook", "code",
		),
		latency: m.Histogram(
			"controller_runtime_webhook_latency_seconds", "Histogram of the latency of processing admission requests",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "webhook",
		),
		inFlight: m.Gauge(
			"controller_runtime_webhook_requests_in_flight", "Current number of admission requests being served.", "webhook",
		),
		panics: m.Counter("controller_runtime_webhook_panics_total", "Total number of webhook panics").With(),
		outlived: m.Gauge(
			"pintle_webhook_outlived_functions", "Number of functions that are still running after their time.", "webhook",
		),
	}
}

// show makes the series of a hook, which are 0 until there is a request.
func (c *counts) show(path string) {
	c.requests.With(path, "200")
	c.requests.With(path, "500")
	c.latency.With(path)
	c.inFlight.With(path)
	c.outlived.With(path)
}

func (c *counts) begin(path string) { c.inFlight.With(path).Inc() }

func (c *counts) end(path string, code int, took time.Duration) {
	c.inFlight.With(path).Dec()
	c.requests.With(path, strconv.Itoa(code)).Inc()
	c.latency.With(path).Observe(took.Seconds())
}

func (c *counts) panicked() { c.panics.Inc() }
