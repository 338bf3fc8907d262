package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/kube"
)

// If an owner is deleted with the option to orphan its children, the garbage collector takes the
// owner references from the children, and then the finalizer of the option from the owner. The
// plan may see the owner before or after that. It sees the option by the finalizer, or by a child that
// has lost its reference. Marked objects have none to lose, so a plan with Marks has a witness: an empty
// Secret with an owner reference.

// witnessType tells witnesses from other Secrets.
const witnessType corev1.SecretType = "plan.pintle.dev/witness"

// testimony is what an object says about the deletion of its owner.
type testimony int

const (
	silent   testimony = iota
	orphaned           // the owner leaves its children
	held               // the owner does not
)

// testify decides by an object of the owner. One that was made since the owner is deleted, by a run that had begun
// before, and has a reference says nothing: the garbage collector may have been there before it. Times have a
// resolution of a second, so the object may as well be older. Without a reference it has lost it all the same.
func (p *Plan) testify(child metav1.Object) testimony {
	deleted, created := p.owner.GetDeletionTimestamp(), child.GetCreationTimestamp()
	switch {
	case slices.ContainsFunc(child.GetOwnerReferences(), p.isOwner):
		if deleted != nil && !created.Before(deleted) {
			return silent
		}
		return held
	case child.GetAnnotations()[Mark] != "", child.GetDeletionTimestamp() != nil, metav1.GetControllerOfNoCopy(child) != nil:
		return silent
	}
	return orphaned
}

// Orphans reports whether the owner is deleted with the option to orphan its children. Then
// [Plan.Delete] leaves all objects and things as they are. A Cleanup that changes children before
// Delete asks it. The garbage collector may end the option before it is seen. Then the children tell,
// so a plan that has no object with an owner reference needs Marks.
func (p *Plan) Orphans(ctx context.Context) (bool, error) {
	if slices.Contains(p.owner.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		return true, nil
	}
	all, said := append([]NodeStatus{p.witness()}, p.status.Nodes...), silent // it spares the others the question
	for _, s := range all {
		if s.Undo == undoOrphan {
			return true, nil // an earlier call has seen it
		}
	}
	for _, s := range all {
		retains := s.Undo == undoRetain || slices.ContainsFunc(p.nodes, func(n *node) bool { return n.retain && n.name == s.Name })
		if s.Thing != nil || s.UID == "" || retains {
			continue // it never had a reference, or need not have one any more
		}
		is, err := p.anyOf(s).Get(ctx, s.ObjectName)
		switch {
		case apierrors.IsNotFound(err), errors.Is(err, kube.ErrNotServed),
			errors.Is(err, kube.ErrKind), errors.Is(err, kube.ErrScope):
			continue
		case err != nil:
			return false, err
		case is.UID != s.UID:
			continue
		}
		if said = max(said, p.testify(is)); said == held {
			break
		}
	}
	return said == orphaned, nil
}

// stays returns an error if the owner is being deleted, which its store need not show yet. An object that has lost its
// reference gets none then: it may have been orphaned, and would say the contrary.
func (p *Plan) stays(ctx context.Context) error {
	for o, err := range p.view(p.kind, p.owner.GetNamespace()).Fielded("metadata.name=" + p.owner.GetName()).List(ctx) {
		switch {
		case err != nil:
			return fmt.Errorf("see whether the owner is being deleted: %w", err)
		case o.UID == p.owner.GetUID() && o.DeletionTimestamp == nil:
			return nil
		}
	}
	return errors.New("the owner is being deleted, and the object has lost its reference to it")
}

// witness identifies the Secret. Without a UID there is none.
func (p *Plan) witness() NodeStatus {
	return NodeStatus{
		APIVersion: "v1", Kind: "Secret", Namespace: cmp.Or(p.owner.GetNamespace(), p.client.Namespace()),
		ObjectName: secretName("plan", p.kind.GroupKind().String(), p.owner.GetName()), UID: p.status.Witness,
	}
}

// callWitness makes the witness of a plan with Marks.
func (p *Plan) callWitness(ctx context.Context) error {
	if !p.Marks || p.status.Witness != "" || !finalizers.CleansUp(ctx, p.owner) {
		return nil
	}
	at := p.witness()
	secrets := kube.For[corev1.Secret](p.client).In(at.Namespace)
	o := new(corev1.Secret)
	o.Name, o.Type = at.ObjectName, witnessType
	o.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: p.kind.GroupVersion().String(), Kind: p.kind.Kind, Name: p.owner.GetName(), UID: p.owner.GetUID(),
	}}
	is, err := secrets.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		is, err = secrets.Get(ctx, at.ObjectName)
		switch {
		case err != nil || slices.ContainsFunc(is.OwnerReferences, p.isOwner):
		case is.Type != witnessType:
			err = kube.ErrTaken
		default: // it is a former owner's, because there is one of a name at a time
			if err = secrets.Delete(ctx, is.Name, metav1.DeleteOptions{Preconditions: asSeen(is)}); err == nil {
				is, err = secrets.Create(ctx, o)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("create Secret %s, which tells whether the owner orphans its children: %w", at.ObjectName, err)
	}
	p.status.Witness = is.UID
	return nil
}

// dismiss deletes the witness. The garbage collector may do that later than another owner of the name is made, and
// does not do it if the owner orphans its children.
func (p *Plan) dismiss(ctx context.Context) error {
	at := p.witness()
	if at.UID == "" {
		return nil
	}
	err := p.anyOf(at).Delete(ctx, at.ObjectName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &at.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Secret %s: %w", at.ObjectName, err)
	}
	return nil
}
