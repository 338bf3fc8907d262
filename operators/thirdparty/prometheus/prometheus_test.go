// Package prometheus_test compares package metrics with Prometheus' own Go libraries:
// each reads the other's text, and both return the same values.
package prometheus_test

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/metrics"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// write returns the text of m.
func write(t fataler, m *metrics.Metrics) string {
	t.Helper()
	var text strings.Builder
	if _, err := m.WriteTo(&text); err != nil {
		t.Fatalf("%v", err)
	}
	return text.String()
}

// parse reads a text as Prometheus' library does.
func parse(t fataler, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return families
}

// encode writes the metrics of a registry.
func encode(t fataler, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("%v", err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return text.String()
}

// TestDefaults compares our metrics of the process and the runtime with those of the
// library's default collectors.
func TestDefaults(t *testing.T) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that no pause comes between
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := metrics.New()

	before := parse(t, write(t, m))
	theirs := parse(t, encode(t, registry))
	after := parse(t, write(t, m))

	others := func(name string, _ *dto.MetricFamily) bool {
		ofProcess := strings.HasPrefix(name, "process_") && runtime.GOOS == "linux" // elsewhere we have fewer
		return !ofProcess && !strings.HasPrefix(name, "go_")
	}
	maps.DeleteFunc(before, others)
	maps.DeleteFunc(theirs, others)
	if got, want := slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(theirs)); !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	exact := []string{
		"go_info",
		"go_gc_duration_seconds",
		"go_memstats_last_gc_time_seconds",
		"go_gc_gogc_percent",
		"go_gc_gomemlimit_bytes",
		"go_sched_gomaxprocs_threads",
		"process_max_fds",
		"process_virtual_memory_max_bytes",
		"process_start_time_seconds",
	}
	for name, want := range theirs {
		got := before[name]
		if got.GetType() != want.GetType() {
			t.Errorf("%s: type %s, want %s", name, got.GetType(), want.GetType())
		}
		// The runtime's own words may be different in another release of Go.
		if !strings.Contains(want.GetHelp(), " Sourced from ") && got.GetHelp() != want.GetHelp() {
			t.Errorf("%s: help %q, want %q", name, got.GetHelp(), want.GetHelp())
		}
		if len(got.Metric) != 1 || len(want.Metric) != 1 {
			t.Fatalf("%s: got %v, want %v", name, got.Metric, want.Metric)
		}
		if slices.Contains(exact, name) {
			if got.Metric[0].String() != want.Metric[0].String() {
				t.Errorf("%s: got %v, want %v", name, got.Metric[0], want.Metric[0])
			}
			continue
		}
		low, value, high := number(before[name]), number(want), number(after[name])
		slack := 0.1 // processor time is counted in ticks
		if want.GetType() == dto.MetricType_GAUGE {
			low, high = min(low, high), max(low, high)
			slack = 20 + high/2 // the value rises and falls meanwhile
			if strings.HasPrefix(name, "go_memstats_") {
				slack += 16 << 20
			}
		}
		if value < low-slack || value > high+slack {
			t.Errorf("%s: got %v and then %v, between them %v", name, low, high, value)
		}
	}
}

func number(f *dto.MetricFamily) float64 {
	return f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue()
}

