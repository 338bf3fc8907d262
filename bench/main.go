// Command bench measures pintle's stores beside the caches of controller-runtime and of
// kube-rs, and the Echo operator beside the same operator on controller-runtime. Programs
// that are compared run on one API server and in one session. The command prints a table
// of the figures that this project promises: the peer's, ours, their ratio, the target,
// and whether it is met. Run it by make bench, or here by GOWORK=off go run .
//
// With -part changes it measures only what a change costs in a store of many Pods.
//
// With -quick it measures fewer figures in some minutes, those of the README, of
// controller-runtime, kube-rs and pintle: make bench-quick.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pintle-go/pintle/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// The parts of the bench.
const (
	partStores = "stores"
	partEcho   = "echo"
	partChange = "changes"
	partAll    = "all"
)

// options are the command line's.
type options struct {
	part       string // stores, echo, changes or all
	objects    int
	runs       int
	echoes     int
	echoRuns   int
	changing   changeOptions
	only       *regexp.Regexp
	kubeconfig string
	profiles   string

	quick    bool
	limit    time.Duration // of quick
	markdown bool
	write    string
}

func parseOptions() (options, error) {
	var o options
	only := flag.String(
		"only",
		"",
		"measure only subjects whose name matches this `pattern` (see the lines printed during a run)",
	)
	flag.StringVar(&o.part, "part", partAll, "`part` to measure: stores (and foo), echo, changes, or all")
	flag.IntVar(&o.objects, "pods", 20_000, "number of Pods to load, and of custom resources")
	flag.IntVar(&o.runs, "runs", 5, "number of runs of each subject; the table shows medians")
	flag.IntVar(&o.echoes, "echoes", 5_000, "number of Echoes that each operator runs at once; 1 skips this measurement")
	flag.IntVar(&o.echoRuns, "echo-runs", 1, "number of these runs; each takes minutes for each operator")
	flag.IntVar(&o.changing.objects, "changing-pods", 100_000, "number of Pods in the store whose objects change")
	flag.IntVar(&o.changing.rate, "changes", 2_000, "number of changes in a second")
	flag.DurationVar(&o.changing.lasts, "changes-last", 10*time.Minute, "`time` for which they change")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "",
		"use the cluster of this kubeconfig `file`, and leave the objects there, instead of starting a cluster")
	flag.StringVar(
		&o.profiles,
		"profiles",
		"",
		"write heap and CPU profiles of the last run of each subject into this `directory`",
	)
	flag.BoolVar(&o.quick, "quick", false, "measure only the figures of the README, and print their table")
	flag.DurationVar(&o.limit, "limit", 280*time.Second,
		"with -quick: no further run begins that would end after this `time`")
	flag.BoolVar(&o.markdown, "markdown", false, "with -quick: print the table as Markdown")
	flag.StringVar(&o.write, "write", "",
		"with -quick: write the table as Markdown into this `file`, between "+tableBegin+" and "+tableEnd)
	flag.Parse()
	if o.quick && o.kubeconfig != "" {
		return o, errors.New("-quick does not run with -kubeconfig: it deletes the definition of Echo and with it all Echoes")
	}
	if !o.quick && (o.markdown || o.write != "") {
		return o, errors.New("-markdown and -write need -quick")
	}
	if flag.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if least := 1000; o.objects < least {
		return o, fmt.Errorf("-pods %d is too few: the look-ups need %d", o.objects, least)
	}
	if parts := []string{partStores, partEcho, partChange, partAll}; !slices.Contains(parts, o.part) {
		return o, fmt.Errorf("-part %s is none of %s", o.part, strings.Join(parts, ", "))
	}
	if o.changing.objects < 1 || o.changing.rate < 1 || o.changing.lasts < time.Second {
		return o, errors.New("-changing-pods, -changes and -changes-last: too few, or too short")
	}
	if o.runs < 1 {
		return o, fmt.Errorf("-runs %d is too few", o.runs)
	}
	if o.echoes < 1 || o.echoRuns < 1 {
		return o, fmt.Errorf("-echoes %d -echo-runs %d is too few", o.echoes, o.echoRuns)
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("read -only: %w", err)
	}
	if o.profiles != "" {
		if o.profiles, err = filepath.Abs(o.profiles); err != nil {
			return o, err
		}
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return o, err
		}
	}
	return o, nil
}

