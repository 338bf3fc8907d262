package local

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Undo holds steps that are undone in reverse order.
type Undo struct{ steps []undoStep }

type undoStep struct {
	what string
	do   func(context.Context) error
}

// Add adds a step.
func (u *Undo) Add(what string, do func(context.Context) error) {
	u.steps = append(u.steps, undoStep{what, do})
}

// Run does all steps.
func (u *Undo) Run() error {
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