var (
	name  = rapid.StringMatching(`[a-zA-Z_:][a-zA-Z0-9_:]{0,9}`)
	label = rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_]{0,5}`).
		Filter(func(s string) bool { return s != "le" && s != "quantile" })
	text  = rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("\\\"\n\r\t ,{}=#n\x00ä€")), 0, 12, -1))
	value = rapid.OneOf(
		rapid.Float64(),
		rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(-1000, 2_000_000).Draw(t, "whole")) }),
		rapid.SampledFrom(
			[]float64{
				0, 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64, 1e6, 1e21, 0.1,
			},
		),
	)
)

// bounds returns the bounds of histograms.
func bounds(t *rapid.T) []float64 {
	all := rapid.SliceOfNDistinct(rapid.Float64Range(-100, 1e7), 1, 8, func(v float64) float64 { return v }).
		Draw(t, "bounds")
	slices.Sort(all)
	return all
}

// sets returns combinations of values of some labels.
func sets(t *rapid.T, labels int, values *rapid.Generator[string]) [][]string {
	return rapid.SliceOfNDistinct(rapid.SliceOfN(values, labels, labels), 1, 6, func(set []string) string { return strings.Join(set, "\xff") }).
		Draw(t, "values")
}

// TestSame does the same with package metrics and with the library. Their texts are the
// same, byte for byte.
func TestSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		registry := prometheus.NewRegistry()
		m := metrics.New()
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`test_[a-z0-9_]{0,5}x`), 0, 5, rapid.ID).Draw(t, "names") {
			help := text.Draw(t, "help")
			labels := rapid.SliceOfNDistinct(label, 0, 4, rapid.ID).Draw(t, "labels")
			use := func(values *rapid.Generator[float64], counted func(float64, ...string)) {
				for _, set := range sets(t, len(labels), text) {
					for _, v := range rapid.SliceOfN(values, 1, 5).Draw(t, "numbers") {
						counted(v, set...)
					}
				}
			}
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				theirs := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
				registry.MustRegister(theirs)
				ours := m.Counter(name, help, labels...)
				use(rapid.Float64Range(0, 1e12), func(v float64, set ...string) {
					theirs.WithLabelValues(set...).Add(v)
					ours.With(set...).Add(v)
				})
			case 1:
				theirs := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
				registry.MustRegister(theirs)
				ours := m.Gauge(name, help, labels...)
				use(value, func(v float64, set ...string) {
					theirs.WithLabelValues(set...).Set(v)
					ours.With(set...).Set(v)
				})
			case 2:
				bounds := bounds(t)
				theirs := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)
				registry.MustRegister(theirs)
				ours := m.Histogram(name, help, bounds, labels...)
				use(rapid.OneOf(rapid.SampledFrom(bounds), rapid.Float64Range(-1000, 1e8)), func(v float64, set ...string) {
					theirs.WithLabelValues(set...).Observe(v)
					ours.With(set...).Observe(v)
				})
			}
		}
		if err := m.Err(); err != nil {
			t.Fatalf("%v", err)
		}
		var got strings.Builder
		for line := range strings.Lines(write(t, m)) {
			plain := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
			if strings.HasPrefix(plain, "test_") {
				got.WriteString(line)
			}
		}
		if want := encode(t, registry); got.String() != want {
			t.Fatalf("got:\n%s\nwant:\n%s", got.String(), want)
		}
	})
}

// TestReadBack makes the library read any text that is written, and checks that it finds
// the values that were meant.
func TestReadBack(t *testing.T) {
	bytesOrText := rapid.OneOf(
		text, rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		m := metrics.New()
		help, labels := bytesOrText.Draw(t, "help"), rapid.SliceOfNDistinct(label, 0, 4, rapid.ID).Draw(t, "labels")
		gauge := "test_" + name.Draw(t, "name")
		g := m.Gauge(gauge, help, labels...)
		want := make(map[string]float64)
		for _, set := range sets(t, len(labels), bytesOrText) {
			v := value.Draw(t, "value")
			g.With(set...).Set(v)
			want[valid(strings.Join(set, "\x00|"))] = v
		}
		if err := m.Err(); err != nil {
			t.Fatalf("%v", err)
		}
		f := parse(t, write(t, m))[gauge]
		// White space at the start of a help text looks the same as the separator before
		// it.
		if got := f.GetHelp(); strings.TrimLeft(got, " \t") != strings.TrimLeft(valid(help), " \t") {
			t.Fatalf("help %q, want %q", got, valid(help))
		}
		if f.GetType() != dto.MetricType_GAUGE || len(f.Metric) != len(want) {
			t.Fatalf("got %v, want %v", f, want)
		}
		for _, metric := range f.Metric {
			var set []string
			for _, label := range labels {
				i := slices.IndexFunc(metric.Label, func(p *dto.LabelPair) bool { return p.GetName() == label })
				if i < 0 {
					t.Fatalf("no label %s in %v", label, metric)
				}
				set = append(set, metric.Label[i].GetValue())
			}
			got := metric.GetGauge().GetValue()
			if v, ok := want[strings.Join(set, "\x00|")]; !ok || cmp.Compare(got, v) != 0 {
				t.Fatalf("%q is %v, want %v, which is there: %v", set, got, v, ok)
			}
		}
	})
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// library returns a registry with the defaults, as programs of the library have it.
func library() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	books := prometheus.NewCounter(prometheus.CounterOpts{Name: "books_total", Help: "Books."})
	books.Add(3)
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), books,
	)
	return registry
}

// TestAppend shows a program's metrics of the library together with ours.
func TestAppend(t *testing.T) {
	registry := library()
	m := metrics.New()
	m.Gauge("leader_election_master_status", "Whether the lease is held.", "name").With("lease").Set(1)
	m.Append(func(w io.Writer) error {
		families, err := registry.Gather()
		for _, f := range families {
			_, failed := expfmt.MetricFamilyToText(w, f)
			err = errors.Join(err, failed)
		}
		return err
	})
	families := parse(t, write(t, m)) // parse refuses a family that is there twice
	for name, want := range map[string]float64{"books_total": 3, "leader_election_master_status": 1, "go_info": 1, "pintle_metrics_errors": 0} {
		if f := families[name]; f == nil || number(f) != want {
			t.Errorf("%s: got %v, want %v", name, f, want)
		}
	}
}

// TestGatherer shows our metrics together with a program's metrics of the library, by the
// library's handler.
func TestGatherer(t *testing.T) {
	m := metrics.New()
	m.Gauge("leader_election_master_status", "Whether the lease is held.", "name").With("lease").Set(1)
	ours := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var text bytes.Buffer
		if _, err := m.WriteTo(&text); err != nil {
			return nil, err
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(&text)
		return slices.Collect(maps.Values(families)), err
	})
	books := prometheus.NewRegistry()
	books.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "books_total"}, func() float64 { return 3 }))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(prometheus.Gatherers{books, ours}, promhttp.HandlerOpts{}).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, want := range []string{"\nbooks_total 3\n", "\nleader_election_master_status{name=\"lease\"} 1\n", "\n# TYPE go_gc_duration_seconds summary\n"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in\n%s", want, w.Body.String())
		}
	}
}
