// Command dev runs the operators on a cluster and watches their sources. When a source
// file of an operator is saved, dev rebuilds and restarts that operator. If the source
// does not compile, dev shows the errors and the running operator stays as it is. Run it
// in a checkout, or in any module:
//
//	go run ./operators/cmd/dev [PACKAGE [FLAG...]]
//
// Without a package it runs Book, Foo, Echo, Letter, Shop and Farm and gives them samples. With a
// package, it runs that main package with these flags.
//
// It starts a Kubernetes with two simulated nodes. With CLUSTER=current it uses the
// cluster that KUBECONFIG names. Ctrl-C ends everything that it started; in a current
// cluster the samples and the definitions stay.
//
// Where to read on: dev.go has the loop, sources.go finds the source files of an operator
// and watches them, operator.go rebuilds and restarts the operator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/operators/internal/local"
	"github.com/pintle-go/pintle/operators/internal/payments"
)

func main() {
	flag.Parse()
	out := &local.Output{Name: "dev", To: os.Stdout}
	current, err := local.AskedForCurrent()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(2)
	}
	if err := run(local.Context(out), out, current, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

// run runs the whole command until ctx ends, and then undoes its steps.
func run(ctx context.Context, out *local.Output, current bool, args []string) (err error) {
	s := local.Session{Out: out, FieldManager: "pintle-dev", Undo: new(local.Undo)}
	defer func() {
		if errors.Is(err, local.ErrAsked) {
			err = nil
		}
		if err = errors.Join(err, s.Undo.Run()); err == nil {
			out.Say("ended; nothing is left running")
		}
	}()
	if s.Dir, err = local.MakeDir("pintle-dev-"); err != nil {
		return err
	}
	s.Undo.Add("remove "+s.Dir, func(context.Context) error { return os.RemoveAll(s.Dir) })
	c, err := s.Cluster(ctx, current)
	if err != nil {
		return err
	}
	d := &dev{out: out, dir: s.Dir, env: c.Env}
	if len(args) > 0 {
		d.operators = []*operator{{pkg: args[0], args: args[1:]}}
		s.Undo.Add("stop the operator", d.stop)
		return d.loop(ctx)
	}
	d.operators = []*operator{
		{pkg: module + "/book"},
		{pkg: module + "/foo", args: []string{"-addr=127.0.0.1:0", "-namespace=" + c.Namespace}},
		{pkg: module + "/echo", args: []string{"-addr=127.0.0.1:0"}, then: sampled(c, "echo/sample.yaml")},
		{pkg: module + "/letter", args: []string{"-addr=127.0.0.1:0"}, then: sampled(c, "letter/sample.yaml")},
	}
	service, stop, err := new(payments.Service).Listen(ctx)
	if err != nil {
		return err
	}
	s.Undo.Add("stop the stand-in for the payment service", stop)
	d.operators = append(d.operators, &operator{
		pkg: module + "/shop", args: []string{"-addr=127.0.0.1:0", "-payments=" + service}, then: shop(c),
	})
	if c.Local { // kube-apiserver must be able to connect to this machine
		d.operators = append(d.operators, &operator{
			pkg: module + "/farm", args: []string{"-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data=" + filepath.Join(s.Dir, "llamas")},
			then: sampled(c, "farm/sample.yaml"),
		})
	}
	if err := samples(ctx, c); err != nil {
		return err
	}
	s.Undo.Add("stop the operators", d.stop)
	if c.Kubeconfig != "" {
		out.Say("  export KUBECONFIG=%s", c.Kubeconfig)
	}
	out.Say("  %s get books,foos,echoes,letters,shops", c.Kubectl)
	return d.loop(ctx)
}
