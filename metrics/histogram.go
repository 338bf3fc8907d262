package metrics

import (
	"errors"
	"math"
	"sort"
	"sync/atomic"
)

// Histogram is a distribution of values. Its method takes no lock and allocates nothing.
// Its counterpart is prometheus.Histogram of client_golang.
type Histogram struct {
	family *family
	counts []atomic.Uint64 // one for each bound, and one for the values above
	sum    atomic.Uint64   // the bits of the sum of all values
}

// Observe counts a value. A value that is not a number is not counted and is a mistake of
// the program.
//
// A scrape at the same time may see the value in the counts and not yet in the sum. The
// counts are always consistent with each other.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) {
		h.family.misuse(errors.New("the value is not a number"))
		return
	}
	h.counts[sort.SearchFloat64s(h.family.bounds, v)].Add(1)
	addFloat(&h.sum, v)
}

func (h *Histogram) appendText(b []byte, name, labels string) []byte {
	var n uint64
	for i, le := range h.family.les {
		n += h.counts[i].Load()
		b = append(append(b, name...), "_bucket{"...)
		if labels != "" {
			b = append(append(b, labels...), ',')
		}
		b = append(append(append(b, `le="`...), le...), `"} `...)
		b = append(appendCount(b, n), '\n')
	}
	b = appendSample(b, name, "_sum", labels, math.Float64frombits(h.sum.Load()))
	return appendSample(b, name, "_count", labels, float64(n))
}

// quantiles is a distribution that the Go runtime reports.
type quantiles struct {
	values []float64 // evenly spaced, from the least to the largest
	sum    float64
	count  uint64
}

func (q quantiles) appendText(b []byte, name, labels string) []byte {
	for i, v := range q.values {
		text := `quantile="` + string(appendFloat(nil, float64(i)/float64(len(q.values)-1))) + `"`
		if labels != "" {
			text = labels + "," + text
		}
		b = appendSample(b, name, "", text, v)
	}
	b = appendSample(b, name, "_sum", labels, q.sum)
	return appendSample(b, name, "_count", labels, float64(q.count))
}
