package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/local"
	"github.com/pintle-go/pintle/operators/internal/payments"
	"github.com/pintle-go/pintle/operators/internal/program"
	"github.com/pintle-go/pintle/operators/internal/standins"
)

const (
	module = "github.com/pintle-go/pintle/operators"
	// showLimit is the longest time until all of the operators' work has been seen.
	showLimit = 4 * time.Minute
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
	near    bool // kube-apiserver of a current cluster can connect to this machine
	// neonDir has the files of the pods of the Neon operator, and neon its addresses.
	neonDir string
	neon    neonPlace
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
	if s.neonDir, err = makeNeonDir(); err != nil {
		return err
	}
	s.Undo.Add("remove "+s.neonDir, func(context.Context) error { return os.RemoveAll(s.neonDir) })
	if s.neon, err = newNeonPlace(s.neonDir); err != nil {
		return err
	}

	s.Out.Say("building the operators (the first time this takes a minute)")
	programs, err := build(ctx)
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
	case name := <-ops.ended():
		return fmt.Errorf("%s has ended by itself", name)
	}
}

// build returns the paths of the operators' programs. They are linked again only if they
// are out of date.
func build(ctx context.Context) ([]string, error) {
	dir, err := program.CacheDir()
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, op := range list() {
		packages = append(packages, module+"/"+op.name)
	}
	return program.Build(ctx, dir, false, append(packages, standins.Package)...)
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
	var files []string
	for _, op := range list() {
		if op.definition != "" {
			files = append(files, op.definition)
		}
	}
	crds, err := install.Read(operators.Files, files...)
	if err != nil {
		return err
	}
	if err := install.Apply(ctx, c.Client, c.Namespace, crds...); err != nil {
		return fmt.Errorf("install definitions: %w", err)
	}
	s.Out.Say("installed the definitions of Book and Foo")
	return nil
}

func (s settings) operators(ctx context.Context, c *local.Cluster, paths []string) (running, error) {
	service, stop, err := new(payments.Service).Listen(ctx)
	if err != nil {
		return nil, err
	}
	s.Undo.Add("stop the stand-in for the payment service", stop)
	s.Out.Say("a stand-in for the payment service listens at %s", service)
	at := place{namespace: c.Namespace, payments: service, dir: s.Dir, neon: s.neon}
	ops := make(running)
	for i, op := range list() {
		if op.served && !c.Local && !s.near {
			s.Out.Say("%s is left out: kube-apiserver has to connect to it; FARM=1 says that it can", op.name)
			continue
		}
		if op.local && !c.Local {
			s.Out.Say("left out: %s runs on the local cluster only", op.name)
			continue
		}
		if op.missing != nil {
			if err := op.missing(s); err != nil {
				s.Out.Say("LEFT OUT: %s: %v", op.name, err)
				continue
			}
		}
		args := op.args(at)
		p, err := program.Start(program.Spec{Path: paths[i], Args: args, Env: c.Env, Line: s.Out.Lines(op.name)})
		if err != nil {
			return nil, err
		}
		s.Out.Say("%s runs, process %d", op.name, p.PID())
		s.Undo.Add("stop "+op.name, func(ctx context.Context) error { return p.Stop(ctx, stopLimit) })
		ops[op.name] = p
	}
	return ops, nil
}

// howTo prints commands for people to try.
func (s settings) howTo(c *local.Cluster, ops running) {
	s.Out.Say("try:")
	for _, op := range list() {
		if address := addressOf(ops[op.name]); op.page != "" && address != "" {
			s.Out.Say("  the plans of %s in a browser: http://%s%s", op.name, address, op.page)
		}
	}
	if c.Kubeconfig != "" {
		s.Out.Say("  export KUBECONFIG=%s", c.Kubeconfig)
	}
	kinds := []string{"deployments", "services"}
	for _, op := range list() {
		if ops[op.name] != nil {
			kinds = append(kinds, op.kinds...)
		}
	}
	s.Out.Say("  %s get %s", c.Kubectl, strings.Join(kinds, ","))
	for _, op := range list() {
		for _, args := range op.try {
			if ops[op.name] == nil {
				continue
			}
			s.Out.Say("  %s %s", c.Kubectl, args)
		}
	}
	if address := addressOf(ops["foo"]); address != "" {
		for _, path := range []string{"/foos", "/foos/good", "/metrics"} {
			s.Out.Say("  curl http://%s%s", address, path)
		}
	}
}

// addressOf returns the address that an operator logs that it listens on, empty if it does not run.
func addressOf(p *program.Program) string {
	if p == nil {
		return ""
	}
	lines, _ := p.Lines()
	for _, line := range lines {
		if _, after, ok := strings.Cut(line, "serving address="); ok {
			address, _, _ := strings.Cut(after, " ")
			return address
		}
	}
	return ""
}
