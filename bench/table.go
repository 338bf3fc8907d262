package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pintle-go/pintle/bench/measure"
)

// table prints all figures and how many of the targets are met.
func table(out io.Writer, results map[string][]measure.Result, foo []fooFigure) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tPEER\tOURS\tRATIO\tTARGET\tMET")
	met, missed, open := 0, 0, 0
	count := func(verdict string) string {
		switch verdict {
		case "yes":
			met++
		case "NO":
			missed++
		case "not measured", "not built":
			open++
		}
		return verdict
	}
	for _, f := range figures() {
		if f.name == "" {
			fmt.Fprintln(w, "\t\t\t\t\t")
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", f.name, strings.Join(f.cells(results, count), "\t"))
	}
	fmt.Fprintln(w, "\t\t\t\t\t")
	for _, f := range foo {
		fmt.Fprintf(w, "%s\t\t%s\t\t< %s\t%s\n", f.name, f.shown(), f.show(f.limit), count(f.verdict()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d targets met, %d missed, %d not measured\n", met, missed, open)
	return err
}

// cells are the peer's value, ours, their ratio, the target and the verdict.
func (f figure) cells(results map[string][]measure.Result, count func(string) string) []string {
	cells := []string{"", "", "", "", ""}
	peer, havePeer := f.median(results[f.peer])
	ours, haveOurs := f.median(results[f.ours])
	if havePeer {
		cells[0] = f.show(peer)
	}
	if haveOurs {
		cells[1] = f.show(ours)
	}
	if havePeer && haveOurs {
		cells[2] = fmt.Sprintf("%.3f", ours/peer)
	}
	switch {
	case f.share > 0:
		cells[3] = "≤ " + f.shareText + " of the peer's"
		cells[4] = count(verdict(havePeer && haveOurs, ours <= f.share*peer))
	case f.limit > 0:
		cells[3] = "≤ " + f.show(f.limit)
		cells[4] = count(verdict(haveOurs, ours <= f.limit))
	}
	return cells
}

func verdict(measured, met bool) string {
	switch {
	case !measured:
		return "not measured"
	case met:
		return "yes"
	}
	return "NO"
}

// median of the figure over the runs of a subject.
func (f figure) median(results []measure.Result) (float64, bool) {
	var values []float64
	for _, r := range results {
		values = append(values, f.value(r))
	}
	return median(values)
}

func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}

func size(bytes uint64) string {
	switch {
	case bytes == 0:
		return "-"
	case bytes < megabyte:
		return fmt.Sprintf("%.1f KB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/megabyte)
}

func duration(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
