package plan_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

const keeper = "example.com/keeper"

// end deletes the plan, and then the shop.
func (s *stubborn) end(describe func(p *plan.Plan)) {
	s.Helper()
	kubetest.Eventually(s, "the plan is deleted", func() error {
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
	s.ok(s.op.shops.Delete(s.soon(), "stubborn"))
	s.ok(s.op.shops.UntilGone(s.soon(), "stubborn"))
}

func (s *stubborn) finalizers(all ...string) {
	s.Helper()
	_, err := s.op.shops.Modify(s.soon(), "stubborn", func(o *Shop) error { o.Finalizers = all; return nil })
	s.ok(err)
}

// If Retain is added in a later release, the outcome of the thing is retained with it.
func TestRetainAddedLater(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	retain := false
	describe := func(p *plan.Plan) {
		n := plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
		if retain {
			n.Retain()
		}
	}
	s.ok(s.converge(describe))
	retain = true
	s.ok(s.converge(describe))
	name := plan.OutcomeName("Account", "rent")
	secret, err := s.op.secrets.Get(s.soon(), name)
	s.ok(err)
	if len(secret.OwnerReferences) > 0 {
		t.Errorf("the Secret of a retained thing has the owner %s", secret.OwnerReferences[0].Name)
	}
	s.end(describe)
	for range 20 {
		if _, err := s.op.secrets.Get(s.soon(), name); err != nil {
			_, accounts := far.count()
			t.Fatalf("%d account is retained, its secret is gone: %v", accounts, err)
		}
		time.Sleep(500 * time.Millisecond) // nobody may delete it
	}
}

// The Secret of a retained thing is left to others: a later owner takes over both. It does
// so too if nobody has cleaned up after the former owner.
func TestRetainedSecretIsReleased(t *testing.T) {
	for name, cleaned := range map[string]bool{"": true, "without a cleanup": false} {
		t.Run(name, func(t *testing.T) {
			s := newStubborn(t, true)
			s.finalizers(keeper)
			far := newBank(t)
			things := far.things(s.op)
			things.Adopt = func(plan.Ref, *account) bool { return true }
			about := metav1.ObjectMeta{Name: "key", Labels: map[string]string{"app": "stubborn"}}
			describe := func(p *plan.Plan) {
				plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil }).Retain()
				plan.Once(p, "key", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
					return &corev1.Secret{ObjectMeta: about, StringData: map[string]string{"key": rand.Text()}}, nil
				}).Retain()
			}
			s.ok(s.converge(describe))
			key, err := s.op.secrets.Get(s.soon(), "key")
			s.ok(err)
			if cleaned {
				s.end(describe)
			} else {
				s.finalizers()
				s.ok(s.op.shops.Delete(s.soon(), "stubborn"))
				s.ok(s.op.shops.UntilGone(s.soon(), "stubborn"))
			}
			secret, err := s.op.secrets.Get(s.soon(), plan.OutcomeName("Account", "rent"))
			s.ok(err)
			if mark := secret.Annotations[plan.Mark]; (mark == "") != cleaned {
				t.Errorf("the retained Secret is marked %s", mark)
			}
			s.create("stubborn")
			s.finalizers(keeper)
			things = far.things(s.op) // another process
			things.Adopt = func(plan.Ref, *account) bool { return true }
			if err := s.converge(describe); err != nil {
				t.Errorf("the new owner: %v", err)
			}
			if far.opened["rent"] != 1 {
				t.Errorf("the retained account was deleted, and opened again: %d times", far.opened["rent"])
			}
			again, err := s.op.secrets.Get(s.soon(), "key")
			s.ok(err)
			if again.UID != key.UID || !bytes.Equal(again.Data["key"], key.Data["key"]) {
				t.Error("the retained key was made again")
			}
		})
	}
}

// An object that is marked for another owner is not taken over, also if it has no owner
// reference and a store of its kind runs.
func TestMarkOfAnotherOwner(t *testing.T) {
	s := newStubborn(t, true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.ok(s.op.secrets.Open(ctx).Sync(ctx))
	about := metav1.ObjectMeta{Name: "shared", Labels: map[string]string{"app": "stubborn"}}
	theirs := &corev1.Secret{ObjectMeta: about}
	theirs.Annotations = map[string]string{plan.Mark: "Shop.example.com/" + s.namespace + "/other/uid-other"}
	_, err := s.op.secrets.Create(s.soon(), theirs)
	s.ok(err)
	err = s.converge(func(p *plan.Plan) {
		plan.Object(p, "shared", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			return &corev1.Secret{ObjectMeta: about}, nil
		})
	})
	if !errors.Is(err, kube.ErrTaken) {
		t.Errorf("got %v", err)
	}
	is, err := s.op.secrets.Get(s.soon(), "shared")
	s.ok(err)
	if len(is.OwnerReferences) > 0 {
		t.Errorf("the Secret of another owner was taken over: %+v", is.ObjectMeta)
	}
}

