package plan

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// Plan describes the children of one owner. It is made again for each reconcile and used
// once: for one [Plan.Run] or one [Plan.Delete].
type Plan struct {
	// Report, if it is set, is called when all nodes were visited, before the status is
	// written. It may set fields of the owner's status: see [Node.Last].
	Report func()
	// Concurrency is the number of requests for nodes that are sent at the same time at
	// most. Default: 8. Its counterpart is concurrentWorkflowExecutorThreads of
	// Java Operator SDK, which is for all owners together.
	Concurrency int
	// Monitor, if it is set, makes events and metrics of the run.
	Monitor *Monitor
	// Marks gives the objects a [Mark] in place of an owner reference. If the owner is deleted in
	// the foreground, the garbage collector deletes all objects with an owner reference at
	// once. It leaves marked objects to [Plan.Delete], so set Marks if the Cleanup waits for
	// something that needs the objects. The controller needs a [Marked] source for each kind
	// in place of Owns. Programs that follow owner references, such as kubectl tree, do not
	// see the objects. For owners that are deleted with the option to orphan their children, the
	// plan makes an empty Secret with an owner reference, in the owner's namespace or in that of
	// the client: see [Plan.Orphans]. So the operator needs the rights that manifest.Keeps gives
	// for Secrets.
	Marks bool

	owner       metav1.Object
	kind        kube.Kind
	client      *kube.Client
	ensureOwner func(ctx context.Context) error // writes the owner's status
	status      *Status
	nodes       []*node
	things      map[string]AnyThings   // by their kinds
	reference   *metav1.OwnerReference // to the owner; nil: it was not needed yet
	err         error                  // the first mistake in the description
}

// writable is a handle that can apply: a [kube.View] or [kube.Resource].
type writable[T any] interface {
	kube.Handle[T]
	Ensure(ctx context.Context, o *T) (*T, error)
}

// New returns an empty plan for an owner, which was read by the handle. status is the
// part of the owner's status that the plan keeps.
func New[T any](owners writable[T], owner *T, status *Status) *Plan {
	p := &Plan{kind: owners.Kind(), client: owners.Client(), status: status, err: owners.Err()}
	p.owner = any(owner).(metav1.Object)
	p.ensureOwner = func(ctx context.Context) error {
		view, _ := viewOf[T](owners)
		return view.Status().Ensure(ctx, owner)
	}
	return p
}

// Need is a node that others may need: a [Node] or [Nodes].
type Need interface{ parts() []*node }

// node is the part of a node that does not depend on the type of its object or thing.
type node struct {
	plan      *Plan
	name      string
	kind      nodeKind
	outside   bool // it is a step: its thing is outside the cluster
	reads     bool // it only reads an object of somebody else
	needs     []*node
	names     []string // see needed
	when      func(Inputs) bool
	within    time.Duration
	retain    bool
	untilGone bool
	displaces bool // see Node.DeleteBeforeCreate
	// endCall ends a call of a step that goes on until the creation; nil: there is none.
	endCall func()
	// replacement is empty if the default holds, and so is onLost.
	replacement, onLost Replacement
	typed               typed
	progress
}

// nodeKind is the part of a kind that a node needs.
type nodeKind struct {
	kube.GVK
	plural string
	scope  kube.Scope
}

// typed is the part of a node that depends on the type of its object or thing.
type typed interface {
	// build makes the wanted object or thing, and returns its identity. It returns nil if
	// the node only reads.
	build(ctx context.Context, in Inputs) (*claim, error)
	// settled returns the answer of fetch, and whether it is known without a request. It looks
	// at the object in the context look, whose question asked is: see package glance.
	settled(look context.Context, c claim, asked *glance.Object) (a answer, ok bool)
	// isStored reports whether a store runs that has the objects of the handle.
	isStored(ctx context.Context) bool
	// fetch makes the live object or thing like the wanted one, or only reads it. The crew
	// calls it.
	fetch(ctx context.Context, c claim) (answer, error)
	// keep takes the answer of fetch, records it, and then judges it.
	keep(a answer, r *record, now time.Time, v *verdict)
}

// claim is how an object or thing belongs to its owner.
type claim struct {
	key kube.Key
	// object is the wanted object; nil for a thing.
	object metav1.Object
	// marked says that the object has no owner reference.
	marked bool
	// record is a copy of the inventory's when fetch is called; nil for an object.
	record *NodeStatus
	// late says that the node was not ready within its deadline.
	late bool
	// orphans says that the owner's status has the labels of pods that are about to be
	// orphaned.
	orphans bool
	// known says that the object was the owner's before.
	known bool
	// stored says that a store runs that has the objects of the handle.
	stored bool
	// recorded says that the owner's status has the claim.
	recorded bool
	// task identifies what a Job is to do, and done says that it is complete.
	task string
	done bool
}

