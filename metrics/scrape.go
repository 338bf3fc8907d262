package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

// Scrape is one collection of the metrics. Only the goroutine that calls a function of
// [Metrics.Collect] may use it, until that function returns.
type Scrape struct {
	metrics *Metrics
	series  map[*family][]*series
}

// Gauge reports a value of a gauge for this scrape only. For its label values see
// [Family.With]. If there are two values for the same labels, the later one is shown, and
// the repetition is a mistake of the program.
func (s *Scrape) Gauge(f *Family[Gauge], value float64, labels ...string) {
	s.add(f.family, constant(value), labels)
}

// Counter reports the value of a counter that is kept elsewhere, as Gauge does. The
// counterpart is prometheus.MustNewConstMetric of client_golang.
func (s *Scrape) Counter(f *Family[Counter], value float64, labels ...string) {
	s.add(f.family, constant(value), labels)
}

func (s *Scrape) add(f *family, m metric, labels []string) {
	switch {
	case f.metrics != s.metrics:
		f.misuse(errors.New("the scrape is of other metrics"))
	case len(labels) != len(f.labels):
		f.misuse(fmt.Errorf("%d values for the labels %q", len(labels), f.labels))
	default:
		s.series[f] = append(s.series[f], f.newSeries(labels, m))
	}
}

// WriteTo writes the metrics in the text format.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(m.text())
	if err != nil {
		return int64(n), fmt.Errorf("write metrics: %w", err)
	}
	return int64(n), nil
}

// text returns the metrics in the text format. Families are sorted by name, and series by
// their label values, so unchanged metrics look the same in each scrape. No lock is held
// while the program's functions run.
func (m *Metrics) text() []byte {
	m.mu.Lock()
	collectors, writers := slices.Clone(m.collectors), slices.Clone(m.appended)
	m.mu.Unlock()

	s := &Scrape{metrics: m, series: make(map[*family][]*series)}
	for _, report := range collectors {
		report(s)
	}
	var more foreign
	var wrong []error
	for _, write := range writers {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			wrong = append(wrong, fmt.Errorf("append metrics: %w", err))
			continue
		}
		more.read(text.Bytes())
	}

	m.mu.Lock()
	families := make([]*family, 0, len(m.families))
	for _, f := range m.families {
		families = append(families, f)
	}
	wrong = append(slices.Clone(m.mistakes), wrong...)
	m.mu.Unlock()
	s.Gauge(m.wrong, float64(len(wrong)))

	slices.SortFunc(families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	b := make([]byte, 0, m.size.Load()*9/8+1024)
	for _, f := range families {
		start := len(b)
		b = appendFamily(b, f, f.all(s.series[f]))
		b = more.appendTo(b, start, f)
	}
	b = more.appendRest(b)
	for _, err := range wrong {
		b = append(appendEscaped(append(b, "# error: "...), err.Error(), false), '\n')
	}
	m.size.Store(int64(len(b)))
	return b
}

// all returns a family's series in the order in which they are shown, including those
// that were reported for a scrape.
func (f *family) all(reported []*series) []*series {
	f.mu.RLock()
	all := make([]*series, 0, len(f.series)+len(reported))
	for _, s := range f.series {
		all = append(all, s)
	}
	f.mu.RUnlock()
	all = append(all, reported...)
	sort.SliceStable(all, func(a, b int) bool { return slices.Compare(all[a].values, all[b].values) < 0 })
	for i := len(all) - 1; i > 0; i-- {
		if slices.Equal(all[i-1].values, all[i].values) {
			f.misuse(fmt.Errorf("two values for {%s}", all[i].labels))
			all = slices.Delete(all, i-1, i)
		}
	}
	return all
}
