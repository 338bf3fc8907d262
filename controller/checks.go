package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Check is a question about the program that /healthz and /readyz answer besides
// their own. It is like controller-runtime's healthz.Checker.
type Check struct {
	// Name names it in the answer. It must be its own in the program.
	Name string
	// Healthy, if it is set, returns why the process should be started again: the
	// answer of /healthz is 503 then.
	Healthy func(ctx context.Context) error
	// Ready, if it is set, returns why the program is not ready: the answer of
	// /readyz is 503 then.
	Ready func(ctx context.Context) error
}

// checkTime is how long a check may take.
const checkTime = 5 * time.Second

// validate returns what is wrong with a check.
func (c Check) validate() error {
	switch {
	case c.Name == "":
		return errors.New("configure check: the name is missing")
	case c.Healthy == nil && c.Ready == nil:
		return fmt.Errorf("configure check %q: Healthy and Ready are missing", c.Name)
	}
	return nil
}

// ask returns what a function of the check says. One that panics or takes too long
// has failed.
func (c Check) ask(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %s", checkTime))
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- protect(func() error { return f(ctx) }) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// healthz says whether the process should go on.
func (p *program) healthz(w http.ResponseWriter, r *http.Request) {
	var failed []error
	for _, c := range p.Checks {
		if c.Healthy == nil {
			continue
		}
		if err := c.ask(r.Context(), c.Healthy); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	if err := errors.Join(failed...); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
