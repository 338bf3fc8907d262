package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// Object adds a node whose object is the one that build returns. The object is applied
// with [kube.View.Ensure] when all that the node needs is ready. The owner becomes its
// controller; if that cannot be, the object is marked instead: see [Marked]. An object
// without a namespace gets the owner's, or the handle's if the owner is cluster-scoped.
func Object[T any](p *Plan, name string, objects writable[T], build func(Inputs) (*T, error)) *Node[T] {
	n := newObject[T](p, name, objects)
	n.writes, n.make = objects, build
	if p.err == nil && !p.client.SameCluster(objects.Client()) {
		p.wrong(fmt.Errorf("%w: the object of %q would be in another cluster than the owner", errGraph, name))
	}
	return n.Node
}

// Lookup adds a node that only reads an object of somebody else. The object is never
// written or deleted. For a kind in namespaces an empty namespace stands for the owner's. If
// no store of the kind runs, each reconcile asks the server.
//
// The object is not the owner's, so neither the controller's Owns nor [Marked] sees its changes.
// Name its kind in the controller's Watches, with [controller.Referenced] or
// [controller.Mapped]. Without that, a change of the object runs the plan at no time: the plan
// reads the object when something else runs it. Only while a node waits, such as this one for
// an object that is missing or not ready, the plan is run again, after about 30 seconds.
//
// While the key has no name, the node waits. That is for a name which another object has:
// read that object from the cache, and give an empty key if it is not there. The objects of
// nodes that are left out instead would be deleted.
func Lookup[T any](p *Plan, name string, objects kube.Handle[T], key kube.Key) *Node[T] {
	n := newObject[T](p, name, objects)
	n.reads = true
	n.key = &key
	return n.Node
}

// objectNode is the typed part of a node for an object of the cluster.
type objectNode[T any] struct {
	*Node[T]
	handle kube.Handle[T]
	writes writable[T] // the same handle; nil: the node only reads
	key    *kube.Key   // of the object that a node only reads
}

func newObject[T any](p *Plan, name string, objects kube.Handle[T]) *objectNode[T] {
	whole := new(struct { // one piece of memory
		objectNode[T]
		typed Node[T]
		node  node
	})
	kind := objects.Kind()
	whole.node.name, whole.node.kind = name, nodeKind{kind.GVK, kind.Plural, kind.Scope}
	whole.typed.set(p, &whole.node, ready.Of[T])
	n := &whole.objectNode
	n.Node, n.handle = &whole.typed, objects
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
	if n.writes == nil {
		return nil, nil
	}
	if err := n.built(in); err != nil {
		return nil, err
	}
	return n.own(ctx, any(n.wanted).(metav1.Object))
}

// scope returns the scope of the node's kind.
func (n *objectNode[T]) scope(ctx context.Context) (kube.Scope, error) {
	if n.kind.scope != "" {
		return n.kind.scope, nil
	}
	return n.handle.Scope(ctx)
}

// lookUp reads the object of a node that only reads.
func (n *objectNode[T]) lookUp(ctx context.Context) (*T, error) {
	key := *n.key
	scope, err := n.scope(ctx)
	if err != nil {
		return nil, err
	}
	if scope == kube.Namespaced {
		key.Namespace = cmp.Or(key.Namespace, n.plan.owner.GetNamespace())
	}
	return n.read(ctx, key)
}

