package metrics

import (
	"strconv"

	"github.com/pintle-go/pintle/kube"
)

// requests counts the requests that clients send.
type requests struct {
	total    *Family[Counter]
	duration *Family[Histogram]
}

func newRequests(m *Metrics) requests {
	return requests{
		total: m.Counter(
			"rest_client_requests_total", "Number of HTTP requests, partitioned by status code, method, and host.", "code",
			"method", "host",
		),
		duration: m.Histogram(
			"rest_client_request_duration_seconds",
			"Request latency in seconds. Broken down by verb, and host.",
			[]float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}, // controller-runtime's bounds
			"verb",
			"host",
		),
	}
}

// Observe counts a request. Set [kube.Config].Observe of one or several clients to it.
func (m *Metrics) Observe(r kube.RequestInfo) {
	code := "<error>"
	if r.Code != 0 {
		code = strconv.Itoa(r.Code)
	}
	m.requests.total.With(code, r.Method, r.Host).Inc()
	m.requests.duration.With(r.Method, r.Host).Observe(r.Duration.Seconds())
}
