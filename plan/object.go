package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// Mark is the annotation of an object that belongs to an owner and has no owner reference
// to it. That is an object that is retained, is cluster-scoped, or is in another
// namespace than the owner. Its value names the owner's kind, key and uid.
const Mark = "plan.pintle.dev/owner"

// Marked reconciles the owners of objects that have a [Mark]. It is for the kinds of such
// objects, as [controller.Owned] is for those of objects with owner references.
func Marked[O, T any](owners kube.Handle[O], objects kube.Handle[T], predicates ...controller.Predicate) controller.Source {
	kind := owners.Kind().GroupKind().String()
	return controller.Mapped(objects, func(_ context.Context, o *T) []kube.Key {
		m, ok := markOf(any(o).(metav1.Object))
		if !ok || m.kind != kind {
			return nil
		}
		return []kube.Key{m.key}
	}, predicates...)
}

// mark is a parsed [Mark].
type mark struct {
	kind string // such as Shop.example.com
	key  kube.Key
	uid  types.UID
}

func (m mark) String() string {
	return strings.Join([]string{m.kind, m.key.Namespace, m.key.Name, string(m.uid)}, "/")
}

func markOf(o metav1.Object) (m mark, ok bool) {
	parts := strings.Split(o.GetAnnotations()[Mark], "/")
	if len(parts) != 4 {
		return mark{}, false
	}
	return mark{parts[0], kube.Key{Namespace: parts[1], Name: parts[2]}, types.UID(parts[3])}, true
}

func (p *Plan) mark() mark {
	return mark{p.kind.GroupKind().String(), kube.KeyOf(p.owner), p.owner.GetUID()}
}

// owns reports that an object belongs to the plan's owner.
func (p *Plan) owns(o metav1.Object) bool {
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		return c.UID == p.owner.GetUID()
	}
	m, ok := markOf(o)
	return ok && m.uid == p.owner.GetUID()
}

// claim is how an object belongs to its owner.
type claim struct {
	plan *Plan
	key  kube.Key
	// marked says that the object has no owner reference.
	marked bool
	// uid is that of the object, empty if it is not known yet.
	uid types.UID
}

// own makes the owner the controller of a child, or marks the child if that cannot be.
func (n *node) own(ctx context.Context, o metav1.Object) (claim, error) {
	p := n.plan
	scope, err := n.typed.scope(ctx)
	if err != nil {
		return claim{}, err
	}
	if scope == kube.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(p.owner.GetNamespace())
	}
	c := claim{plan: p, key: kube.KeyOf(o)}
	ns := p.owner.GetNamespace()
	c.marked = n.retain || ns != "" && ns != o.GetNamespace()
	if o.GetName() == "" {
		return c, errors.New("the object has no name")
	}
	if c.marked {
		if !n.retain && len(p.owner.GetFinalizers()) == 0 {
			return c, fmt.Errorf("%s %s has no owner reference, so nothing would delete it after its owner: "+
				"give the controller a Cleanup that calls Delete", n.kind.Kind, c.key)
		}
		all := make(map[string]string, len(o.GetAnnotations())+1)
		for k, v := range o.GetAnnotations() {
			all[k] = v
		}
		all[Mark] = p.mark().String()
		o.SetAnnotations(all)
		return c, nil
	}
	if is := metav1.GetControllerOfNoCopy(o); is != nil {
		return c, fmt.Errorf("the built object has a controller already: %s %s", is.Kind, is.Name)
	}
	yes := true
	o.SetOwnerReferences(append(slices.Clone(o.GetOwnerReferences()), metav1.OwnerReference{
		APIVersion: p.kind.GroupVersion().String(), Kind: p.kind.Kind, Name: p.owner.GetName(), UID: p.owner.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}))
	return c, nil
}

func (n *Node[T]) scope(ctx context.Context) (kube.Scope, error) {
	if s := n.handle.Kind().Scope; s != "" {
		return s, nil
	}
	return n.handle.Scope(ctx)
}

func (n *Node[T]) build(in Inputs) (metav1.Object, error) {
	if n.ensure == nil {
		return nil, nil
	}
	o, err := n.make(in)
	if err != nil || *in.err != nil {
		return nil, errors.Join(*in.err, err)
	}
	if o == nil {
		return nil, errors.New("its function has built no object: use When for a node that may be absent")
	}
	n.wanted = o
	return any(o).(metav1.Object), nil
}

func (n *Node[T]) fetch(ctx context.Context, c claim) (metav1.Object, error) {
	var is *T
	err := n.mayTake(ctx, c)
	switch {
	case n.ensure == nil:
		is, _, err = n.read(ctx, n.key)
	case err == nil:
		is, err = n.ensure(ctx, n.wanted)
	}
	if err != nil {
		return nil, err
	}
	return any(is).(metav1.Object), nil
}

// read reads an object from a store, or from the server if no store runs.
func (n *Node[T]) read(ctx context.Context, key kube.Key) (is *T, cached bool, err error) {
	handle := n.handle.ReadOnly()
	is, err = handle.Cached().Get(ctx, key)
	if !errors.Is(err, kube.ErrNotCached) {
		return is, true, err
	}
	if key.Namespace != "" {
		handle = handle.In(key.Namespace)
	}
	is, err = handle.Get(ctx, key.Name)
	return is, false, err
}

// mayTake returns an error if the object of the claim's name belongs to somebody else.
// Ensure looks at this itself if a store runs and the child has an owner reference. An
// object whose uid is recorded was looked at before.
func (n *Node[T]) mayTake(ctx context.Context, c claim) error {
	if n.ensure == nil || c.uid != "" && !c.marked {
		return nil
	}
	o, cached, err := n.read(ctx, c.key)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case cached && !c.marked:
		return nil
	}
	return c.plan.mayTake(any(o).(metav1.Object), any(n.wanted).(metav1.Object).GetLabels(), n.kind.Kind)
}

// mayTake returns an error if an object belongs to somebody else. An object that belongs
// to nobody may be taken if it has all labels of the child.
func (p *Plan) mayTake(is metav1.Object, want map[string]string, kind string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("apply %s %s: %w%s", kind, kube.KeyOf(is), kube.ErrTaken, fmt.Sprintf(format, args...))
	}
	owner := metav1.GetControllerOfNoCopy(is)
	m, marked := markOf(is)
	switch {
	case p.owns(is):
		return nil
	case owner != nil:
		return fail(": %s %s owns it", owner.Kind, owner.Name)
	case marked:
		return fail(": %s %s owns it", m.kind, m.key)
	case len(want) > 0 && labels.SelectorFromSet(want).Matches(labels.Set(is.GetLabels())):
		return nil
	}
	return fail(", and it has no controller: delete it, or add the labels %q to it so that it is taken over", labels.Set(want))
}

func (n *Node[T]) keep(o metav1.Object) ready.State {
	n.live = any(o).(*T)
	return n.readyWhen(n.live)
}
