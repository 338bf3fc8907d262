package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/pintle-go/pintle/operators/internal/program"
)

// stopLimit is the longest time that an operator may take to end.
const stopLimit = 25 * time.Second

// operator is a program that is rebuilt and restarted.
type operator struct {
	pkg  string
	args []string
	// then, if it is set, is called when the operator runs for the first time.
	then func(ctx context.Context, o *operator) error

	sources map[string]bool // directories
	running *program.Program
	built   string            // the program's file
	sum     [sha256.Size]byte // of the program's file
}

// name returns the name of the program, once it has been built.
func (o *operator) name() string {
	if o.built == "" {
		return path.Base(o.pkg)
	}
	return filepath.Base(o.built)
}

// madeOf reports whether a saved file is a source of the operator.
func (o *operator) madeOf(saved map[string]bool) bool {
	for dir := range saved {
		if o.sources[dir] {
			return true
		}
	}
	return false
}

// build builds the operator into a directory for this build. It reports whether the
// program differs from the one before.
func (o *operator) build(ctx context.Context, dir string) (another bool, err error) {
	// This comes first, so that a source that does not compile is watched too.
	dirs, err := sources(ctx, o.pkg)
	if err != nil {
		return false, err
	}
	o.sources = dirs
	if dir, err = os.MkdirTemp(dir, "build-"); err != nil {
		return false, fmt.Errorf("make directory: %w", err)
	}
	if _, err := program.Build(ctx, dir, false, o.pkg); err != nil {
		return false, err
	}
	// Only the go command knows the name of the program for package ".".
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) != 1 {
		return false, fmt.Errorf("%s is not a single main package", o.pkg)
	}
	data, err := os.ReadFile(made[0])
	if err != nil {
		return false, fmt.Errorf("read program: %w", err)
	}
	sum := sha256.Sum256(data)
	if sum == o.sum {
		return false, os.RemoveAll(dir)
	}
	o.sum = sum
	if o.built != "" {
		_ = os.RemoveAll(filepath.Dir(o.built)) // it is not needed, and takes room until the end
	}
	o.built = made[0]
	return true, nil
}

// restart ends the operator, if it runs, and starts the built program.
func (d *dev) restart(ctx context.Context, o *operator) error {
	if err := o.stop(ctx); err != nil {
		return err
	}
	p, err := program.Start(program.Spec{Path: o.built, Args: o.args, Env: d.env, Line: d.out.Lines(o.name())})
	if err != nil {
		return err
	}
	first := o.running == nil
	o.running = p
	d.out.Say("%s runs, process %d", o.name(), p.PID())
	go d.tellEnd(o.name(), p)
	if first && o.then != nil {
		return o.then(ctx, o)
	}
	return nil
}

// tellEnd reports that an operator has ended by itself.
func (d *dev) tellEnd(name string, p *program.Program) {
	<-p.Done()
	if code, err := p.Wait(context.Background()); err == nil && code > 0 {
		d.out.Say("%s has ended with status %d: it starts again when one of its sources is saved", name, code)
	}
}

func (o *operator) stop(ctx context.Context) error {
	if o.running == nil {
		return nil
	}
	return o.running.Stop(ctx, stopLimit)
}
