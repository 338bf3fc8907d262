package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const (
	module = "github.com/pintle-go/pintle/operators"
	// showLimit is how long all may take that is shown of the operators.
	showLimit = 2 * time.Minute
	// stopLimit is how long an operator may take to end.
	stopLimit = 25 * time.Second
	// fieldManager owns the samples and the definitions.
	fieldManager = "pintle-run"
	// dirPrefix is followed by the process id.
	dirPrefix = "pintle-run-"
)

type settings struct {
	out     *output
	once    bool
	current bool
}

// run does all of it, and undoes it before it returns.
func run(ctx context.Context, s settings) (err error) {
	removeLeft()
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	undo := &undoing{}
	undo.add("remove "+dir, func(context.Context) error { return os.RemoveAll(dir) })
	defer func() {
		err = errors.Join(asked(err, s.once), undo.run())
		if err == nil {
			s.out.say("ended; nothing is left running")
		}
	}()

	s.out.say("building the operators (the first time this takes a minute)")
	programs, err := program.Build(ctx, dir, false, module+"/book", module+"/foo")
	if err != nil {
		return err
	}
	c, err := s.cluster(ctx, dir, undo)
	if err != nil {
		return err
	}
	if err := s.definitions(ctx, c); err != nil {
		return err
	}
	ops, err := s.operators(c, programs, undo)
	if err != nil {
		return err
	}
	showing, cancel := context.WithTimeoutCause(ctx, showLimit, fmt.Errorf("not seen working after %s", showLimit))
	defer cancel()
	if err := s.show(showing, c, ops, undo); err != nil {
		return err
	}
	s.howTo(c, ops)
	if s.once {
		s.out.say("all of it has been seen working")
		return nil
	}
	s.out.say("Ctrl-C ends it")
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ops.book.Done():
		return errors.New("book has ended by itself")
	case <-ops.foo.Done():
		return errors.New("foo has ended by itself")
	}
}

// removeLeft removes the directories of earlier runs that were killed.
func removeLeft() {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return // the pattern is bad, if TMPDIR is strange enough
	}
	for _, dir := range left {
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(name)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // what is not ours to remove stays
		}
	}
}

// asked turns the error of having been asked to end into success, unless there
// was something to be seen first.
func asked(err error, once bool) error {
	if errors.Is(err, errAsked) && !once {
		return nil
	}
	return err
}

// definitions installs the kinds.
func (s settings) definitions(ctx context.Context, c *cluster) error {
	crds, err := install.Read(operators.Files, "book/crd.yaml", "foo/deploy/crd.yaml")
	if err != nil {
		return err
	}
	if err := install.Apply(ctx, c.client, c.namespace, crds...); err != nil {
		return fmt.Errorf("install definitions: %w", err)
	}
	s.out.say("installed the definitions of Book and Foo")
	return nil
}

// running are the operators.
type running struct {
	book, foo *program.Program
}

func (s settings) operators(c *cluster, paths []string, undo *undoing) (running, error) {
	start := func(path string, args ...string) (*program.Program, error) {
		name := filepath.Base(path)
		p, err := program.Start(program.Spec{Path: path, Args: args, Env: c.env, Line: s.out.lines(name)})
		if err != nil {
			return nil, err
		}
		s.out.say("%s runs, process %d", name, p.PID())
		undo.add("stop "+name, func(ctx context.Context) error { return p.Stop(ctx, stopLimit) })
		return p, nil
	}
	book, err := start(paths[0])
	if err != nil {
		return running{}, err
	}
	foo, err := start(paths[1], "-addr=127.0.0.1:0", "-namespace="+c.namespace)
	return running{book, foo}, err
}

// howTo says what people can do now.
func (s settings) howTo(c *cluster, ops running) {
	s.out.say("try:")
	if c.kubeconfig != "" {
		s.out.say("  export KUBECONFIG=%s", c.kubeconfig)
	}
	s.out.say("  %s get books,foos", c.kubectl)
	s.out.say("  %s patch book moby-dick --type=merge -p '{\"spec\":{\"title\":\"The Whale\"}}'", c.kubectl)
	if address := fooAddress(ops.foo); address != "" {
		for _, path := range []string{"/foos", "/foos/good", "/metrics"} {
			s.out.say("  curl http://%s%s", address, path)
		}
	}
}

// fooAddress is where foo says that it listens.
func fooAddress(foo *program.Program) string {
	lines, _ := foo.Lines()
	for _, line := range lines {
		if _, after, ok := strings.Cut(line, "msg=serving address="); ok {
			address, _, _ := strings.Cut(after, " ")
			return address
		}
	}
	return ""
}

// undoing remembers what has to be undone, last first.
type undoing struct{ steps []undoStep }

type undoStep struct {
	what string
	do   func(context.Context) error
}

func (u *undoing) add(what string, do func(context.Context) error) {
	u.steps = append(u.steps, undoStep{what, do})
}

func (u *undoing) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		u.steps = u.steps[:len(u.steps)-1]
		if err := last.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.what, err))
		}
	}
	return errors.Join(errs...)
}

// newClient returns a client for a kubeconfig, or for KUBECONFIG's.
func newClient(kubeconfig string) (*kube.Client, error) {
	return kube.Config{Kubeconfig: kubeconfig, FieldManager: fieldManager}.Connect()
}