// answer is the result of fetch.
type answer struct {
	err error
	got any // nil: there is nothing yet
	// wait says why there is nothing yet.
	wait string
	// why says more about an object that is not ready.
	why string
	// later says that an object is as ready as it can be without those that need it.
	later bool
	// again is the time after which to look again; 0: not before a change is seen.
	again time.Duration
	// create says that a thing is not there and may be created as soon as that is recorded, and
	// lost that it was there.
	create, lost bool
	// refused says that the creation was refused, so that it has had no effect.
	refused bool
	// orphans are the labels of pods to record before they are orphaned.
	orphans map[string]string
	// deleted says that a thing was deleted and is to be created as another one.
	deleted bool
	// done says that a Job is complete and gone.
	done bool
}

// verdict is how a node judges an answer.
type verdict struct {
	ready.State
	again time.Duration
	// urgent says that the record has an outcome that must be stored before anything else
	// happens.
	urgent bool
}

// Node is a child whose object or thing is of type T. Its methods that describe it return
// the node itself.
type Node[T any] struct {
	*node
	make      func(Inputs) (*T, error)
	readyWhen func(*T) ready.State
	wanted    *T
	live      *T
	// stored decodes an object that is live and was not decoded yet.
	stored    func(into any) error
	byDefault bool              // readyWhen is the default
	outcome   map[string]string // of a step
	secret    bool              // a step keeps its outcome in a Secret
}

// set adds a node to the plan, whose part without a type is part.
func (n *Node[T]) set(p *Plan, part *node, rule func(*T) ready.State) {
	*n = Node[T]{node: part, readyWhen: rule, byDefault: true}
	part.plan = p
	p.nodes = append(p.nodes, part)
}

// wrong notes a mistake in the description.
func (p *Plan) wrong(err error) { p.err = cmp.Or(p.err, err) }

func (n *node) parts() []*node { return []*node{n} }

// Needs adds nodes that must be ready before this one is built. Only their objects can be
// read by [Node.From].
func (n *Node[T]) Needs(needs ...Need) *Node[T] {
	for _, need := range needs {
		n.add(need)
	}
	return n
}

func (n *node) add(need Need) {
	if missing(need) {
		n.plan.wrong(fmt.Errorf("%w: %q needs a node that is nil", errGraph, n.name))
		return
	}
	for _, part := range need.parts() {
		if part.plan != n.plan {
			n.plan.wrong(fmt.Errorf("%w: %q needs %q, which is not in the plan but in another one", errGraph, n.name, part.name))
			continue
		}
		n.needs, n.names = append(n.needs, part), nil
	}
}

func missing(need Need) bool {
	n, ok := need.(interface{ absent() bool })
	return !ok || n.absent()
}

func (n *Node[T]) absent() bool { return n == nil }

// When makes the node conditional: while the function returns false, the node's object or
// thing is deleted, and so are those of all nodes that need it, and of the nodes that need
// these. The function can read the nodes that this one needs. It is not called, and nothing
// is deleted, while one of these is not ready.
//
// There is no optional need. For one, add the node and the need in an if of the description,
// whose condition is known without live objects: then the other node stays, and is applied
// without the need before the object of the node that has left is deleted.
func (n *Node[T]) When(holds func(Inputs) bool) *Node[T] {
	n.when = holds
	return n
}

// ReadyWhen replaces the rule that tells whether the object or thing is ready. The default
// for objects is [ready.Of], and a claim for a volume need not be bound if its StorageClass waits
// for the first consumer. By default a thing is ready as soon as it exists.
func (n *Node[T]) ReadyWhen(rule func(*T) ready.State) *Node[T] {
	n.readyWhen, n.byDefault = rule, false
	return n
}

// Within sets a deadline: the node becomes [Degraded] if it is not ready for longer. Then
// the message of a workload says why its pods are not ready, if the operator has the right
// to list pods. So does the message of a workload that has failed.
func (n *Node[T]) Within(d time.Duration) *Node[T] {
	n.within = d
	return n
}

// Retain keeps the object or thing when the node leaves the plan, and when the owner is
// deleted. A retained object has no owner reference, because a deletion of the owner in the
// foreground would delete it. It is marked instead: see [Marked].
func (n *Node[T]) Retain() *Node[T] {
	n.retain = true
	return n
}

// UntilGone makes the deletion of the nodes that this one needs wait until its object and
// all dependents of it are gone, or until its thing is. Without it, they wait until the
// deletion has begun. The dependents of a custom resource with a finalizer are left to its
// controller: the nodes wait until the resource is gone.
func (n *Node[T]) UntilGone() *Node[T] {
	n.untilGone = true
	return n
}

