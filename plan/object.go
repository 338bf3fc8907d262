package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// Object adds a node whose object is the one that build returns. The object is applied
// with [kube.View.Ensure] when all that the node needs is ready. The owner becomes its
// controller; if that cannot be, the object is marked instead: see [Marked]. An object
// without a namespace gets the owner's, or the handle's if the owner is cluster-scoped.
func Object[T any](p *Plan, name string, objects writable[T], build func(Inputs) (*T, error)) *Node[T] {
	n := newObject[T](p, name, objects)
	n.ensure, n.make = objects.Ensure, build
	return n.Node
}

// Lookup adds a node that only reads an object of somebody else. The object is never
// written or deleted. An empty namespace stands for the owner's. If no store of the kind
// runs, each reconcile asks the server.
func Lookup[T any](p *Plan, name string, objects kube.Handle[T], key kube.Key) *Node[T] {
	n := newObject[T](p, name, objects)
	n.reads = true
	n.key = kube.Key{Namespace: cmp.Or(key.Namespace, p.owner.GetNamespace()), Name: key.Name}
	return n.Node
}

// objectNode is the typed part of a node for an object of the cluster.
type objectNode[T any] struct {
	*Node[T]
	handle kube.Handle[T]
	ensure func(ctx context.Context, o *T) (*T, error) // nil: the node only reads
	key    kube.Key                                    // of the object that a node only reads
}

func newObject[T any](p *Plan, name string, objects kube.Handle[T]) *objectNode[T] {
	n := &objectNode[T]{Node: newNode(p, name, objects.Kind(), ready.Of[T]), handle: objects}
	n.typed = n
	if err := objects.Err(); err != nil {
		p.wrong(fmt.Errorf("describe %q: %w", name, err))
	}
	return n
}

// built calls the function that makes the wanted object or thing.
func (n *Node[T]) built(in Inputs) (err error) {
	n.wanted, err = n.make(in)
	if err != nil || *in.err != nil {
		return errors.Join(*in.err, err)
	}
	if n.wanted == nil {
		return errors.New("its function has built nothing: use When for a node that may be absent")
	}
	return nil
}

func (n *objectNode[T]) build(ctx context.Context, in Inputs) (*claim, error) {
	if n.ensure == nil {
		return nil, nil
	}
	if err := n.built(in); err != nil {
		return nil, err
	}
	return n.own(ctx, any(n.wanted).(metav1.Object))
}

// own makes the owner the controller of a child, or marks the child if that cannot be.
func (n *objectNode[T]) own(ctx context.Context, o metav1.Object) (*claim, error) {
	p := n.plan
	scope := n.kind.Scope
	if scope == "" {
		var err error
		if scope, err = n.handle.Scope(ctx); err != nil {
			return nil, err
		}
	}
	if scope == kube.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(p.owner.GetNamespace())
		if all := n.handle.Namespaces(); o.GetNamespace() == "" && len(all) == 1 {
			o.SetNamespace(all[0])
		}
	}
	ns := p.owner.GetNamespace()
	c := &claim{key: kube.KeyOf(o), stored: n.isStored(ctx), marked: n.retain || ns != "" && ns != o.GetNamespace()}
	switch {
	case o.GetName() == "":
		return nil, errors.New("the object has no name")
	case !c.marked:
		return c, p.setController(o)
	case !n.retain && !p.hasCleanup():
		return nil, fmt.Errorf("%s %s has no owner reference, so nothing would delete it after its owner: "+
			"give the controller a Cleanup that calls Delete", n.kind.Kind, c.key)
	}
	all := maps.Clone(o.GetAnnotations())
	if all == nil {
		all = make(map[string]string, 1)
	}
	all[Mark] = p.mark().String()
	o.SetAnnotations(all)
	return c, nil
}

func (n *objectNode[T]) fetch(ctx context.Context, c claim) (answer, error) {
	var is *T
	err := n.mayTake(ctx, c)
	switch {
	case n.ensure == nil:
		is, err = n.read(ctx, n.key)
	case err == nil:
		is, err = n.ensure(ctx, n.wanted)
	}
	switch {
	case err == nil && c.late && !ready.Is(is):
		return answer{got: is, why: n.plan.podReasons(ctx, is)}, nil
	case err == nil:
		return answer{got: is}, nil
	case n.ensure == nil && apierrors.IsNotFound(err):
		return answer{wait: "it does not exist"}, nil
	case errors.Is(err, kube.ErrNotServed):
		return answer{wait: "its kind is not installed"}, nil
	case n.ensure != nil && apierrors.IsInvalid(err):
		return n.replace(ctx, c, err)
	}
	return answer{}, err
}

// read reads an object from a store, or from the server if no store runs.
func (n *objectNode[T]) read(ctx context.Context, key kube.Key) (*T, error) {
	is, err := n.handle.ReadOnly().Cached().Get(ctx, key)
	if errors.Is(err, kube.ErrNotCached) {
		return n.reader(key).Get(ctx, key.Name)
	}
	return is, err
}

// isStored reports whether a store of the kind runs. It decodes no object.
func (n *objectNode[T]) isStored(ctx context.Context) bool {
	p, kind := n.plan, n.kind.GroupKind().String()+" "+strings.Join(n.handle.Namespaces(), ",")
	if stored, known := p.stored[kind]; known {
		return stored
	}
	nobody := kube.Key{Namespace: p.owner.GetNamespace(), Name: "-"} // no object has such a name
	_, err := n.handle.ReadOnly().Cached().Get(ctx, nobody)
	if p.stored == nil {
		p.stored = make(map[string]bool)
	}
	p.stored[kind] = apierrors.IsNotFound(err)
	return p.stored[kind]
}

// reader returns a handle that asks the server for an object.
func (n *objectNode[T]) reader(key kube.Key) kube.Reader[T] {
	if key.Namespace == "" {
		return n.handle.ReadOnly()
	}
	return n.handle.ReadOnly().In(key.Namespace)
}

// mayTake returns an error if the object of the claim's name belongs to somebody else.
// Ensure looks at this itself if a store runs and the child has an owner reference.
func (n *objectNode[T]) mayTake(ctx context.Context, c claim) error {
	if n.ensure == nil || !c.marked && c.stored {
		return nil
	}
	o, err := n.read(ctx, c.key)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return n.plan.mayTake(any(o).(metav1.Object), any(n.wanted).(metav1.Object).GetLabels(), n.kind.Kind)
}

func (n *objectNode[T]) keep(a answer, r *record, _ time.Time, v *verdict) {
	n.live = a.got.(*T)
	if r.built {
		r.UID = any(n.live).(metav1.Object).GetUID()
	}
	v.State = n.readyWhen(n.live)
}
