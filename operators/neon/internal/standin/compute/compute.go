// Package compute is the stand-in for compute_ctl, Neon's supervisor of PostgreSQL. It is no
// part of Neon, and lives with the tests. Its PostgreSQL is a real one, but an unchanged one:
// its first data come from a pageserver, and its WAL goes to safekeepers (package wal), so
// the data survive where those of a real compute do.
//
// Flags, statuses, answers and exits are those of upstream's program, as recordings have
// them. These are different: pages are read from the compute's own disk, so a pageserver
// that is away does not stop a compute that runs; settings and libraries of Neon's
// PostgreSQL are left out; promotion is not possible.
package compute

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/clap"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
)

// options are the flags.
type options struct {
	data, connection, postgres, id, config string
	external, internal                     int
}

func parse(args []string) (options, error) {
	var o options
	flags := clap.New("compute_ctl")
	for names, text := range map[[2]string]*string{
		{"D", "pgdata"}: &o.data, {"C", "connstr"}: &o.connection, {"i", "compute-id"}: &o.id, {"c", "config"}: &o.config,
	} {
		for _, name := range names {
			flags.StringVar(text, name, "", "")
		}
	}
	flags.StringVar(&o.postgres, "b", "postgres", "")
	flags.StringVar(&o.postgres, "pgbin", "postgres", "")
	flags.IntVar(&o.external, "external-http-port", 3080, "")
	flags.IntVar(&o.internal, "internal-http-port", 3081, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name, value := range map[string]string{"-D": o.data, "-C": o.connection, "--compute-id": o.id, "-c": o.config} {
		if value == "" {
			return o, fmt.Errorf("%s is missing", name)
		}
	}
	return o, nil
}

// The statuses that /status tells.
const (
	statusInit          = "init"
	statusRunning       = "running"
	statusConfiguration = "configuration"
	statusFailed        = "failed"
	statusPending       = "termination_pending_"
	statusTerminated    = "terminated"
)

// node is one compute. Its methods are safe for concurrent use.
type node struct {
	options options
	log     *slog.Logger
	output  io.Writer // PostgreSQL's
	started time.Time
	timing  timing
	leave   chan int // the exit code of the first end

	mu         sync.Mutex
	config     spec.Config
	status     string
	failure    *string
	lastActive *time.Time
	postgres   *postgres
	proposer   *wal.Proposer
	conflict   bool // another compute was elected

	// The start has set how the certificates of safekeepers and pageservers are checked.
	toKeepers, toPages *tls.Config
}

// timing is about how long the process stays when all is over.
type timing struct {
	afterFailure, afterFast, afterImmediate time.Duration
}

var upstreamTiming = timing{afterFailure: 30 * time.Second, afterFast: 30 * time.Second, afterImmediate: 300 * time.Millisecond}

// Main runs the program and returns its exit code.
func Main(args []string, stderr io.Writer) int {
	o, err := parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2 // as upstream's parser of flags
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(signals)
	code, err := run(o, signals, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
	}
	return code
}

// run runs one compute to its end.
func run(o options, signals <-chan os.Signal, stderr io.Writer) (int, error) {
	text, err := os.ReadFile(o.config)
	if err != nil {
		return 1, fmt.Errorf("read configuration: %w", err)
	}
	config, err := decode(text)
	if err != nil {
		return 1, err
	}
	n := &node{
		options: o, config: config, log: slog.New(slog.NewTextHandler(stderr, nil)), output: stderr,
		started: time.Now().UTC(), timing: upstreamTiming, status: statusInit, leave: make(chan int, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	for _, server := range []struct {
		port int
		keys bool
	}{{o.external, true}, {o.internal, false}} {
		listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv(addressVariable), strconv.Itoa(server.port)))
		if err != nil {
			return 1, fmt.Errorf("listen: %w", err)
		}
		handler := n.handler(server.keys)
		tasks.Go(func() { serve(ctx, listener, handler) })
	}
	tasks.Go(func() { n.live(ctx, &tasks) })
	select {
	case code := <-n.leave:
		return code, nil
	case s := <-signals:
		// Upstream forwards the signal and is over at once: nobody waits for PostgreSQL here.
		n.log.Info("ends", "signal", s)
		if p := n.server(); p != nil {
			p.signal(syscall.SIGINT)
		}
		return 1, nil
	}
}

// live starts the compute, and ends the process when PostgreSQL or the start has ended.
func (n *node) live(ctx context.Context, tasks *sync.WaitGroup) {
	err := n.start(ctx, tasks)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		n.log.Error("start failed", "error", err)
		n.fail(err)
		code := 1
		if p := n.server(); p != nil && errors.Is(err, errApply) {
			code = 0 // upstream's
			p.signal(syscall.SIGINT)
			<-p.done
		}
		n.exit(ctx, n.timing.afterFailure, code)
		return
	}
	n.setStatus(statusInit, statusRunning)
	p := n.server()
	select {
	case <-ctx.Done():
	case <-p.done:
		n.mu.Lock()
		ending := n.conflict || n.status == statusTerminated || strings.HasPrefix(n.status, statusPending)
		n.mu.Unlock()
		if !ending { // somebody else has stopped PostgreSQL, or it crashed
			n.log.Info("PostgreSQL ended", "code", p.code)
			n.exit(ctx, 0, min(p.code, 1))
		}
	}
}

// exit ends the process after a while.
func (n *node) exit(ctx context.Context, after time.Duration, code int) {
	select {
	case <-ctx.Done():
	case <-time.After(after):
		select {
		case n.leave <- code:
		default: // another end came first
		}
	}
}

func (n *node) server() *postgres {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.postgres
}

// setStatus changes the status if it is one.
func (n *node) setStatus(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status != from {
		return false
	}
	n.status = to
	return true
}

// fail makes the compute failed. Only its end helps.
func (n *node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := err.Error()
	n.status, n.failure = statusFailed, &text
}