// An update that a policy refuses does not make the plan replace the object.
func TestPolicyIsNotEvaded(t *testing.T) {
	s := newStubborn(t, true)
	client := s.op.shops.Client()
	policy := new(admissionv1.ValidatingAdmissionPolicy)
	policy.Name = s.namespace + "-no-shrinking"
	fail := admissionv1.Fail
	policy.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail,
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets"}},
			},
		}}},
		Validations: []admissionv1.Validation{{
			Expression: "object.spec.replicas >= oldObject.spec.replicas", Message: "databases must not shrink",
		}},
	}
	policies := kube.For[admissionv1.ValidatingAdmissionPolicy](client)
	_, err := policies.Create(s.soon(), policy)
	s.ok(err)
	t.Cleanup(func() { _ = policies.Delete(context.WithoutCancel(t.Context()), policy.Name) })
	binding := new(admissionv1.ValidatingAdmissionPolicyBinding)
	binding.Name = policy.Name
	binding.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace},
		}},
	}
	_, err = kube.For[admissionv1.ValidatingAdmissionPolicyBinding](client).Create(s.soon(), binding)
	s.ok(err)
	replicas := int32(2)
	describe := func(p *plan.Plan) {
		plan.Object(p, "set", s.op.statefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) {
			o := s.set("1Gi")
			o.Spec.Replicas = &replicas
			return o, nil
		})
	}
	s.ok(s.converge(describe))
	before, err := s.op.statefulSets.Get(s.soon(), "stubborn")
	s.ok(err)
	kubetest.Eventually(t, "the policy holds", func() error {
		_, err := s.op.statefulSets.With(kube.WriteOptions{DryRun: true}).Modify(s.soon(), "stubborn", func(o *appsv1.StatefulSet) error {
			one := int32(1)
			o.Spec.Replicas = &one
			return nil
		})
		if err != nil && strings.Contains(err.Error(), "must not shrink") {
			t.Logf("the policy says: %v", err)
			return nil
		}
		return fmt.Errorf("the answer is: %s", fmt.Sprint(err))
	})
	replicas = 1
	err = s.converge(describe)
	after, getErr := s.op.statefulSets.Get(s.soon(), "stubborn")
	s.ok(getErr)
	if err == nil || after.UID != before.UID {
		t.Errorf("the run says %v; the StatefulSet %s with %d replicas became %s with %d",
			err, before.UID, *before.Spec.Replicas, after.UID, *after.Spec.Replicas)
	}
}

// A Service is recreated although the dry run collides with the node port that the live
// one holds.
func TestServiceWithANodePort(t *testing.T) {
	s := newStubborn(t, true)
	class := "example.com/one"
	describe := func(p *plan.Plan) {
		plan.Object(p, "service", s.op.services, func(plan.Inputs) (*corev1.Service, error) {
			o := new(corev1.Service)
			o.Name = "front"
			o.Spec.Type, o.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
			o.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 31234, Protocol: corev1.ProtocolTCP}}
			return o, nil
		}).OnImmutable(plan.Recreate).ReadyWhen(anyway[corev1.Service])
	}
	s.ok(s.converge(describe))
	class = "example.com/two"
	if err := s.converge(describe); err != nil {
		t.Errorf("got %v", err)
	}
}

func anyway[T any](*T) ready.State { return ready.State{Phase: ready.Ready} }

// A thing is not created if its outcome could not be kept.
func TestSecretOfSomebodyElse(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	o := new(corev1.Secret)
	o.Name = plan.OutcomeName("Account", "rent")
	_, err := s.op.secrets.Create(s.soon(), o)
	s.ok(err)
	far := newBank(t)
	for range 3 {
		things := far.things(s.op) // of another process
		things.Idempotent = true
		err := s.converge(func(p *plan.Plan) {
			plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) { return &account{Name: "rent"}, nil })
		})
		t.Logf("got %v", err)
	}
	if far.opened["rent"] > 1 {
		t.Errorf("the account was opened %d times", far.opened["rent"])
	}
}

// A deletion of the owner in the foreground takes neither a marked child nor the outcome away before
// the thing. The garbage collector deletes the children with owner references.
func TestForegroundDeletion(t *testing.T) {
	t.Parallel()
	s := newStubborn(t, true)
	s.finalizers(keeper)
	far := newBank(t)
	things := far.things(s.op)
	var got map[string]string
	remove := things.Delete
	things.Delete = func(ctx context.Context, r plan.Ref) error {
		got = r.Outcome
		return remove(ctx, r)
	}
	describe := func(p *plan.Plan) {
		p.Marks = true
		child := plan.Object(p, "child", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			o := new(corev1.Secret)
			o.Name = "child"
			return o, nil
		})
		plan.Step(p, "rent", things, func(plan.Inputs) (*account, error) {
			return &account{Name: "rent"}, nil
		}).Needs(child)
	}
	s.ok(s.converge(describe))
	shop, err := s.op.shops.Get(s.soon(), "stubborn")
	s.ok(err)
	other := new(corev1.Secret)
	other.Name = "other"
	s.ok(kube.SetController(s.op.shops, shop, s.op.secrets, other))
	_, err = s.op.secrets.Create(s.soon(), other)
	s.ok(err)
	how := metav1.DeletePropagationForeground
	s.ok(s.op.shops.Delete(s.soon(), "stubborn", metav1.DeleteOptions{PropagationPolicy: &how}))
	// The operator is restarted meanwhile.
	s.ok(s.op.secrets.UntilGone(s.soon(), other.Name))
	time.Sleep(3 * time.Second) // nobody may delete the others
	for _, name := range []string{"child", plan.OutcomeName("Account", "rent")} {
		if o, err := s.op.secrets.Get(s.soon(), name); err != nil || o.DeletionTimestamp != nil {
			t.Errorf("the garbage collector has deleted %s: %v", name, err)
		}
	}
	shop, err = s.op.shops.Get(s.soon(), "stubborn")
	s.ok(err)
	p := plan.New(s.op.shops, shop, &shop.Status.Status)
	describe(p)
	kubetest.Eventually(t, "the plan is deleted", func() error {
		action, err := p.Delete(s.soon())
		s.ok(err)
		if action != controller.Done {
			return fmt.Errorf("%+v", shop.Status)
		}
		return nil
	})
	s.ok(s.op.secrets.UntilGone(s.soon(), "child"))
	if got["secret"] != "secret-1" {
		t.Errorf("Delete got the outcome %v", got)
	}
	s.finalizers()
}
