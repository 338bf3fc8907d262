package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Check is a question about the program. /healthz and /readyz answer it besides their
// own. It is like controller-runtime's healthz.Checker.
type Check struct {
	// Name names the check in the answer. No two checks of the program may have the same
	// name.
	Name string
	// Healthy, if it is set, returns why the process should be started again: then the
	// answer of /healthz is 503.
	Healthy func(ctx context.Context) error
	// Ready, if it is set, returns why the program is not ready: then the answer of
	// /readyz is 503.
	Ready func(ctx context.Context) error
}

// checkTime is how long a check may take.
const checkTime = 5 * time.Second

// validate returns the mistake in a check.
func (c Check) validate() error {
	switch {
	case c.Name == "":
		return errors.New("configure check: the name is missing")
	case c.Healthy == nil && c.Ready == nil:
		return fmt.Errorf("configure check %q: Healthy and Ready are missing", c.Name)
	}
	return nil
}

// checking holds the calls of checks that have not returned, by the name of the check and
// the function. Requests in the meantime share the call's answer, so a check that hangs
// does so once.
type checking struct {
	mu    sync.Mutex
	calls map[[2]string]*checkCall
}

// checkCall is a call of a function of a check. Its result is set when done is closed.
type checkCall struct {
	done chan struct{}
	err  error
}

// ask returns the answer of a function of a check. A function that panics or takes too
// long has failed.
func (c *checking) ask(ctx context.Context, name, what string, f func(context.Context) error) error {
	late := fmt.Errorf("no answer within %s", checkTime)
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, late)
	defer cancel()
	of := [2]string{name, what}
	c.mu.Lock()
	call := c.calls[of]
	if call == nil {
		call = &checkCall{done: make(chan struct{})}
		if c.calls == nil {
			c.calls = make(map[[2]string]*checkCall)
		}
		c.calls[of] = call
		go func() {
			// The first client may go away before the others.
			ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), checkTime, late)
			defer cancel()
			call.err = protect(func() error { return f(ctx) })
			c.mu.Lock()
			delete(c.calls, of)
			c.mu.Unlock()
			close(call.done)
		}()
	}
	c.mu.Unlock()
	select {
	case <-call.done:
		return call.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// healthz answers whether the process should go on.
func (p *program) healthz(w http.ResponseWriter, r *http.Request) {
	var failed []error
	for _, c := range p.Checks {
		if c.Healthy == nil {
			continue
		}
		if err := p.checking.ask(r.Context(), c.Name, "healthy", c.Healthy); err != nil {
			failed = append(failed, fmt.Errorf("%s: %s", c.Name, p.reason(c.Name, err)))
		}
	}
	if err := errors.Join(failed...); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// reason returns the text that /healthz and /readyz show for an error. The error may have
// the text of a server in it. With Authorize the text is withheld from the port's
// clients, because probes show no token: the log has the reason.
func (p *program) reason(name string, err error) string {
	if !p.Authorize {
		return err.Error()
	}
	if p.withheld.fresh(name, err.Error()) {
		p.Logger.Warn("the program is not ready or not healthy", "because", name, "error", err)
	}
	return "failed (the log has the reason)"
}

// withheld holds the reasons that were logged, by the name of the failing check or
// controller.
type withheld struct {
	mu     sync.Mutex
	logged map[string]reasonLogged
}

type reasonLogged struct {
	text string
	at   time.Time
}

// reasonAgain is how often an unchanged reason is logged, and reasonNext how often a
// reason that changes.
const (
	reasonAgain = 5 * time.Minute
	reasonNext  = 10 * time.Second
)

// fresh reports that a reason is to be logged. There are as many names as controllers and
// checks.
func (w *withheld) fresh(name, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, known := w.logged[name]
	since := time.Since(was.at)
	if known && (since < reasonNext || text == was.text && since < reasonAgain) {
		return false
	}
	if w.logged == nil {
		w.logged = make(map[string]reasonLogged)
	}
	w.logged[name] = reasonLogged{text, time.Now()}
	return true
}
