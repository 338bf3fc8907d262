package plan_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/plan"
)

// If the Secret of an outcome is deleted before its owner, as with their namespace, it stays
// until the thing is deleted: the deletion gets the outcome.
func TestOutcomeStaysUntilItsThingIsGone(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	var with []string
	remove := things.Delete
	things.Delete = func(ctx context.Context, r plan.Ref) error {
		with = append(with, r.Outcome["secret"])
		return remove(ctx, r)
	}
	describe := func(p *plan.Plan) {
		plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
	}
	s.ok(s.converge(describe))
	name := plan.OutcomeName("Account", "rent")
	s.ok(s.op.secrets.Delete(s.soon(), name))
	s.end(describe)
	if len(with) == 0 || with[0] != "secret-1" {
		t.Errorf("the account was closed with the secrets %q", with)
	}
	if _, err := s.op.secrets.Get(s.soon(), name); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is left: %v", err)
	}
}
