package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a line of the table: one figure of both sides.
type row struct {
	name       string    // none at the end of a group
	peer, ours []float64 // the value of each run; none if it was not measured
	show       func(float64) string
	target     target
	err        error // the reason why there is no value
}

// target is the limit for ours: a share of the peer's value, or an amount. A line without
// a limit only informs.
type target struct {
	share     float64
	shareText string
	limit     float64
	below     bool // less than the limit: the limit itself is too much
}

func shareOf(text string, share float64) target { return target{share: share, shareText: text} }
func atMost(limit float64) target               { return target{limit: limit} }
func under(limit float64) target                { return target{limit: limit, below: true} }

// table prints all rows and the number of targets that are met.
func table(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tPEER\tOURS\tRATIO\tTARGET\tMET")
	met, missed, open := 0, 0, 0
	for _, r := range rows {
		cells := r.cells()
		fmt.Fprintf(w, "%s\t%s\n", r.name, strings.Join(cells, "\t"))
		switch cells[4] {
		case "yes":
			met++
		case "NO":
			missed++
		case "not measured", "not built":
			open++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d targets met, %d missed, %d not measured\n", met, missed, open)
	return err
}

// cells returns the medians of the peer and of ours, their ratio, the target and the
// verdict.
func (r row) cells() []string {
	cells := []string{"", "", "", "", ""}
	peer, havePeer := median(r.peer)
	ours, haveOurs := median(r.ours)
	if havePeer {
		cells[0] = r.show(peer)
	}
	if haveOurs {
		cells[1] = r.show(ours)
	}
	if havePeer && haveOurs {
		cells[2] = fmt.Sprintf("%.3f", ours/peer)
	}
	switch t := r.target; {
	case t.share > 0:
		cells[3] = "≤ " + t.shareText + " of the peer's"
		cells[4] = verdict(havePeer && haveOurs, ours <= t.share*peer)
	case t.limit > 0 && t.below:
		cells[3] = "< " + r.show(t.limit)
		cells[4] = verdict(haveOurs, ours < t.limit)
	case t.limit > 0:
		cells[3] = "≤ " + r.show(t.limit)
		cells[4] = verdict(haveOurs, ours <= t.limit)
	}
	if r.err != nil {
		cells[1], cells[4] = "not built", "not built"
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

func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}

// asSize, asTime and asCount format values.
func asSize(v float64) string  { return size(uint64(v)) }
func asTime(v float64) string  { return duration(time.Duration(v)) }
func asCount(v float64) string { return fmt.Sprintf("%.0f", v) }

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
	case d < 0:
		return "-" + duration(-d)
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
