package controller_test

import (
	"strings"
	"testing"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/metrics"
)

// A mistake in a program's metrics is reported at its start.
func TestWrongMetrics(t *testing.T) {
	m := metrics.New()
	m.Counter("books-printed", "Books that were printed.")
	err := controller.Run(t.Context(), controller.Options{Metrics: m})
	if err == nil || !strings.Contains(err.Error(), `configure metrics: declare counter "books-printed"`) {
		t.Errorf("got %v", err)
	}
}
