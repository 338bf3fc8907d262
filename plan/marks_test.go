package plan_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// A release with Marks takes the owner references from objects, and one without Marks gives them back.
// So it is for objects without labels as well.
func TestMarksOfAnotherRelease(t *testing.T) {
	for name, stored := range map[string]bool{"": false, "with a store": true} {
		t.Run(name, func(t *testing.T) {
			s := newStubborn(t, true)
			s.finalizers(keeper)
			if stored {
				s.filled(s.op.secrets.Open(t.Context()))
			}
			run := func(marks bool) {
				t.Helper()
				s.ok(s.converge(func(p *plan.Plan) {
					p.Marks = marks
					plan.Object(p, "child", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
						o := new(corev1.Secret)
						o.Name = "child"
						return o, nil
					})
				}))
				o, err := s.op.secrets.Get(s.soon(), "child")
				s.ok(err)
				if (o.Annotations[plan.Mark] != "") != marks || (len(o.OwnerReferences) == 0) != marks {
					t.Errorf("with Marks %v: marked %q, the owners are %+v", marks, o.Annotations[plan.Mark], o.OwnerReferences)
				}
			}
			run(false)
			run(true)
			run(true)
			run(false)
			run(false)
		})
	}
}

// Somebody makes a child again from a copy of an earlier release, which has an owner reference. The
// reference is not the plan's to keep: the garbage collector would follow it.
func TestMarksOfCopy(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	s.filled(s.op.secrets.Open(t.Context()))
	marks := false
	describe := func(p *plan.Plan) {
		p.Marks = marks
		plan.Object(p, "child", s.op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			o := new(corev1.Secret)
			o.Name, o.Labels = "child", map[string]string{"app": "stubborn"}
			return o, nil
		})
	}
	s.ok(s.converge(describe))
	was, err := s.op.secrets.Get(s.soon(), "child")
	s.ok(err)
	s.ok(s.op.secrets.Delete(s.soon(), "child"))
	marks = true
	other, err := kube.For[corev1.ConfigMap](s.op.shops.Client()).In(s.namespace).Create(s.soon(), named("other", "any"))
	s.ok(err)
	again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "child", Labels: was.Labels, OwnerReferences: append(was.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID,
		}),
	}}
	theirs := s.op.secrets.With(kube.WriteOptions{FieldManager: "somebody"})
	_, err = theirs.Create(s.soon(), again)
	s.ok(err)
	s.ok(s.converge(describe))
	o, err := s.op.secrets.Get(s.soon(), "child")
	s.ok(err)
	if len(o.OwnerReferences) != 1 || o.OwnerReferences[0].Name != "other" || o.Annotations[plan.Mark] == "" {
		t.Errorf("the owners are %+v, and the mark is %q", o.OwnerReferences, o.Annotations[plan.Mark])
	}
}

// A store that is narrowed by labels does not show the object of somebody else, which was there first or
// has taken the place of a child.
func TestMarksOfHiddenObject(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	secrets := s.op.secrets.Labeled("app=stubborn")
	s.filled(secrets.Open(t.Context()))
	describe := func(p *plan.Plan) {
		p.Marks = true
		plan.Object(p, "child", secrets, func(plan.Inputs) (*corev1.Secret, error) {
			o := &corev1.Secret{Data: map[string][]byte{"whose": []byte("ours")}}
			o.Name, o.Labels = "child", map[string]string{"app": "stubborn"}
			return o, nil
		})
	}
	for _, made := range []bool{false, true} {
		if made {
			s.ok(s.op.secrets.Delete(s.soon(), "child"))
			s.ok(s.converge(describe))
			s.ok(s.op.secrets.Delete(s.soon(), "child"))
		}
		_, err := s.op.secrets.Create(s.soon(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "child"}, StringData: map[string]string{"whose": "theirs"},
		})
		s.ok(err)
		if err := s.converge(describe); !errors.Is(err, kube.ErrTaken) {
			t.Errorf("made before: %v: got %v, want ErrTaken", made, err)
		}
		o, err := s.op.secrets.Get(s.soon(), "child")
		s.ok(err)
		if string(o.Data["whose"]) != "theirs" || o.Annotations[plan.Mark] != "" {
			t.Errorf("somebody else's object was taken: %q, marked %q", o.Data["whose"], o.Annotations[plan.Mark])
		}
	}
}