// From returns the live object of a node that is needed: as it was in the cluster when it
// was found ready. It must not be changed. If the node that in belongs to does not need
// n, From returns an empty object, and the node fails with an error that names both.
func (n *Node[T]) From(in Inputs) *T {
	if n.readable(in) {
		is, err := n.object()
		if is != nil {
			return is
		}
		*in.err = cmp.Or(*in.err, err)
	}
	return new(T)
}

// object returns the live object, nil if there is none.
func (n *Node[T]) object() (*T, error) {
	if n.live == nil && n.stored != nil {
		is := new(T)
		if err := n.stored(is); err != nil {
			return nil, fmt.Errorf("read %q: %w", n.name, err)
		}
		n.live = is
	}
	return n.live, nil
}

// Outcome returns the outcome of a thing that is needed: see [Things.Outcome] and
// [Node.From]. It must not be changed. For a node that is no step it is empty.
func (n *Node[T]) Outcome(in Inputs) map[string]string {
	if n.readable(in) {
		return n.outcome
	}
	return nil
}

// OutcomeSecret returns the name of the Secret that has the outcome of a thing which is
// needed: see [InSecret]. If there is no such Secret, the node that in belongs to fails.
func (n *Node[T]) OutcomeSecret(in Inputs) string {
	switch {
	case !n.readable(in):
		return ""
	case n.secret:
		return OutcomeName(n.kind.Kind, n.record.ObjectName)
	case *in.err == nil:
		*in.err = fmt.Errorf("%w: %q reads the Secret of %q, whose Things do not keep an outcome in one", errGraph, in.of.name, n.name)
	}
	return ""
}

// Last returns the live object as this run has seen it, ready or not. It returns nil if
// the node was not visited or does not exist. It is for [Plan.Report].
func (n *Node[T]) Last() *T {
	is, _ := n.object() // an object that cannot be decoded was not seen
	return is
}

// Inputs gives a node's functions the objects of the nodes that it needs.
type Inputs struct {
	of  *node
	err *error
}

func (n *node) readable(in Inputs) bool {
	for _, need := range in.of.needs {
		if need == n {
			return true
		}
	}
	if *in.err == nil {
		*in.err = fmt.Errorf("%w: %q reads %q, which it does not need: add it to Needs", errGraph, in.of.name, n.name)
	}
	return false
}

// Nodes are the nodes of a collection.
type Nodes[T any] struct {
	keys []string
	by   map[string]*Node[T]
}

// Each adds a node for each key of a collection: see [Object]. The node of key "a" in a
// collection "shard" is named "shard/a". Keys should be stable: the object of a key that is
// no longer there is deleted.
func Each[T any](
	p *Plan, name string, keys []string, objects writable[T], build func(in Inputs, key string) (*T, error),
) *Nodes[T] {
	return collect(keys, func(key string) *Node[T] {
		return Object(p, name+"/"+key, objects, func(in Inputs) (*T, error) { return build(in, key) })
	})
}

// EachStep is [Each] for things outside the cluster: see [Step].
func EachStep[T any](
	p *Plan, name string, keys []string, things *Things[T], build func(in Inputs, key string) (*T, error),
) *Nodes[T] {
	return collect(keys, func(key string) *Node[T] {
		return Step(p, name+"/"+key, things, func(in Inputs) (*T, error) { return build(in, key) })
	})
}

func collect[T any](keys []string, add func(key string) *Node[T]) *Nodes[T] {
	all := &Nodes[T]{keys: keys, by: make(map[string]*Node[T], len(keys))}
	for _, key := range keys {
		all.by[key] = add(key)
	}
	return all
}

func (all *Nodes[T]) absent() bool { return all == nil }

func (all *Nodes[T]) parts() (nodes []*node) {
	for _, key := range all.keys {
		nodes = append(nodes, all.by[key].node)
	}
	return nodes
}

// Do calls a function for each node, which describes it further.
func (all *Nodes[T]) Do(describe func(key string, n *Node[T])) *Nodes[T] {
	for _, key := range all.keys {
		describe(key, all.by[key])
	}
	return all
}

// Needs is [Node.Needs] for each node.
func (all *Nodes[T]) Needs(needs ...Need) *Nodes[T] {
	return all.Do(func(_ string, n *Node[T]) { n.Needs(needs...) })
}

// From returns the live objects in the order of their keys: see [Node.From].
func (all *Nodes[T]) From(in Inputs) (objects []*T) {
	for _, key := range all.keys {
		objects = append(objects, all.by[key].From(in))
	}
	return objects
}

// Key returns the node of a key, nil if there is none.
func (all *Nodes[T]) Key(key string) *Node[T] { return all.by[key] }
