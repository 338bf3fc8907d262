package metrics_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/metrics"
)

// TestMistakes declares and uses metrics wrongly. Nothing panics, and each mistake is in
// Err, in the count and in the text.
func TestMistakes(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(m *metrics.Metrics)
		want string
	}{
		"no name":           {func(m *metrics.Metrics) { m.Counter("", "").With().Inc() }, `declare counter "": a metric's name`},
		"a name with a dot": {func(m *metrics.Metrics) { m.Gauge("a.b", "").With().Inc() }, `declare gauge "a.b": a metric's name`},
		"a digit first":     {func(m *metrics.Metrics) { m.Gauge("1a", "").With().Inc() }, `declare gauge "1a": a metric's name`},
		"a label's name":    {func(m *metrics.Metrics) { m.Gauge("a", "", "b:c").With("x").Inc() }, `label "b:c"`},
		"a reserved label":  {func(m *metrics.Metrics) { m.Gauge("a", "", "__b").With("x").Inc() }, `label "__b"`},
		"le":                {func(m *metrics.Metrics) { m.Histogram("a", "", nil, "le").With("x").Observe(1) }, `label "le": every histogram has it`},
		"a label twice":     {func(m *metrics.Metrics) { m.Gauge("a", "", "b", "b").With("x", "y").Inc() }, `label "b": it is given twice`},
		"bounds":            {func(m *metrics.Metrics) { m.Histogram("a", "", []float64{1, 1}).With().Observe(1) }, `bound 1: bounds must ascend`},
		"a bound":           {func(m *metrics.Metrics) { m.Histogram("a", "", []float64{math.NaN()}).With().Observe(1) }, `bound NaN: bounds must ascend`},
		"another kind": {func(m *metrics.Metrics) {
			m.Counter("a", "A.").With().Inc()
			m.Gauge("a", "A.").With().Inc()
		}, `declare gauge "a": it is already declared differently: as a counter`},
		"other help": {func(m *metrics.Metrics) { m.Counter("a", "A."); m.Counter("a", "B.") }, `declare counter "a": it is already declared differently`},
		"one of ours": {func(m *metrics.Metrics) { m.Counter("rest_client_requests_total", "").With().Inc() },
			`declare counter "rest_client_requests_total": it is already declared differently`},
		"a histogram's name":   {func(m *metrics.Metrics) { m.Histogram("a", "", nil); m.Counter("a_count", "") }, `declare counter "a_count": a already has the sample name a_count`},
		"names of a histogram": {func(m *metrics.Metrics) { m.Gauge("a_sum", ""); m.Histogram("a", "", nil) }, `declare histogram "a": a_sum already has the sample name a_sum`},
		"too few values":       {func(m *metrics.Metrics) { m.Counter("a", "", "b").With().Inc() }, `use counter "a": 0 values for the labels ["b"]`},
		"too many values":      {func(m *metrics.Metrics) { m.Gauge("a", "").With("b").Set(1) }, `use gauge "a": 1 values for the labels []`},
		"too many to delete":   {func(m *metrics.Metrics) { m.Gauge("a", "").Delete("b") }, `use gauge "a": 1 values for the labels []`},
		"a counter that falls": {func(m *metrics.Metrics) { m.Counter("a", "").With().Add(-1) }, `use counter "a": add -1: a counter only grows`},
		"NaN counted":          {func(m *metrics.Metrics) { m.Counter("a", "").With().Add(math.NaN()) }, `use counter "a": add NaN`},
		"NaN observed":         {func(m *metrics.Metrics) { m.Histogram("a", "", nil).With().Observe(math.NaN()) }, `use histogram "a": the value is not a number`},
		"nothing to collect":   {func(m *metrics.Metrics) { m.Collect(nil) }, `collect metrics: the function is nil`},
		"nothing to append":    {func(m *metrics.Metrics) { m.Append(nil) }, `append metrics: the function is nil`},
	} {
		t.Run(name, func(t *testing.T) {
			m := metrics.New()
			if err := m.Err(); err != nil {
				t.Fatalf("nothing is wrong yet, and there is %v", err)
			}
			expect(t, scrape(t, m.Handler()), "pintle_metrics_errors 0")
			tt.make(m)
			err := m.Err()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			text := scrape(t, m.Handler())
			expect(t, text, "pintle_metrics_errors 1", "# error: "+err.Error())
			if strings.Contains(text, "\n{") || strings.Contains(text, "\na.b") || strings.Contains(text, " NaN\n") {
				t.Errorf("a wrong metric is shown:\n%s", text)
			}
		})
	}
}

// TestMistakesAreBounded makes mistakes without end.
func TestMistakesAreBounded(t *testing.T) {
	m := metrics.New()
	counter := m.Counter("a", "", "b")
	for i := range 1000 {
		counter.With()
		m.Counter(fmt.Sprintf("%d", i), "")
	}
	if n := strings.Count(m.Err().Error(), "\n") + 1; n != 100 {
		t.Errorf("%d mistakes are told, want 100", n)
	}
}

