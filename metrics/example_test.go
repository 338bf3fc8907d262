package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/pintle-go/pintle/metrics"
)

// A program counts its work and reports values at each scrape.
func Example() {
	m := metrics.New()
	printed := m.Counter("books_printed_total", "Books that were printed.", "language")
	seconds := m.Histogram("books_print_seconds", "How long a book took to print.", []float64{1, 60})
	paper := m.Gauge("books_paper_sheets", "Sheets that are left.", "printer")
	m.Collect(func(s *metrics.Scrape) {
		for printer, sheets := range map[string]int{"cellar": 500, "attic": 20} {
			s.Gauge(paper, float64(sheets), printer)
		}
	})
	if err := m.Err(); err != nil {
		fmt.Println(err)
	}

	english := printed.With("en")
	english.Inc()
	seconds.With().Observe((3 * time.Second).Seconds())

	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "books_") {
			fmt.Print(line)
		}
	}
	// Output:
	// books_paper_sheets{printer="attic"} 20
	// books_paper_sheets{printer="cellar"} 500
	// books_print_seconds_bucket{le="1"} 0
	// books_print_seconds_bucket{le="60"} 1
	// books_print_seconds_bucket{le="+Inf"} 1
	// books_print_seconds_sum 3
	// books_print_seconds_count 1
	// books_printed_total{language="en"} 1
}

// Err returns the mistakes of the program. All other metrics work.
func ExampleMetrics_Err() {
	m := metrics.New()
	m.Counter("books-printed", "Books that were printed.").With().Inc()
	fmt.Println(m.Err())
	// Output:
	// declare counter "books-printed": a metric's name has only letters, digits, underscores and colons, and does not begin with a digit
}