func run(ctx context.Context, out io.Writer) (err error) {
	o, err := parseOptions()
	if err != nil {
		return err
	}
	log.SetLogger(logr.Discard()) // controller-runtime's client logs to it
	dir, err := os.MkdirTemp("", "pintle-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	if o.quick {
		return runQuick(ctx, out, dir, o)
	}
	var rows []row
	var setups []string
	for _, part := range []struct {
		name string
		run  func(context.Context, io.Writer, string, options) ([]row, string, error)
	}{{partStores, runStores}, {partChange, runChanges}, {partEcho, runEcho}} {
		if o.part != partAll && o.part != part.name {
			continue
		}
		partRows, setup, err := part.run(ctx, out, dir, o)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			rows = append(rows, row{})
		}
		rows, setups = append(rows, partRows...), append(setups, setup)
	}
	fmt.Fprintf(out, "\n%s\n", strings.Join(setups, "\n"))
	return table(out, rows)
}

// runStores measures stores, and foo. It returns the rows of the table and a description
// of the measurement.
func runStores(ctx context.Context, out io.Writer, dir string, o options) (rows []row, measured string, err error) {
	fmt.Fprintln(out, "Building the programs to measure")
	if err := build(ctx, dir); err != nil {
		return nil, "", err
	}
	cfg, stopCluster, err := startCluster(ctx, out, o, serverOnly)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, stopCluster()) }()
	if err := writeKubeconfig(cfg, filepath.Join(dir, "kubeconfig")); err != nil {
		return nil, "", err
	}
	fmt.Fprintf(out, "Loading %d Pods and as many custom resources\n", o.objects)
	if err := load(ctx, out, cfg, o.objects); err != nil {
		return nil, "", err
	}
	sizes, err := weigh(ctx, cfg)
	if err != nil {
		return nil, "", err
	}
	rounds, err := measureAll(ctx, out, dir, cfg, o)
	if err != nil {
		return nil, "", err
	}
	foo, err := measureFoo(ctx, out, dir, cfg, o.runs)
	if err != nil {
		return nil, "", err
	}
	return append(append(storeRows(rounds), row{}), foo...), setup(o, sizes), nil
}

// runEcho measures the two Echo operators.
func runEcho(ctx context.Context, out io.Writer, dir string, o options) (rows []row, measured string, err error) {
	fmt.Fprintln(out, "Building the Echo operators")
	sizes, err := buildEcho(ctx, dir)
	if err != nil {
		return nil, "", err
	}
	cfg, stopCluster, err := startCluster(ctx, out, o, wholeCluster)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, stopCluster()) }()
	results, err := measureEcho(ctx, out, dir, cfg, o)
	if err != nil {
		return nil, "", err
	}
	return echoRows(o, sizes, results), echoSetup(o), nil
}

// measureAll runs every subject once per round. Peers and ours take turns, so that other
// changes on the machine affect both.
func measureAll(
	ctx context.Context, out io.Writer, dir string, cfg *rest.Config, o options,
) (map[string][]measure.Result, error) {
	results := map[string][]measure.Result{}
	server, err := newServerTime(cfg)
	if err != nil {
		return nil, err
	}
	withKubers, err := kubersBuilt(ctx, out, dir, o)
	if err != nil {
		return nil, err
	}
	for round := range o.runs {
		fmt.Fprintf(out, "Run %d of %d\n", round+1, o.runs)
		for _, s := range subjects {
			if !o.only.MatchString(s.name) || s.program == kubersProgram && !withKubers {
				continue
			}
			before, err := server.used(ctx)
			if err != nil {
				return nil, err
			}
			r, err := s.run(ctx, dir, o)
			if err != nil {
				return nil, err
			}
			after, err := server.used(ctx)
			if err != nil {
				return nil, err
			}
			r.Server = after - before
			if r.Objects != o.objects {
				return nil, fmt.Errorf("%s holds %d objects, not %d", s.name, r.Objects, o.objects)
			}
			fmt.Fprintf(
				out,
				"  %-34s sync %-8s cpu %-8s server %-8s heap %-9s peak RSS %-9s get %-8s look-up of %d %-8s in a tenth %-8s of none %s\n",
				s.name, duration(r.Sync), duration(r.CPU), duration(r.Server), size(r.Heap), size(r.PeakRSS), duration(r.Get),
				r.LookupSize, duration(r.Lookup), duration(r.LookupSmall), duration(r.LookupNone),
			)
			results[s.name] = append(results[s.name], r)
			select {
			case <-time.After(time.Second): // lets the server finish the requests of the subject
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return results, nil
}
