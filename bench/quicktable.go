package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/pintle-go/pintle/bench/measure"
)

// quickRow is a line of the table: a figure of controller-runtime, kube-rs and pintle.
type quickRow struct {
	figure string
	values [3]string
}

// quickFigure is a line of the table that is about a cache.
type quickFigure struct {
	figure   string
	subjects [3]string
	value    func(measure.Result) float64
	show     func(float64) string
}

// quickFigures returns the figures about caches of n objects, which have the given sizes.
func quickFigures(n int, sizes served) []quickFigure {
	peak := func(r measure.Result) float64 { return float64(r.PeakRSS) }
	cpu := func(r measure.Result) float64 { return float64(r.CPU) }
	sync := func(r measure.Result) float64 { return float64(r.Sync) }
	whole := fmt.Sprintf("Cache of %s Pods of %.0f KB: ", thousands(n), float64(sizes.pod)/1e3)
	three := "Cache of three fields of these Pods: "
	custom := fmt.Sprintf("Cache of %s custom resources of %.0f KB: ", thousands(n), float64(sizes.widget)/1e3)
	pods := [3]string{peerPods, kubersPods, oursPods}
	views := [3]string{peerThree, kubersView, oursView}
	widgets := [3]string{peerWidgets, kubersWidgets, oursWidgets}
	const peakMemory, cpuTime, syncTime = "peak memory", "CPU time until synced", "time until synced"
	return []quickFigure{
		{whole + peakMemory, pods, peak, asSize},
		{whole + cpuTime, pods, cpu, asTime},
		{whole + syncTime, pods, sync, asTime},
		{three + peakMemory, views, peak, asSize},
		{three + cpuTime, views, cpu, asTime},
		{custom + peakMemory, widgets, peak, asSize},
		{custom + cpuTime, widgets, cpu, asTime},
		{custom + syncTime, widgets, sync, asTime},
	}
}

// rows returns the table's lines.
func (r quickResults) rows(n int) []quickRow {
	var rows []quickRow
	for _, f := range quickFigures(n, r.sizes) {
		row := quickRow{figure: f.figure}
		for i, subject := range f.subjects {
			var values []float64
			for _, result := range r.stores[subject] {
				values = append(values, f.value(result))
			}
			row.values[i] = shown(values, f.show)
		}
		rows = append(rows, row)
	}
	const echo = "Operator Echo: "
	binary, idle := quickRow{figure: echo + "stripped binary"}, quickRow{figure: echo + "memory when idle"}
	lines := quickRow{figure: echo + "lines of code"}
	generated := quickRow{figure: echo + "generated lines beside it", values: [3]string{
		fmt.Sprintf("%d of Go, %d of YAML", r.deepcopy, r.crd), "none", "none",
	}}
	for i, name := range []string{peerEcho, kubersEcho, oursEcho} {
		var size []float64
		if bytes, ok := r.binaries[name]; ok {
			size = []float64{bytes}
		}
		binary.values[i] = shown(size, asSize)
		idle.values[i] = shown(r.idle[name], asSize)
		lines.values[i] = fmt.Sprint(r.written[name])
	}
	return append(rows, binary, idle, lines, generated)
}

// shown formats the median. Only kube-rs can be without values, where cargo is missing.
func shown(values []float64, show func(float64) string) string {
	if m, ok := median(values); ok {
		return show(m)
	}
	return "no cargo"
}

// thousands writes a number with a comma.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// notes say how the figures were measured.
func (r quickResults) notes() []string {
	runs := "Caches and operators: one run."
	if n := len(r.stores[oursPods]); n > 1 {
		runs = fmt.Sprintf("Caches: medians of %d runs; operators: one run.", n)
	}
	notes := []string{
		fmt.Sprintf("One API server (Kubernetes %s) and %d processors; the programs run one after another. %s",
			r.sizes.version, runtime.NumCPU(), runs),
		"Memory is resident memory: of a cache the peak, of an operator ten seconds after its only Echo was ready. " +
			"CPU time is that of the program.",
		"controller-runtime is used with its defaults; for three fields, with a transform that keeps them " +
			"and the metadata. " +
			"kube-rs uses streaming lists and drops managed fields; for three fields, it has a type written for them. " +
			"pintle uses its defaults; for three fields, a view.",
		"Lines are counted without blank lines and comments. " +
			"All three operators make the same objects and the same status. " +
			"Those on controller-runtime and pintle also have leader election, metrics and probes, " +
			"and pintle's emits events and prints its manifests; the one on kube-rs has none of these.",
	}
	if !r.cargo {
		notes = append(notes, fmt.Sprintf("kube-rs was not measured: %v.", errNoCargo))
	}
	return notes
}

// titles are the heads of the columns.
func titles() ([4]string, error) {
	version, err := kubersVersion()
	peer := "controller-runtime " + moduleVersion("sigs.k8s.io/controller-runtime")
	return [4]string{"", peer, "kube-rs " + version, "pintle"}, err
}

// text returns the table for a terminal.
func text(titles [4]string, rows []quickRow, notes []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(titles[:], "\t"))
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\n", r.figure, strings.Join(r.values[:], "\t"))
	}
	_ = w.Flush() // a Builder does not fail
	return b.String() + "\n" + strings.Join(notes, "\n") + "\n"
}

// markdown returns the table for the README. Lines of notes are not longer than others.
func markdown(titles [4]string, rows []quickRow, notes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n| --- | --- | --- | --- |\n", strings.TrimSpace(strings.Join(titles[:], " | ")))
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.figure, strings.Join(r.values[:], " | "))
	}
	b.WriteString("\n" + wrap(strings.Join(notes, " "), 119))
	return b.String()
}

// wrap breaks a text into lines of at most width bytes.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String() + "\n"
}

// The comments around the table in the README.
const tableBegin, tableEnd = "<!-- bench-quick -->", "<!-- /bench-quick -->"

// between returns the parts of a document before, between and after the comments.
func between(document string) (before, table, after string, err error) {
	before, rest, found := strings.Cut(document, tableBegin)
	table, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		return "", "", "", fmt.Errorf("find %s and %s", tableBegin, tableEnd)
	}
	return before, table, after, nil
}

// writeTable replaces the table in a file.
func writeTable(file, table string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	before, _, after, err := between(string(document))
	if err != nil {
		return fmt.Errorf("write table into %s: %w", file, err)
	}
	document = []byte(before + tableBegin + "\n\n" + table + "\n" + tableEnd + after)
	if err := os.WriteFile(file, document, 0o644); err != nil { //nolint:gosec // a document is for all to read
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// print prints the table, or writes it into a file.
func (q quick) print(r quickResults) error {
	heads, err := titles()
	if err != nil {
		return err
	}
	rows, notes := r.rows(q.options.objects), r.notes()
	form := text
	if q.options.markdown {
		form = markdown
	}
	fmt.Fprintf(q.out, "\n%s", form(heads, rows, notes))
	if q.options.write == "" {
		return nil
	}
	return writeTable(q.options.write, markdown(heads, rows, notes))
}
