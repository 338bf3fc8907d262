package metrics

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Counter is a count that only grows. It is 0 when the process starts. Its methods take
// no lock and allocate nothing. Its counterpart is prometheus.Counter of client_golang.
type Counter struct {
	family *family
	whole  atomic.Uint64 // the sum of all whole numbers
	rest   atomic.Uint64 // the bits of the sum of all other numbers
}

// Inc adds 1.
func (c *Counter) Inc() { c.whole.Add(1) }

// Add adds n. If n is less than 0 or not a number, it is not added and is a mistake of
// the program. The counterpart is Counter.Add of client_golang.
func (c *Counter) Add(n float64) {
	switch {
	case !(n >= 0):
		c.family.misuse(fmt.Errorf("add %v: a counter only grows", n))
	case n < 1<<53 && n == math.Trunc(n):
		c.whole.Add(uint64(n))
	default:
		addFloat(&c.rest, n)
	}
}

// Value returns the count, for tests. The counterpart is testutil.ToFloat64 of client_golang.
func (c *Counter) Value() float64 {
	return float64(c.whole.Load()) + math.Float64frombits(c.rest.Load())
}

func (c *Counter) appendText(b []byte, name, labels string) []byte {
	return appendSample(b, name, "", labels, c.Value())
}

// Gauge is a value that rises and falls. It is 0 at first. Its methods take no lock and
// allocate nothing. Its counterpart is prometheus.Gauge of client_golang.
type Gauge struct {
	bits atomic.Uint64
}

// Set sets the value. The counterpart is Gauge.Set of client_golang.
func (g *Gauge) Set(v float64) { g.bits.Store(math.Float64bits(v)) }

// Add adds n, which may be less than 0. The counterpart is Gauge.Add of client_golang.
func (g *Gauge) Add(n float64) { addFloat(&g.bits, n) }

// Inc adds 1. The counterpart is Gauge.Inc of client_golang.
func (g *Gauge) Inc() { g.Add(1) }

// Dec subtracts 1. The counterpart is Gauge.Dec of client_golang.
func (g *Gauge) Dec() { g.Add(-1) }

// Value returns the value, for tests. The counterpart is testutil.ToFloat64 of client_golang.
func (g *Gauge) Value() float64 { return math.Float64frombits(g.bits.Load()) }

func (g *Gauge) appendText(b []byte, name, labels string) []byte {
	return appendSample(b, name, "", labels, g.Value())
}

// constant is a value that was reported for one scrape.
type constant float64

func (c constant) appendText(b []byte, name, labels string) []byte {
	return appendSample(b, name, "", labels, float64(c))
}

// addFloat adds n to the number that the bits encode.
func addFloat(bits *atomic.Uint64, n float64) {
	for {
		old := bits.Load()
		if bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+n)) {
			return
		}
	}
}
