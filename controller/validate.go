package controller

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/internal/workmetrics"
	"github.com/pintle-go/pintle/metrics"
)

// Validate returns the mistakes for which [Run] would refuse options and controllers at once,
// or nil. It makes no request and listens nowhere, so it does not see what is wrong outside
// the program, such as an address that is taken. Package manifest calls it, so that no
// manifests are made of an operator that would not run.
func Validate(o Options, controllers ...Any) error {
	p := &program{Options: o.withDefaults(), work: workmetrics.New(metrics.New())}
	defer p.work.Close()
	return p.prepare(controllers)
}

// isNil reports whether a value is nil, or is a nil pointer or function.
func isNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func:
		return r.IsNil()
	}
	return false
}

// withDefaults checks a controller and sets the defaults.
func (c Controller[T]) withDefaults() (Controller[T], error) {
	wrong := c.checkHandles()
	if wrong == nil {
		c = c.completed()
		wrong = c.validate()
	}
	if wrong != nil {
		return c, fmt.Errorf("configure controller %q: %w", c.named(), wrong)
	}
	return c, nil
}

// named returns the name of a controller, or the default one. It is empty if there is
// neither.
func (c Controller[T]) named() string {
	if c.Name != "" || isNil(c.For) {
		return c.Name
	}
	return strings.ToLower(c.For.Kind().Kind)
}

// checkHandles returns the mistakes in making the handles.
func (c Controller[T]) checkHandles() error {
	if isNil(c.For) {
		return errors.New("the handle For is missing")
	}
	wrong := []error{c.For.Err()}
	for _, s := range c.sources() {
		wrong = append(wrong, s.validate(c.For))
	}
	for i, h := range c.Reads {
		if isNil(h) {
			wrong = append(wrong, fmt.Errorf("handle %d of Reads is nil", i))
		} else {
			wrong = append(wrong, h.Err())
		}
	}
	return errors.Join(wrong...)
}

// sources returns the sources of Owns and Watches.
func (c Controller[T]) sources() (all []Source) {
	for _, owned := range c.Owns {
		all = append(all, Owned(owned))
	}
	return append(all, c.Watches...)
}

// completed returns a controller with the defaults of empty fields. Its handles are well
// made.
func (c Controller[T]) completed() Controller[T] {
	c.Name = c.named()
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Backoff = c.Backoff.withDefaults()
	if group := c.For.Kind().Group; c.Finalizer == "" && group != "" {
		c.Finalizer = group + "/" + c.Name
	}
	return c
}

// validate returns the mistake in a controller that is completed.
func (c Controller[T]) validate() error {
	switch _, writes := writer(c.For); {
	case !nameFormat.MatchString(c.Name):
		return errors.New("the name must consist of lower-case letters, digits and dashes")
	case c.Reconcile == nil:
		return errors.New("Reconcile is missing") //nolint:staticcheck // a field's name
	case c.Concurrency < 0 || c.Timeout < 0 || c.Resync < 0 || c.MinInterval < 0:
		return errors.New("a number is negative")
	case c.Concurrency > maxConcurrency:
		return fmt.Errorf("Concurrency is more than %d", maxConcurrency) //nolint:staticcheck // a field's name
	case c.Resync > maxResync:
		return fmt.Errorf("Resync is more than %s", maxResync) //nolint:staticcheck // a field's name
	case c.Cleanup != nil && !writes:
		return errors.New("a controller with Cleanup needs write access: For must be a Resource or a View")
	case len(c.FormerFinalizers) > 0 && !writes:
		return errors.New("a controller with FormerFinalizers needs write access: For must be a Resource or a View")
	case c.Cleanup != nil && c.Finalizer == "":
		return fmt.Errorf("the finalizer needs a name, because %s is of the core group", c.For.Kind().Kind)
	case slices.Contains(c.FormerFinalizers, c.Finalizer) && c.Cleanup != nil:
		return fmt.Errorf("the finalizer %q is also a former one", c.Finalizer)
	}
	return c.checkFinalizers()
}
