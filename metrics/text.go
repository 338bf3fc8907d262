package metrics

import (
	"math"
	"strconv"
)

// The text format is version 0.0.4 of Prometheus' exposition formats:
// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// appendFamily appends a family, if it has samples.
func appendFamily(b []byte, f *family, all []*series) []byte {
	if len(all) == 0 {
		return b
	}
	b = append(append(append(b, "# HELP "...), f.name...), ' ')
	b = append(appendEscaped(b, f.help, false), '\n')
	b = append(append(append(b, "# TYPE "...), f.name...), ' ')
	b = append(append(b, f.kind...), '\n')
	for _, s := range all {
		b = s.metric.appendText(b, f.name, s.labels)
	}
	return b
}

// appendSample appends a line.
func appendSample(b []byte, name, suffix, labels string, value float64) []byte {
	b = append(append(b, name...), suffix...)
	if labels != "" {
		b = append(append(append(b, '{'), labels...), '}')
	}
	return append(appendFloat(append(b, ' '), value), '\n')
}

func appendFloat(b []byte, v float64) []byte {
	switch {
	case v == 0: // also if it is negative zero
		return append(b, '0')
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	default: // NaN is NaN
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	}
}

// appendCount appends a whole number as appendFloat does, in less time.
func appendCount(b []byte, n uint64) []byte {
	if n < 1e6 {
		return strconv.AppendUint(b, n, 10)
	}
	return appendFloat(b, float64(n))
}

// appendEscaped appends text as help, or as a label value if it stands in quotes.
func appendEscaped(b []byte, text string, quoted bool) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\':
			b = append(b, `\\`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '"' && quoted:
			b = append(b, `\"`...)
		default:
			b = append(b, c)
		}
	}
	return b
}
