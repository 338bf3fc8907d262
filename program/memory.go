package program

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// gcPercent is how much a program may allocate, in percent of the memory in use, before garbage is
// collected. Go's default is 100. Most of the memory of an operator are the objects of its stores,
// which are encoded and have no pointers, so that a collection costs little. The target bench of the
// Makefile measures a store of 100,000 Pods after minutes of 2,000 changes a second.
const gcPercent = 50

// limitMemory sets the collector's target, unless somebody has decided about memory: by GOGC, by
// GOMEMLIMIT, or in the program, by package debug.
func limitMemory() {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(sample)
	percent, limit := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" && percent == 100 && limit == math.MaxInt64 {
		debug.SetGCPercent(gcPercent)
	}
}