// The server lets somebody else become the controller of a marked object. The plan says so, in the process
// that has found the object settled and in the next one.
func TestMarksOfAdoptedObject(t *testing.T) {
	s := newStubborn(t, true)
	s.finalizers(keeper)
	other, err := kube.For[corev1.ConfigMap](s.op.shops.Client()).In(s.namespace).Create(s.soon(), named("other", "any"))
	s.ok(err)
	children := func(secrets kube.Resource[corev1.Secret]) func(p *plan.Plan) {
		return func(p *plan.Plan) {
			p.Marks = true
			plan.Object(p, "child", secrets, func(plan.Inputs) (*corev1.Secret, error) {
				o := new(corev1.Secret)
				o.Name, o.Labels = "child", map[string]string{"app": "stubborn"}
				return o, nil
			})
		}
	}
	s.filled(s.op.secrets.Open(t.Context()))
	for range 3 {
		s.ok(s.converge(children(s.op.secrets)))
	}
	_, err = s.op.secrets.Modify(s.soon(), "child", func(o *corev1.Secret) error {
		yes := true
		o.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID, Controller: &yes,
		}}
		return nil
	})
	s.ok(err)
	next := s.operator(nil)
	s.filled(next.secrets.Open(t.Context()))
	for _, secrets := range []kube.Resource[corev1.Secret]{s.op.secrets, next.secrets} {
		if err := s.converge(children(secrets)); !errors.Is(err, kube.ErrTaken) {
			t.Errorf("got %v, want ErrTaken", err)
		}
	}
}

// Whatever somebody does to a marked child runs the owner's plan: a settled one does not run by itself.
func TestMarkedChildIsWatched(t *testing.T) {
	b := newBench(t)
	op := b.operator(nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	children := func(s *Shop) *plan.Plan {
		p := plan.New(op.shops, s, &s.Status.Status)
		p.Marks = true
		plan.Object(p, "child", op.secrets, func(plan.Inputs) (*corev1.Secret, error) {
			o := &corev1.Secret{Data: map[string][]byte{"whose": []byte("ours")}}
			o.Name, o.Labels = "child", map[string]string{"shop": s.Name}
			return o, nil
		})
		return p
	}
	go func() {
		ended <- controller.Run(ctx, controller.Options{}, controller.Controller[Shop]{
			For:       op.shops,
			Watches:   []controller.Source{plan.Marked(op.shops, op.secrets)},
			Reconcile: func(ctx context.Context, s *Shop) (controller.Action, error) { return children(s).Run(ctx) },
			Cleanup:   func(ctx context.Context, s *Shop) (controller.Action, error) { return children(s).Delete(ctx) },
		})
	}()
	defer func() {
		cancel()
		b.ok(<-ended)
	}()
	b.create("watched")
	b.untilReady("watched")
	mend := func(what string) {
		t.Helper()
		_, err := b.op.secrets.Until(b.soon(), "child", func(o *corev1.Secret) bool {
			return o.Annotations[plan.Mark] != "" && string(o.Data["whose"]) == "ours"
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	unmark := func() {
		t.Helper()
		_, err := b.op.secrets.Patch(b.soon(), "child", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+plan.Mark+`":null}},"data":{"whose":"dGhlaXJz"}}`))
		b.ok(err)
	}
	mend("created")
	unmark()
	mend("the mark was removed")
	b.ok(b.op.secrets.Delete(b.soon(), "child"))
	mend("it was deleted")
	unmark()
	b.ok(b.op.secrets.Delete(b.soon(), "child"))
	mend("it was deleted without its mark")
	b.ok(b.op.secrets.Delete(b.soon(), "child"))
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "child", Labels: map[string]string{"shop": "watched"}}}
	if _, err := b.op.secrets.Create(b.soon(), theirs); err == nil {
		mend("it was replaced")
	}
	b.ok(b.op.shops.Delete(b.soon(), "watched"))
	b.ok(b.op.shops.UntilGone(b.soon(), "watched"))
	b.ok(b.op.secrets.UntilGone(b.soon(), "child"))
}