// own makes the owner the controller of a child, or marks the child if that cannot be.
func (n *objectNode[T]) own(ctx context.Context, o metav1.Object) (*claim, error) {
	p := n.plan
	scope, err := n.scope(ctx)
	if err != nil {
		return nil, err
	}
	if scope == kube.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(p.owner.GetNamespace())
		if all := n.handle.Namespaces(); o.GetNamespace() == "" && len(all) == 1 {
			o.SetNamespace(all[0])
		}
	}
	ns := p.owner.GetNamespace()
	c := &claim{key: kube.KeyOf(o), object: o, marked: p.Marks || n.retain || ns != "" && ns != o.GetNamespace()}
	if n.isJob() {
		if c.task, err = taskOf(o); err != nil {
			return nil, err
		}
	}
	switch {
	case o.GetName() == "":
		return nil, errors.New("the object has no name")
	case len(content.IsPathSegmentName(o.GetName())) > 0:
		return nil, fmt.Errorf("no server takes the name %q of the object: it %s", o.GetName(), content.IsPathSegmentName(o.GetName())[0])
	case !c.marked:
		return c, p.setController(o)
	case !n.retain && !finalizers.CleansUp(ctx, p.owner):
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

// settled returns the answer of fetch if the store shows that the object is as the node wants
// it. It neither sends nor waits, so the crew is not needed. A program's own handle need not
// know of the question, so it is not asked. If the wanted object has a mark, so has the one in
// the store.
func (n *objectNode[T]) settled(look context.Context, c claim, asked *glance.Object) (answer, bool) {
	switch any(n.writes).(type) {
	case kube.Resource[T], kube.View[T]:
	default:
		return answer{}, false
	}
	if c.orphans || !c.known || kube.KeyOf(c.object) != c.key {
		return answer{}, false
	}
	asked.UID = n.record.UID
	if _, err := n.writes.Ensure(look, n.wanted); err != nil {
		return answer{}, false
	}
	if n.byDefault && isPlain[T]() {
		n.stored = asked.Decode
		return answer{got: asked}, true
	}
	is := new(T)
	if asked.Decode(is) != nil || n.byDefault && pendingClaim(is) != nil || n.within > 0 && (c.late && !ready.Is(is) || ready.HasFailed(is)) {
		return answer{}, false
	}
	return answer{got: is}, true
}

// isPlain reports that the default rule has the objects of a type ready as soon as they
// exist.
func isPlain[T any]() bool {
	switch any((*T)(nil)).(type) {
	case *corev1.ConfigMap, *corev1.Secret, *corev1.ServiceAccount:
		return true
	}
	return false
}

const notInstalled = "its kind is not installed"

func (n *objectNode[T]) fetch(ctx context.Context, c claim) (answer, error) {
	var is *T
	if c.object != nil && kube.KeyOf(c.object) != c.key {
		return answer{}, fmt.Errorf("%w: the object was renamed from %s to %s after it was built", errGraph, c.key, kube.KeyOf(c.object))
	}
	if n.writes == nil && n.key.Name == "" {
		return answer{wait: "the name of its object is not known"}, nil
	}
	if c.done {
		if _, err := n.read(ctx, c.key); apierrors.IsNotFound(err) {
			return answer{got: n.wanted, done: true}, nil
		}
	}
	err := n.mayTake(ctx, c)
	switch {
	case n.writes == nil:
		is, err = n.lookUp(ctx)
	case err == nil:
		is, err = n.ensure(ctx, c)
	}
	claim := pendingClaim(is)
	switch {
	case err == nil && claim != nil && n.byDefault:
		later, why := n.plan.bindsLater(ctx, claim)
		return answer{got: is, later: later, why: why}, nil
	case err == nil && n.within > 0 && (c.late && !ready.Is(is) || ready.HasFailed(is)):
		return answer{got: is, why: n.plan.podReasons(ctx, is)}, nil
	case err == nil:
		return answer{got: is}, nil
	case n.writes == nil && apierrors.IsNotFound(err):
		return answer{wait: "it does not exist"}, nil
	case errors.Is(err, kube.ErrNotServed):
		return answer{wait: notInstalled}, nil
	case n.writes != nil && apierrors.IsInvalid(err):
		return n.replace(ctx, c, err)
	}
	return answer{}, err
}

// ensure applies the wanted object. The object may be of a release with Marks and the node of one
// without, or the other way round.
func (n *objectNode[T]) ensure(ctx context.Context, c claim) (*T, error) {
	is, err := n.writes.Ensure(ctx, n.wanted)
	view, ok := n.view(c.key)
	switch {
	case !ok:
	case err == nil && c.marked:
		return n.unreferenced(ctx, view, is)
	case errors.Is(err, kube.ErrTaken):
		// Ensure takes a marked object for one of nobody.
		if o, failed := n.read(ctx, c.key); failed == nil && n.plan.Owns(any(o).(metav1.Object)) {
			return view.Apply(ctx, n.wanted)
		}
	}
	return is, err
}

// unreferenced removes the owner's reference from a marked object. The apply has left it if it is
// somebody else's, as in a copy of the object of an earlier release.
func (n *objectNode[T]) unreferenced(ctx context.Context, view kube.View[T], is *T) (*T, error) {
	o := any(is).(metav1.Object)
	if !slices.ContainsFunc(o.GetOwnerReferences(), n.plan.isOwner) {
		return is, nil
	}
	patch, err := n.plan.withoutReference(o, nil)
	if err != nil {
		return nil, err
	}
	return view.Patch(ctx, o.GetName(), types.MergePatchType, patch)
}

// read reads an object from a store, or from the server if no store runs.
func (n *objectNode[T]) read(ctx context.Context, key kube.Key) (*T, error) {
	is, err := n.reader(key).Cached().Get(ctx, key.Name)
	if errors.Is(err, kube.ErrNotCached) {
		return n.onServer(key).Get(ctx, key.Name)
	}
	return is, err
}

// isStored reports whether a store runs that has the objects of the handle. It decodes no
// object.
func (n *objectNode[T]) isStored(ctx context.Context) bool {
	_, err := n.handle.ReadOnly().Cached().Get(ctx, "-") // no object has such a name
	// A store that runs also tells that the name lacks a namespace.
	return apierrors.IsNotFound(err) || errors.Is(err, kube.ErrScope)
}

// onServer returns a handle that asks the server for an object, also for one that the node's
// handle hides because it is narrowed by labels.
func (n *objectNode[T]) onServer(key kube.Key) kube.Reader[T] {
	all := kube.Wide(n.handle)
	if key.Namespace == "" {
		return all
	}
	return all.In(key.Namespace)
}

// reader returns the node's handle for one object.
func (n *objectNode[T]) reader(key kube.Key) kube.Reader[T] {
	if key.Namespace == "" {
		return n.handle.ReadOnly()
	}
	return n.handle.ReadOnly().In(key.Namespace)
}

// mayTake returns an error if the object of the claim's name belongs to somebody else.
// Ensure looks at owner references itself if a store runs and the child has one. It does not
// look at marks, which matter before the object is the owner's.
func (n *objectNode[T]) mayTake(ctx context.Context, c claim) error {
	if n.writes == nil {
		return nil
	}
	o, err := n.read(ctx, c.key)
	if apierrors.IsNotFound(err) && c.marked && n.isStored(ctx) {
		o, err = n.onServer(c.key).Get(ctx, c.key.Name) // the store may be behind, or narrowed by labels
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	is := any(o).(metav1.Object)
	if c.known && !n.plan.Owns(is) && metav1.GetControllerOfNoCopy(is) == nil {
		if err := n.plan.stays(ctx); err != nil {
			return err
		}
	}
	if !c.marked && c.stored && c.known {
		return nil
	}
	return n.plan.mayTake(is, any(n.wanted).(metav1.Object).GetLabels(), n.kind.Kind)
}

func (n *objectNode[T]) keep(a answer, r *record, _ time.Time, v *verdict) {
	is, ok := a.got.(*T)
	if !ok { // settled has found it, and nobody has looked at it yet
		v.Phase = ready.Ready
		return
	}
	n.live = is
	if a.done {
		v.Phase = ready.Ready
		return
	}
	if n.isJob() && r.built && isComplete(is) {
		r.Done = n.claim.task
	}
	if r.built {
		r.UID = any(n.live).(metav1.Object).GetUID()
	}
	if len(r.Orphans) > 0 {
		if set, err := as[appsv1.StatefulSet](n.live); err == nil && hasAdopted(set) {
			r.Orphans = nil
		}
	}
	if v.State = n.readyWhen(n.live); a.later {
		v.State = ready.State{Phase: ready.Ready}
	}
}
