package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/local"
	"github.com/pintle-go/pintle/operators/internal/payments"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const (
	module = "github.com/pintle-go/pintle/operators"
	// showLimit is the longest time until all of the operators' work has been seen.
	showLimit = 2 * time.Minute
	// stopLimit is the longest time that an operator may take to end.
	stopLimit = 25 * time.Second
	// fieldManager is the field manager of the samples and the definitions.
	fieldManager = "pintle-run"
	// dirPrefix is followed by the process id.
	dirPrefix = "pintle-run-"
)

type settings struct {
	local.Session
	once    bool
	current bool
}

// run runs the whole command, and undoes its steps before it returns.
func run(ctx context.Context, s settings) (err error) {
	s.Undo = new(local.Undo)
	defer func() {
		err = errors.Join(asked(err, s.once), s.Undo.Run())
		if err == nil {
			s.Out.Say("ended; nothing is left running")
		}
	}()
	if s.Dir, err = local.MakeDir(dirPrefix); err != nil {
		return err
	}
	s.Undo.Add("remove "+s.Dir, func(context.Context) error { return os.RemoveAll(s.Dir) })

	s.Out.Say("building the operators (the first time this takes a minute)")
	programs, err := program.Build(ctx, s.Dir, false,
		module+"/book", module+"/foo", module+"/echo", module+"/letter", module+"/shop", module+"/farm")
	if err != nil {
		return err
	}
	c, err := s.Cluster(ctx, s.current)
	if err != nil {
		return err
	}
	if err := s.definitions(ctx, c); err != nil {
		return err
	}
	ops, err := s.operators(ctx, c, programs)
	if err != nil {
		return err
	}
	showing, cancel := context.WithTimeoutCause(ctx, showLimit,
		fmt.Errorf("the operators did not all work after %s", showLimit))
	defer cancel()
	if err := s.show(showing, c, ops); err != nil {
		return err
	}
	s.howTo(c, ops)
	if s.once {
		s.Out.Say("all operators have been seen working")
		return nil
	}
	s.Out.Say("Ctrl-C ends it")
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ops.book.Done():
		return errors.New("book has ended by itself")
	case <-ops.foo.Done():
		return errors.New("foo has ended by itself")
	case <-ops.echo.Done():
		return errors.New("echo has ended by itself")
	case <-ops.letter.Done():
		return errors.New("letter has ended by itself")
	case <-ops.shop.Done():
		return errors.New("shop has ended by itself")
	case <-ops.farmEnded():
		return errors.New("farm has ended by itself")
	}
}

// asked turns the error of a requested end into success, unless the operators should have
// been seen working first.
func asked(err error, once bool) error {
	if errors.Is(err, local.ErrAsked) && !once {
		return nil
	}
	return err
}

// definitions installs the definitions of Book and Foo. The other operators install
// theirs themselves.
func (s settings) definitions(ctx context.Context, c *local.Cluster) error {
	crds, err := install.Read(operators.Files, "book/crd.yaml", "foo/deploy/crd.yaml")
	if err != nil {
		return err
	}
	if err := install.Apply(ctx, c.Client, c.Namespace, crds...); err != nil {
		return fmt.Errorf("install definitions: %w", err)
	}
	s.Out.Say("installed the definitions of Book and Foo")
	return nil
}

// running has the running operators.
type running struct {
	book, foo, echo, letter, shop *program.Program
	// farm is nil if kube-apiserver cannot connect to this machine.
	farm *program.Program
}

// farmEnded returns a channel that is closed when farm has ended.
func (r running) farmEnded() <-chan struct{} {
	if r.farm == nil {
		return nil
	}
	return r.farm.Done()
}

func (s settings) operators(ctx context.Context, c *local.Cluster, paths []string) (running, error) {
	start := func(path string, args ...string) (*program.Program, error) {
		name := filepath.Base(path)
		p, err := program.Start(program.Spec{Path: path, Args: args, Env: c.Env, Line: s.Out.Lines(name)})
		if err != nil {
			return nil, err
		}
		s.Out.Say("%s runs, process %d", name, p.PID())
		s.Undo.Add("stop "+name, func(ctx context.Context) error { return p.Stop(ctx, stopLimit) })
		return p, nil
	}
	book, err := start(paths[0])
	if err != nil {
		return running{}, err
	}
	foo, err := start(paths[1], "-addr=127.0.0.1:0", "-namespace="+c.Namespace)
	if err != nil {
		return running{}, err
	}
	echo, err := start(paths[2], "-addr=127.0.0.1:0")
	if err != nil {
		return running{}, err
	}
	letter, err := start(paths[3], "-addr=127.0.0.1:0")
	if err != nil {
		return running{}, err
	}
	service, stop, err := new(payments.Service).Listen(ctx)
	if err != nil {
		return running{}, err
	}
	s.Undo.Add("stop the stand-in for the payment service", stop)
	s.Out.Say("a stand-in for the payment service listens at %s", service)
	shop, err := start(paths[4], "-addr=127.0.0.1:0", "-payments="+service)
	if err != nil || !c.Local {
		return running{book, foo, echo, letter, shop, nil}, err
	}
	farm, err := start(paths[5], "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+filepath.Join(s.Dir, "llamas"))
	return running{book, foo, echo, letter, shop, farm}, err
}

// howTo prints commands for people to try.
func (s settings) howTo(c *local.Cluster, ops running) {
	s.Out.Say("try:")
	if c.Kubeconfig != "" {
		s.Out.Say("  export KUBECONFIG=%s", c.Kubeconfig)
	}
	s.Out.Say("  %s get books,foos,echoes,deployments,services,letters,shops", c.Kubectl)
	if ops.farm != nil {
		s.Out.Say("  %s get llamas,farmpods", c.Kubectl)
	}
	s.Out.Say("  %s patch book moby-dick --type=merge -p '{\"spec\":{\"title\":\"The Whale\"}}'", c.Kubectl)
	s.Out.Say("  %s scale echo/hello --replicas=5", c.Kubectl)
	s.Out.Say("  %s patch shop corner --type=merge -p '{\"spec\":{\"gifts\":false,\"regions\":[\"north\"]}}'", c.Kubectl)
	if address := fooAddress(ops.foo); address != "" {
		for _, path := range []string{"/foos", "/foos/good", "/metrics"} {
			s.Out.Say("  curl http://%s%s", address, path)
		}
	}
}

// fooAddress returns the address that foo logs that it listens on.
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
