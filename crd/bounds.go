package crd

import (
	"fmt"
	"math"
)

// limit is one end of the range of numbers that a schema allows.
type limit struct {
	at float64
	// open means that the limit itself is not allowed.
	open bool
	// format means that the format sets the limit, not minimum or maximum.
	format bool
}

// formatRanges are the ranges that API servers check for a type and format.
var formatRanges = map[[2]string]float64{
	{"integer", "int32"}: math.MaxInt32,
	{"number", "float"}:  math.MaxFloat32,
}

// lowestOf returns the lower limit. For integers it is the lowest allowed integer.
func lowestOf(s *Schema) limit {
	low := limit{at: math.Inf(-1)}
	if s.Minimum != nil {
		low = limit{at: *s.Minimum, open: s.ExclusiveMinimum}
		switch {
		case s.isWhole() && s.ExclusiveMinimum:
			low = limit{at: math.Floor(*s.Minimum) + 1}
		case s.isWhole():
			low = limit{at: math.Ceil(*s.Minimum)}
		}
	}
	if highest, ok := formatRanges[[2]string{s.Type, s.Format}]; ok {
		lowest := -highest
		if s.Type == "integer" {
			lowest-- // two's complement
		}
		if lowest > low.at {
			low = limit{at: lowest, format: true}
		}
	}
	return low
}

// highestOf returns the upper limit. For integers it is the highest allowed integer.
func highestOf(s *Schema) limit {
	high := limit{at: math.Inf(1)}
	if s.Maximum != nil {
		high = limit{at: *s.Maximum, open: s.ExclusiveMaximum}
		switch {
		case s.isWhole() && s.ExclusiveMaximum:
			high = limit{at: math.Ceil(*s.Maximum) - 1}
		case s.isWhole():
			high = limit{at: math.Floor(*s.Maximum)}
		}
	}
	if highest, ok := formatRanges[[2]string{s.Type, s.Format}]; ok && highest < high.at {
		high = limit{at: highest, format: true}
	}
	return high
}

// areMultiples reports whether a schema allows only multiples of n.
func areMultiples(s *Schema, n float64) bool {
	return s.MultipleOf != nil && math.Mod(*s.MultipleOf, n) == 0 || s.isWhole() && math.Mod(1, n) == 0
}

func limitText(limit *float64, exclusive bool) string {
	switch {
	case limit == nil:
		return "none"
	case exclusive:
		return fmt.Sprintf("%v (exclusive)", *limit)
	}
	return fmt.Sprint(*limit)
}
