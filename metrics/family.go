package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// Family is the set of metrics with one name, one metric for each combination of label
// values. M is Counter, Gauge or Histogram. [Metrics.Counter], [Metrics.Gauge] and
// [Metrics.Histogram] return one. Any goroutine may call its methods. Its counterparts
// are CounterVec, GaugeVec and HistogramVec of Prometheus' client_golang.
type Family[M any] struct {
	*family
}

// With returns the metric with some label values. Give one value for each label, in the
// order in which the labels were declared. A value is any text; invalid UTF-8 in it is
// replaced. The first call with some values makes a metric, which every later scrape
// shows. Further calls look it up and allocate nothing.
//
// With a wrong number of values, With returns a metric that no scrape shows.
func (f *Family[M]) With(values ...string) *M {
	// The family of an M contains only metrics of this type.
	m, _ := any(f.with(values)).(*M)
	return m
}

// Delete removes the metric with some label values. Code that still holds the metric
// counts without effect. The counterpart is DeleteLabelValues of client_golang.
func (f *Family[M]) Delete(values ...string) {
	var buf [128]byte
	if key, ok := f.key(buf[:0], values); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.series, string(key))
	}
}

// kind is the type of a family in the text format.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
	summary   kind = "summary"
)

// metric is the metric of one combination of label values.
type metric interface {
	// appendText appends the samples. Labels are in the form of the text format, without
	// braces.
	appendText(b []byte, name, labels string) []byte
}

// series is a metric with its label values.
type series struct {
	values []string // in the order of the labels' names
	labels string   // in the text format
	metric metric
}

// family is a [Family] of any type.
type family struct {
	metrics    *Metrics
	kind       kind
	name, help string
	labels     []string  // in the order of declaration
	sorted     []int     // the labels' positions, in the order of their names
	bounds     []float64 // a histogram's bounds, without +Inf
	les        []string  // the bounds and +Inf, in the text format

	mu     sync.RWMutex
	series map[string]*series
	lost   metric // the metric for calls with a wrong number of values

	misused atomic.Bool
}

// declare returns a new family, or the earlier one if a declaration is repeated word by
// word. If the declaration is wrong, it returns a family that no scrape shows.
func (m *Metrics) declare(k kind, name, help string, bounds []float64, labels []string) *family {
	f := newFamily(m, k, name, help, bounds, labels)
	err := f.check()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		if before := m.families[name]; before != nil && before.same(f) {
			return before
		}
		err = m.take(f)
	}
	if err != nil {
		m.noteLocked(fmt.Errorf("declare %s %q: %w", k, name, err))
	}
	return f
}

func newFamily(m *Metrics, k kind, name, help string, bounds []float64, labels []string) *family {
	f := &family{
		metrics: m, kind: k, name: name, help: strings.ToValidUTF8(help, "\uFFFD"),
		labels: slices.Clone(labels), bounds: slices.Clone(bounds), series: make(map[string]*series),
	}
	for i := range f.labels {
		f.sorted = append(f.sorted, i)
	}
	sort.Slice(f.sorted, func(a, b int) bool { return f.labels[f.sorted[a]] < f.labels[f.sorted[b]] })
	if n := len(f.bounds); n > 0 && math.IsInf(f.bounds[n-1], 1) {
		f.bounds = f.bounds[:n-1] // every histogram has +Inf
	}
	if k == histogram {
		for _, bound := range f.bounds {
			f.les = append(f.les, string(appendFloat(nil, bound)))
		}
		f.les = append(f.les, "+Inf")
	}
	return f
}

