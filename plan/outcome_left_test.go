package plan_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/plan"
)

func (s *stubborn) outcomeFinalizers(want int) {
	s.Helper()
	o, err := s.op.secrets.Get(s.soon(), plan.OutcomeName("Account", "rent"))
	s.ok(err)
	if len(o.Finalizers) != want {
		s.Errorf("the Secret has the finalizers %q", o.Finalizers)
	}
}

// The Secret of a former thing goes with the plan, also if the creation of the next thing of the
// name was refused: nobody else would take its finalizer away.
func TestOutcomeBeforeARefusedCreation(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	describe := func(p *plan.Plan) {
		plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
	}
	s.ok(s.converge(describe))
	s.outcomeFinalizers(1)
	_, err := far.ask(s.soon(), "DELETE", "rent", nil) // somebody closes the account
	s.ok(err)
	things = far.things(s.op) // another process
	refused := false
	things.Create = func(context.Context, plan.Ref, *account) (*account, error) {
		refused = true
		return nil, fmt.Errorf("%w: no more accounts", plan.ErrRefused)
	}
	if err := s.converge(describe); err == nil || !refused {
		t.Errorf("the run says %v", err)
	}
	s.end(describe)
	if o, err := s.op.secrets.Get(s.soon(), plan.OutcomeName("Account", "rent")); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is left with the finalizers %q: %v", o.Finalizers, err)
	}
}

// An outcome is free of its finalizer once nobody would take it away: the owner has no Cleanup
// any more.
func TestOutcomeAfterTheCleanup(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	describe := func(p *plan.Plan) {
		plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil }).Retain()
	}
	s.ok(s.converge(describe))
	s.outcomeFinalizers(1)
	s.finalizers()
	things = far.things(s.op) // the next release
	s.ok(s.converge(describe))
	s.outcomeFinalizers(0)
}

// The outcome of a retained thing is left to others with it, also if the program has no Things of
// the kind any more.
func TestOutcomeOfAForgottenKind(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	s.ok(s.converge(func(p *plan.Plan) {
		plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil }).Retain()
	}))
	s.outcomeFinalizers(1)
	s.end(func(*plan.Plan) {})
	o, err := s.op.secrets.Get(s.soon(), plan.OutcomeName("Account", "rent"))
	s.ok(err)
	if mark := metav1.HasAnnotation(o.ObjectMeta, plan.Mark); len(o.Finalizers) > 0 || mark {
		t.Errorf("the Secret has the finalizers %q; marked: %t", o.Finalizers, mark)
	}
}

// The Secret of an outcome goes with its thing, also if a later release keeps the outcome nowhere.
func TestOutcomeThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	describe := func(p *plan.Plan) {
		plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
	}
	s.ok(s.converge(describe))
	s.outcomeFinalizers(1)
	things = far.things(s.op) // the next release
	things.Keep, things.Outcome = nil, nil
	s.end(describe)
	if o, err := s.op.secrets.Get(s.soon(), plan.OutcomeName("Account", "rent")); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is left with the finalizers %q: %v", o.Finalizers, err)
	}
}

// The outcome that a former owner has left does not stand in the way of the next owner's, whose thing is
// another one: also if somebody deletes the Secret, or if the first creation was not answered.
func TestOutcomeOfAFormerOwner(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			s := newStubborn(t, true)
			s.finalizers(keeper)
			far := newBank(t)
			things := far.things(s.op)
			describe := func(p *plan.Plan) {
				plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
			}
			s.ok(s.converge(describe))
			s.outcomeFinalizers(1)
			s.finalizers() // by hand, so that nobody cleans up
			s.ok(s.op.shops.Delete(s.soon(), "stubborn"))
			s.ok(s.op.shops.UntilGone(s.soon(), "stubborn"))
			_, err := far.ask(s.soon(), "DELETE", "rent", nil)
			s.ok(err)
			name := plan.OutcomeName("Account", "rent")
			was, err := s.op.secrets.Get(s.soon(), name)
			s.ok(err)
			if deleted {
				s.ok(s.op.secrets.Delete(s.soon(), name))
			}
			s.create("stubborn")
			s.finalizers(keeper)
			things = far.things(s.op)
			things.Idempotent = true
			create, fails := things.Create, true
			things.Create = func(ctx context.Context, r plan.Ref, want *account) (*account, error) {
				if fails {
					fails = false
					return nil, errors.New("no answer")
				}
				return create(ctx, r, want)
			}
			s.ok(s.converge(describe))
			is, err := s.op.secrets.Get(s.soon(), name)
			s.ok(err)
			if string(is.Data["secret"]) == string(was.Data["secret"]) || is.DeletionTimestamp != nil || len(is.Finalizers) != 1 {
				t.Errorf("the secret is %q, was %q; deleted %v, finalizers %q",
					is.Data["secret"], was.Data["secret"], is.DeletionTimestamp, is.Finalizers)
			}
			s.end(describe)
			if o, err := s.op.secrets.Get(s.soon(), name); !apierrors.IsNotFound(err) {
				t.Errorf("the Secret is left with the finalizers %q: %v", o.Finalizers, err)
			}
		})
	}
}
