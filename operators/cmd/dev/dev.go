package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/pintle-go/pintle/operators/internal/local"
)

// dev is the state of the loop.
type dev struct {
	out       *local.Output
	dir       string   // for the built programs
	env       []string // for the operators
	operators []*operator
}

// loop builds and runs the operators, and rebuilds and restarts them when their sources
// change, until ctx ends.
func (d *dev) loop(ctx context.Context) error {
	for _, o := range d.operators {
		if err := d.update(ctx, o); err != nil {
			return err
		}
	}
	watching := func() {
		d.out.Say("watching %d directories; save a file to see it restart; Ctrl-C ends dev", len(d.sources()))
	}
	return watch(ctx, d.sources, watching, func(saved map[string]bool) {
		for _, o := range d.operators {
			if !o.madeOf(saved) {
				continue
			}
			if err := d.update(ctx, o); err != nil && ctx.Err() == nil {
				d.out.Say("%v", err)
			}
		}
	})
}

// sources returns the directories of all operators' sources.
func (d *dev) sources() map[string]bool {
	all := map[string]bool{}
	for _, o := range d.operators {
		maps.Copy(all, o.sources)
	}
	return all
}

// update builds an operator and restarts it if the program differs from the one before. A
// source that does not compile is reported, and is no error.
func (d *dev) update(ctx context.Context, o *operator) error {
	begun := time.Now()
	d.out.Say("building %s", o.name())
	another, err := o.build(ctx, d.dir)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		d.out.Say("%s", strings.TrimSpace(err.Error()))
		if o.sources == nil {
			return fmt.Errorf("%s has no sources to watch", o.pkg)
		}
		if o.running != nil {
			d.out.Say("%s does not compile: the running program continues", o.name())
		}
		return nil
	}
	if !another {
		if o.ended() {
			return d.restart(ctx, o)
		}
		d.out.Say("%s is unchanged", o.name())
		return nil
	}
	d.out.Say("%s was built in %s", o.name(), time.Since(begun).Round(100*time.Millisecond))
	return d.restart(ctx, o)
}

// ended reports whether an operator has run and ended by itself.
func (o *operator) ended() bool {
	if o.running == nil {
		return false
	}
	select {
	case <-o.running.Done():
		return true
	default:
		return false
	}
}

// stop stops all operators.
func (d *dev) stop(ctx context.Context) error {
	var failed []error
	for _, o := range d.operators {
		failed = append(failed, o.stop(ctx))
	}
	return errors.Join(failed...)
}