func TestDeclaredTwice(t *testing.T) {
	m := metrics.New()
	labels := []string{"b"}
	m.Counter("a", "A.", labels...).With("x").Inc()
	labels[0] = "changed"
	m.Counter("a", "A.", "b").With("x").Inc()
	m.Histogram("h", "H.", []float64{1, 2}).With().Observe(1)
	m.Histogram("h", "H.", []float64{1, 2, math.Inf(1)}).With().Observe(1)
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	expect(t, scrape(t, m.Handler()), `a{b="x"} 2`, `h_bucket{le="1"} 2`, `h_bucket{le="+Inf"} 2`, `h_count 2`)
}

func TestDelete(t *testing.T) {
	m := metrics.New()
	g := m.Gauge("a", "", "b")
	kept := g.With("x")
	kept.Set(1)
	g.With("y").Set(2)
	g.Delete("x")
	g.Delete("never there")
	kept.Set(3)
	text := scrape(t, m.Handler())
	expect(t, text, `a{b="y"} 2`)
	if strings.Contains(text, `b="x"`) {
		t.Error("a deleted metric is shown")
	}
	if g.With("x") == kept {
		t.Error("a deleted metric is reused")
	}
}

func TestNumbers(t *testing.T) {
	m := metrics.New()
	c := m.Counter("c", "").With()
	for _, n := range []float64{0, 1, 0.25, 1 << 52, 0.5} {
		c.Add(n)
	}
	c.Inc()
	if got, want := c.Value(), 1<<52+2.75; got != want {
		t.Errorf("counter: got %v, want %v", got, want)
	}
	c = m.Counter("c", "").With()
	c.Add(1e300)
	if got := c.Value(); got != 1e300 {
		t.Errorf("a large counter is %v", got)
	}
	g := m.Gauge("g", "").With()
	g.Set(5)
	g.Inc()
	g.Dec()
	g.Add(-7.5)
	if got := g.Value(); got != -2.5 {
		t.Errorf("gauge: got %v, want -2.5", got)
	}
}

// TestNoAllocations checks that counting allocates nothing.
func TestNoAllocations(t *testing.T) {
	m := metrics.New()
	counters, gauges, histograms := m.Counter("c", "", "a", "b"), m.Gauge("g", "", "a"), m.Histogram("h", "", nil, "a")
	c, g, h := counters.With("x", "y"), gauges.With("x"), histograms.With("x")
	for name, f := range map[string]func(){
		"Counter.Inc":         c.Inc,
		"Counter.Add":         func() { c.Add(1.5); c.Add(2) },
		"Gauge.Set":           func() { g.Set(1.5) },
		"Gauge.Add":           func() { g.Add(1.5) },
		"Histogram.Observe":   func() { h.Observe(0.3) },
		"With of a counter":   func() { counters.With("x", "y").Inc() },
		"With of a gauge":     func() { gauges.With("x").Inc() },
		"With of a histogram": func() { histograms.With("x").Observe(1) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestConcurrently uses everything at once. No count is lost.
func TestConcurrently(t *testing.T) {
	m := metrics.New()
	const workers, times = 8, 300
	asked := m.Gauge("asked", "", "n")
	m.Collect(func(s *metrics.Scrape) { s.Gauge(asked, 1, "1") })
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for n := range times {
				m.Counter("c", "C.", "n").With(strconv.Itoa(n % 7)).Inc()
				m.Counter("half", "H.").With().Add(0.5)
				m.Gauge("g", "G.").With().Add(1)
				m.Histogram("h", "H.", nil).With().Observe(float64(n % 3))
				m.Gauge("mine", "M.", "n").With(strconv.Itoa(i)).Set(float64(n))
				m.Gauge("mine", "M.", "n").Delete(strconv.Itoa(i))
				m.AddStore("books", &store{})
				m.Counter("wrong", "W.", "a").With()
				if n%100 == i {
					m.Gauge(fmt.Sprintf("of_%d", i), "").With().Inc()
					m.Collect(func(*metrics.Scrape) {})
					scrape(t, m.Handler())
				}
			}
		})
	}
	wg.Wait()
	expect(
		t,
		scrape(t, m.Handler()),
		`c{n="0"} 344`,
		fmt.Sprintf(`half %d`, workers*times/2),
		fmt.Sprintf(`g %d`, workers*times),
		fmt.Sprintf(`h_count %d`, workers*times),
		fmt.Sprintf(`h_sum %d`, workers*times),
		`of_7 3`,
		`asked{n="1"} 1`,
	)
}

func BenchmarkWith(b *testing.B) {
	c := metrics.New().Counter("c", "", "code", "method", "host")
	b.ReportAllocs()
	for b.Loop() {
		c.With("200", "GET", "10.0.0.1:443").Inc()
	}
}

func BenchmarkObserve(b *testing.B) {
	h := metrics.New().Histogram("h", "", nil).With()
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(0.3)
	}
}

func BenchmarkScrape(b *testing.B) {
	m := metrics.New()
	for i := range 30 {
		m.Histogram(fmt.Sprintf("h%d", i), "", nil, "name").With("echo").Observe(1)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.WriteTo(discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