// check returns the error of a declaration on its own.
func (f *family) check() error {
	if !isName(f.name, true) {
		return errors.New("a metric's name has only letters, digits, underscores and colons, and does not begin with a digit")
	}
	for i, label := range f.labels {
		switch {
		case !isName(label, false):
			return fmt.Errorf(
				"label %q: a label's name has only letters, digits and underscores, and does not begin with a digit", label,
			)
		case strings.HasPrefix(label, "__"):
			return fmt.Errorf("label %q: names that begin with two underscores belong to Prometheus", label)
		case label == "le" && f.kind == histogram, label == "quantile" && f.kind == summary:
			return fmt.Errorf("label %q: every %s has it already", label, f.kind)
		case slices.Contains(f.labels[:i], label):
			return fmt.Errorf("label %q: it is given twice", label)
		}
	}
	for i, bound := range f.bounds {
		if math.IsNaN(bound) || i > 0 && bound <= f.bounds[i-1] {
			return fmt.Errorf("bound %v: bounds must ascend", bound)
		}
	}
	return nil
}

// take adds a family unless another one has one of its sample names. A histogram has four
// names.
func (m *Metrics) take(f *family) error {
	if before := m.families[f.name]; before != nil {
		return fmt.Errorf(
			"it is already declared differently: as a %s with the labels %q and the help %q", before.kind, before.labels,
			before.help,
		)
	}
	names := []string{f.name}
	switch f.kind {
	case histogram:
		names = append(names, f.name+"_bucket", f.name+"_sum", f.name+"_count")
	case summary:
		names = append(names, f.name+"_sum", f.name+"_count")
	}
	for _, name := range names {
		if other, ok := m.taken[name]; ok {
			return fmt.Errorf("%s already has the sample name %s", other, name)
		}
	}
	for _, name := range names {
		m.taken[name] = f.name
	}
	m.families[f.name] = f
	return nil
}

func (f *family) same(other *family) bool {
	return f.kind == other.kind && f.help == other.help && slices.Equal(f.labels, other.labels) &&
		slices.Equal(f.bounds, other.bounds)
}

// with returns the metric with some label values.
func (f *family) with(values []string) metric {
	var buf [128]byte
	key, ok := f.key(buf[:0], values)
	if !ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.lost == nil {
			f.lost = f.newMetric()
		}
		return f.lost
	}
	f.mu.RLock()
	s := f.series[string(key)]
	f.mu.RUnlock()
	if s != nil {
		return s.metric
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.series[string(key)]; s != nil {
		return s.metric
	}
	s = f.newSeries(values, f.newMetric())
	f.series[string(key)] = s
	return s.metric
}

// key appends a text that identifies label values. The separator is byte 255, which no
// valid text has. If the number of values is wrong, key records a mistake.
func (f *family) key(b []byte, values []string) (key []byte, ok bool) {
	if len(values) != len(f.labels) {
		f.misuse(fmt.Errorf("%d values for the labels %q", len(values), f.labels))
		return nil, false
	}
	for _, v := range values {
		if !utf8.ValidString(v) {
			v = strings.ToValidUTF8(v, "\uFFFD")
		}
		b = append(append(b, v...), 0xff)
	}
	return b, true
}

func (f *family) newMetric() metric {
	switch f.kind {
	case counter:
		return &Counter{family: f}
	case gauge:
		return &Gauge{}
	default:
		return &Histogram{family: f, counts: make([]atomic.Uint64, len(f.bounds)+1)}
	}
}

func (f *family) newSeries(values []string, m metric) *series {
	s := &series{metric: m}
	var text []byte
	for n, i := range f.sorted {
		// The value may be a part of a long text, so it is copied.
		value := strings.Clone(strings.ToValidUTF8(values[i], "\uFFFD"))
		s.values = append(s.values, value)
		if n > 0 {
			text = append(text, ',')
		}
		text = append(append(text, f.labels[i]...), `="`...)
		text = append(appendEscaped(text, value, true), '"')
	}
	s.labels = string(text)
	return s
}

// misuse records a mistake, if it is the family's first.
func (f *family) misuse(err error) {
	if !f.misused.Swap(true) {
		f.metrics.note(fmt.Errorf("use %s %q: %w", f.kind, f.name, err))
	}
}

// isName reports whether the text format allows a name. Only names of metrics may have
// colons.
func isName(name string, colons bool) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		case c == ':' && colons:
		case c >= '0' && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return name != ""
}
