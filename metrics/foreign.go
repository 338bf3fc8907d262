package metrics

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// foreign has the families of appended texts, in the order in which they come.
type foreign struct {
	families []*foreignFamily
	byName   map[string]*foreignFamily
	texts    int
}

// foreignFamily is a family of one or more texts. Samples without comments are of a family of their
// name.
type foreignFamily struct {
	name, kind string
	comments   [][]byte // lines of the first text that has some
	of         int      // the number of that text
	samples    []foreignSample
	shown      bool
}

// foreignSample is a line of a text that has a number.
type foreignSample struct {
	line []byte
	of   int
}

// read adds the families of a text.
func (x *foreign) read(text []byte) {
	if x.byName == nil {
		x.byName = make(map[string]*foreignFamily)
	}
	x.texts++
	var now *foreignFamily
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		if about, kind, ok := commentAbout(line); ok {
			now = x.family(about)
			if now.of == 0 || now.of == x.texts && len(now.samples) == 0 {
				now.of, now.comments = x.texts, append(now.comments, line)
			}
			if now.kind == "" {
				now.kind = kind
			}
			continue
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if now == nil || !isSample(line, now.name) {
			now = x.family(sampleName(line))
		}
		now.samples = append(now.samples, foreignSample{line, x.texts})
	}
}

func (x *foreign) family(name string) *foreignFamily {
	f := x.byName[name]
	if f == nil {
		f = &foreignFamily{name: name}
		x.byName[name] = f
		x.families = append(x.families, f)
	}
	return f
}

// appendTo appends the series of a family to its own ones, which b has from start on. Series that it
// has itself are left out, so the Go runtime and the process are shown once.
func (x *foreign) appendTo(b []byte, start int, own *family) []byte {
	f := x.byName[own.name]
	if f == nil || start == len(b) { // a family without series is shown as it is in the text
		return b
	}
	f.shown = true
	if f.kind != "" && f.kind != string(own.kind) {
		own.misuse(fmt.Errorf("it is appended as a %s: its series are left out", f.kind))
		return b
	}
	seen := make(map[string]int)
	for line := range bytes.Lines(b[start:]) {
		if line[0] != '#' {
			seen[seriesOf(line)] = 0
		}
	}
	return f.appendSeries(b, seen)
}

// appendRest appends the families that are not shown.
func (x *foreign) appendRest(b []byte) []byte {
	for _, f := range x.families {
		if f.shown || len(f.samples) == 0 {
			continue
		}
		for _, line := range f.comments {
			b = append(append(b, line...), '\n')
		}
		b = f.appendSeries(b, make(map[string]int))
	}
	return b
}

// appendSeries appends the series of a family, each from the first text that has it. Seen has the
// numbers of the texts by the series.
func (f *foreignFamily) appendSeries(b []byte, seen map[string]int) []byte {
	for _, s := range f.samples {
		series := seriesOf(s.line)
		if of, known := seen[series]; known && of != s.of {
			continue
		}
		seen[series] = s.of
		b = append(append(b, s.line...), '\n')
	}
	return b
}

// commentAbout returns the name of the family whose help or type a line gives, and the type.
func commentAbout(line []byte) (name, kind string, ok bool) {
	rest, help := bytes.CutPrefix(line, []byte("# HELP "))
	if !help {
		if rest, ok = bytes.CutPrefix(line, []byte("# TYPE ")); !ok {
			return "", "", false
		}
	}
	about, said, _ := strings.Cut(string(rest), " ")
	if !help {
		kind = strings.TrimSpace(said)
	}
	return about, kind, about != ""
}

// sampleName returns the name in a sample.
func sampleName(line []byte) string {
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		line = line[:end]
	}
	return string(line)
}

// isSample reports whether a line is a sample of a family.
func isSample(line []byte, family string) bool {
	rest, ok := strings.CutPrefix(sampleName(line), family)
	return ok && (rest == "" || rest == "_bucket" || rest == "_sum" || rest == "_count")
}

// seriesOf returns the labels of a sample, sorted, without those that tell the samples of one series
// of a histogram or a summary from one another.
func seriesOf(line []byte) string {
	_, rest, ok := strings.Cut(string(line), "{")
	if !ok || strings.ContainsAny(string(line[:len(line)-len(rest)-1]), " \t") {
		return ""
	}
	var labels []string
	for begin, quoted, i := 0, false, 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '}'):
			if label := strings.TrimSpace(rest[begin:i]); label != "" {
				labels = append(labels, label)
			}
			if begin = i + 1; c == '}' {
				i = len(rest)
			}
		}
	}
	labels = slices.DeleteFunc(labels, func(label string) bool {
		return strings.HasPrefix(label, "le=") || strings.HasPrefix(label, "quantile=")
	})
	slices.Sort(labels)
	return strings.Join(labels, ",")
}
