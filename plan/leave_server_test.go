package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// The object of a node that has left is deleted, although the version in which it was recorded is not
// served any more. An object of a group that is not served is gone.
func TestChildOfAFormerVersion(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	about := metav1.ObjectMeta{Name: "former", Labels: map[string]string{"app": "former"}}
	s.ok(s.converge(func(p *plan.Plan) {
		plan.Object(p, "former", s.op.deployments, func(plan.Inputs) (*appsv1.Deployment, error) {
			return &appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: about.Labels},
				Template: pod(about, "any:1", corev1.RestartPolicyAlways, ""),
			}}, nil
		})
	}))
	s.ok(s.op.shops.Status().Modify(s.soon(), "stubborn", func(o *Shop) error {
		other := o.Status.Nodes[0]
		o.Status.Nodes[0].APIVersion = "apps/v1beta2"
		other.Name, other.APIVersion, other.Kind = "other", "gadgets.example.com/v1", "Gizmo"
		o.Status.Nodes = append(o.Status.Nodes, other)
		return nil
	}))
	s.ok(s.converge(func(*plan.Plan) {}))
	if _, err := s.op.deployments.Get(s.soon(), "former"); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is left: %v", err)
	}
	s.finalizers()
	s.ok(s.op.shops.Delete(s.soon(), "stubborn"))
}

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

// kubectl delete --cascade=orphan keeps all that a plan with Marks has made, although the garbage collector has
// ended the option before the operator sees the owner. Without the option all goes, and the witness too.
func TestOrphanedMarks(t *testing.T) {
	for _, how := range []metav1.DeletionPropagation{
		metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
	} {
		t.Run(string(how), func(t *testing.T) {
			s := newStubborn(t, true)
			s.finalizers(keeper)
			far := newBank(t)
			things := far.things(s.op)
			describe := func(p *plan.Plan) {
				p.Marks = true
				plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
				plan.Object(p, "child", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
					return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "child"}}, nil
				})
			}
			s.ok(s.converge(describe))
			witnesses := func() (names []string) {
				for o, err := range s.op.secrets.List(s.soon()) {
					s.ok(err)
					if strings.HasPrefix(o.Name, "plan-") {
						names = append(names, o.Name)
					}
				}
				return names
			}
			kubetest.Eventually(t, "the collector knows the witness", func() error {
				if len(witnesses()) != 1 {
					return fmt.Errorf("there are the witnesses %q", witnesses())
				}
				return nil
			})
			s.ok(s.op.shops.Delete(s.soon(), "stubborn", metav1.DeleteOptions{PropagationPolicy: &how}))
			kubetest.Eventually(t, "the collector has done its work", func() error {
				o, err := s.op.shops.Get(s.soon(), "stubborn")
				s.ok(err)
				if how == metav1.DeletePropagationBackground || len(o.Finalizers) == 1 && o.Finalizers[0] == keeper {
					return nil
				}
				return fmt.Errorf("the owner has the finalizers %q", o.Finalizers)
			})
			kubetest.Eventually(t, "the plan is deleted", func() error {
				shop, err := s.op.shops.Get(s.soon(), "stubborn")
				s.ok(err)
				p := plan.New(s.op.shops, shop, &shop.Status.Status)
				describe(p)
				action, err := p.Delete(s.soon())
				if err == nil && action != controller.Done {
					err = fmt.Errorf("%+v", shop.Status)
				}
				return err
			})
			s.finalizers()
			s.ok(s.op.shops.UntilGone(s.soon(), "stubborn"))
			kubetest.Eventually(t, "the witness is gone", func() error {
				if len(witnesses()) > 0 {
					return fmt.Errorf("there are the witnesses %q", witnesses())
				}
				return nil
			})
			_, accounts := far.count()
			_, err := s.op.secrets.Get(s.soon(), "child")
			if want := how == metav1.DeletePropagationOrphan; (err == nil) != want || (accounts == 1) != want {
				t.Errorf("there are %d accounts; the child: %v", accounts, err)
			}
		})
	}
}
