package plan_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// A controller with a finalizer cleans up in its own order. A deletion in the foreground has the garbage
// collector delete the dependents before.
func TestChildWithCleanup(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	describe := func(p *plan.Plan) {
		plan.Object(p, "shop", s.op.shops, func(plan.Inputs) (*Shop, error) {
			o := new(Shop)
			o.Name = "branch-office"
			return o, nil
		}).UntilGone().ReadyWhen(func(*Shop) ready.State { return ready.State{Phase: ready.Ready} })
	}
	s.ok(s.converge(describe))
	_, err := s.op.shops.Modify(s.soon(), "branch-office", func(o *Shop) error { o.Finalizers = []string{keeper}; return nil })
	s.ok(err)
	remove := func() controller.Action {
		t.Helper()
		shop, err := s.op.shops.Get(s.soon(), "stubborn")
		s.ok(err)
		p := plan.New(s.op.shops, shop, &shop.Status.Status)
		describe(p)
		action, err := p.Delete(s.soon())
		s.ok(err)
		return action
	}
	if action := remove(); action == controller.Done {
		t.Error("the plan does not wait for the controller of its child")
	}
	o, err := s.op.shops.Get(s.soon(), "branch-office")
	s.ok(err)
	if o.DeletionTimestamp == nil || slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Errorf("the child is deleted since %v with the finalizers %q", o.DeletionTimestamp, o.Finalizers)
	}
	_, err = s.op.shops.Modify(s.soon(), "branch-office", func(o *Shop) error { o.Finalizers = nil; return nil })
	s.ok(err)
	kubetest.Eventually(t, "the plan is deleted", func() error {
		if action := remove(); action != controller.Done {
			return fmt.Errorf("the action is %v", action)
		}
		return nil
	})
	s.finalizers()
	s.ok(s.op.shops.Delete(s.soon(), "stubborn"))
}
