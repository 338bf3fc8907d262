package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/pintle-go/pintle/bench/measure"
)

// quick measures the figures of the README: the stores and the Echo operator of the three
// sides, in some minutes.
type quick struct {
	out     io.Writer
	dir     string // of the programs
	options options
	begun   time.Time
	cargo   bool // whether kube-rs is measured
}

// quickResults is all that quick measures.
type quickResults struct {
	sizes    served
	stores   map[string][]measure.Result
	binaries map[string]float64
	idle     map[string][]float64
	written  map[string]int // lines of code
	deepcopy int            // lines that controller-gen makes for the peer
	crd      int
	cargo    bool
}

// runQuick builds the programs, measures and prints the table.
func runQuick(ctx context.Context, out io.Writer, dir string, o options) error {
	q := quick{out: out, dir: dir, options: o, begun: time.Now()}
	binaries, err := q.build(ctx)
	if err != nil {
		return err
	}
	q.phase("Built the programs")
	q.begun = time.Now()
	fmt.Fprintf(q.out, "Measuring; load average %s\n", loadAverage())
	r := quickResults{binaries: binaries, cargo: q.cargo}
	if err := r.count(); err != nil {
		return err
	}
	if r.idle, err = q.operators(ctx); err != nil {
		return err
	}
	q.phase("Measured the operators")
	if err := q.caches(ctx, &r); err != nil {
		return err
	}
	q.phase("Measured the caches")
	return q.print(r)
}

// phase prints the time since the beginning.
func (q quick) phase(done string) {
	fmt.Fprintf(q.out, "%s after %s\n", done, time.Since(q.begun).Round(time.Second))
}

// build builds all programs, and returns the sizes of the operators.
func (q *quick) build(ctx context.Context) (map[string]float64, error) {
	fmt.Fprintln(q.out, "Building the programs to measure; the first time this takes minutes")
	if err := build(ctx, q.dir); err != nil {
		return nil, err
	}
	sizes := map[string]float64{}
	for name, program := range echoPrograms {
		size, err := program.build(ctx, filepath.Join(q.dir, name))
		if err != nil {
			return nil, err
		}
		sizes[name] = size
	}
	err := buildKubers(ctx, q.dir)
	if errors.Is(err, errNoCargo) {
		fmt.Fprintf(q.out, "kube-rs is left out: %v\n", err)
		return sizes, nil
	}
	if err != nil {
		return nil, err
	}
	q.cargo = true
	sizes[kubersEcho], err = fileSize(filepath.Join(q.dir, kubersEcho))
	return sizes, err
}

// count counts the lines of the operators.
func (r *quickResults) count() (err error) {
	r.written = map[string]int{}
	for name, s := range echoSources {
		if r.written[name], err = countLines(s.written); err != nil {
			return err
		}
	}
	if r.deepcopy, err = countLines([]string{peerEchoDeepcopy}); err != nil {
		return err
	}
	r.crd, err = countLines([]string{peerEchoCRD})
	return err
}

// quickSubjects are the measured stores, in the order in which a round runs them.
var quickSubjects = []string{
	peerPods, kubersPods, oursPods,
	peerThree, kubersView, oursView,
	peerWidgets, kubersWidgets, oursWidgets,
}

// caches loads objects and measures the stores until the time is over.
func (q quick) caches(ctx context.Context, r *quickResults) (err error) {
	cfg, stopCluster, err := startCluster(ctx, q.out, q.options, serverOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopCluster()) }()
	if err := writeKubeconfig(cfg, filepath.Join(q.dir, "kubeconfig")); err != nil {
		return err
	}
	fmt.Fprintf(q.out, "Loading %d Pods and as many custom resources\n", q.options.objects)
	if err := load(ctx, q.out, cfg, q.options.objects); err != nil {
		return err
	}
	if r.sizes, err = weighOne(ctx, cfg); err != nil {
		return err
	}
	q.phase("Loaded the objects")
	r.stores = map[string][]measure.Result{}
	longest := time.Duration(0)
	for round := range q.options.runs {
		if round > 0 && time.Since(q.begun)+longest > q.options.limit {
			break
		}
		begun := time.Now()
		if err := q.round(ctx, r.stores); err != nil {
			return err
		}
		longest = max(longest, time.Since(begun))
		q.phase(fmt.Sprintf("Run %d was finished", round+1))
	}
	return nil
}

// round measures each store once.
func (q quick) round(ctx context.Context, results map[string][]measure.Result) error {
	for _, name := range quickSubjects {
		s := subjects[slices.IndexFunc(subjects, func(s subject) bool { return s.name == name })]
		if s.program == kubersProgram && !q.cargo {
			continue
		}
		r, err := s.run(ctx, q.dir, q.options)
		if err != nil {
			return err
		}
		if r.Objects != q.options.objects {
			return fmt.Errorf("%s holds %d objects, not %d", name, r.Objects, q.options.objects)
		}
		fmt.Fprintf(q.out, "  %-38s peak memory %-9s CPU time %-8s time %s\n",
			name, size(r.PeakRSS), duration(r.CPU), duration(r.Sync))
		results[name] = append(results[name], r)
		if err := sleep(ctx, time.Second); err != nil { // lets the server finish the work that the subject began
			return err
		}
	}
	return nil
}
