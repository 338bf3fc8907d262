package plan_test

import (
	"context"
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
