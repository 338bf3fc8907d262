package plan

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/finalizers"
	"github.com/pintle-go/pintle/internal/gate"
	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// Step adds a node for a thing outside the cluster, as build wants it. The thing is
// observed, and created or changed if need be, when all that the node needs is ready. The
// node's deletion deletes it.
//
// Before Create is called, the intent is recorded in the owner's status; afterwards, that
// the thing was made. If the process ends in between, or the call is not answered, it is
// uncertain whether there is a thing. Then the thing is observed until it appears, and
// created again only when that makes no second one: see [Things.Idempotent] and
// [Things.Settle]. The deletion of a thing waits for the same time. A thing that was made and
// Observe does not show is created again after Settle at the earliest: see [Node.OnLost].
func Step[T any](p *Plan, name string, things *Things[T], build func(Inputs) (*T, error)) *Node[T] {
	exists := func(*T) ready.State { return ready.State{Phase: ready.Ready} }
	whole := new(struct {
		thingNode[T]
		typed Node[T]
		node  node
	})
	whole.node.name = name
	whole.typed.set(p, &whole.node, exists)
	n := &whole.thingNode
	n.Node, n.things = &whole.typed, things
	n.typed, n.make, n.outside = n, build, true
	if things == nil {
		p.wrong(fmt.Errorf("%w: %q has no Things", errGraph, name))
		return n.Node
	}
	n.kind.Kind = things.Kind
	_, n.secret = things.Keep.(inSecret)
	n.secret = n.secret && things.Outcome != nil
	p.Knows(things)
	return n.Node
}

// thingNode is the typed part of a node for a thing.
type thingNode[T any] struct {
	*Node[T]
	things *Things[T]
}

func (n *thingNode[T]) build(ctx context.Context, in Inputs) (*claim, error) {
	if err := n.built(in); err != nil {
		return nil, err
	}
	name := string(n.plan.owner.GetUID()) + "/" + n.name
	if n.things.Name != nil {
		name = n.things.Name(n.wanted)
	}
	if name == "" {
		return nil, errors.New("the thing has no name")
	}
	if !n.retain && !finalizers.CleansUp(ctx, n.plan.owner) {
		return nil, fmt.Errorf("nothing would delete %s %s after its owner: give the controller a Cleanup that calls Delete",
			n.things.Kind, name)
	}
	return &claim{key: kube.Key{Name: name}}, nil
}

// settled leaves all things to the crew, because the functions of Things may take long.
func (n *thingNode[T]) settled(context.Context, claim, *glance.Object) (answer, bool) {
	return answer{}, false
}

func (n *thingNode[T]) isStored(context.Context) bool { return false }

// fetch observes the thing if its last sight is too old, and creates or changes it.
func (n *thingNode[T]) fetch(ctx context.Context, c claim) (answer, error) {
	if c.recorded {
		return n.create(ctx, c)
	}
	t, thing, key := n.things, c.record.Thing, n.plan.sightOf(*c.record)
	last := t.last(key)
	// If another process has led since, the record may be of another thing of the name.
	good := thing.Made && last != nil && last.is != nil && !last.asked && last.token == thing.Token &&
		!t.differs(last.is, n.wanted)
	if good && time.Now().Before(last.due()) {
		return answer{got: last}, nil
	}
	calls := 1
	if n.writes(thing, last) {
		calls = 2
	}
	done, wait, err := t.target().turn(ctx, key, calls)
	switch {
	case err != nil:
		return answer{}, err
	case done == nil && good:
		return answer{got: last, again: wait}, nil // it is as good as the calls allow
	case done == nil:
		return answer{wait: "waiting for its turn to call " + t.target().String(), again: wait}, nil
	}
	n.endCall = done
	ends := true
	defer func() {
		if ends {
			n.finish()
		}
	}()
	ref, k, err := t.ref(ctx, n.plan, *c.record)
	if err != nil {
		return answer{}, err
	}
	asked := time.Now()
	is, err := t.observe(ctx, ref)
	switch {
	case err != nil:
		return answer{again: t.retryIn(c.record)}, err
	case is != nil && !thing.Made && t.whose(key, thing, ref, k, is, n.wanted) != ours:
		return answer{}, fmt.Errorf("create %s %s: %w, and nothing says that it is the owner's: delete it, or have Adopt take it over",
			t.Kind, ref.Name, kube.ErrTaken)
	case is != nil:
		t.hold(key)
		return n.found(ctx, c, ref, k, is, calls == 2)
	case thing.uncertain() && !t.Idempotent && t.inDoubt(thing, asked):
		return answer{wait: t.doubts(thing), again: max(time.Second, min(soonest, time.Until(t.doubtUntil(thing))))}, nil
	case t.isHidden(thing, asked):
		return answer{wait: t.hides(thing), again: max(time.Second, min(soonest, time.Until(t.hiddenUntil(thing))))}, nil
	}
	// The plan may have deleted it itself, when its node had left. A status that was lost does not say that it
	// was made:
	// its outcome does.
	was := thing.Made || n.onLost == Report && thing.Token == "" && len(k.outcome) > 0
	lost := was && c.record.State != Deleting && (last == nil || !last.ended && !last.asked)
	if lost && n.onLost == Report {
		return answer{again: t.retryIn(c.record)}, fmt.Errorf("%s %s was there and is gone: restore it in %s; "+
			"the plan creates no other one, because the node is to report its loss", t.Kind, ref.Name, t.target())
	}
	if k.taken {
		return answer{}, fmt.Errorf("create %s %s: there is another outcome in the place of its own: %w", t.Kind, ref.Name, kube.ErrTaken)
	}
	t.remember(key, nil, "", nil)
	if !t.hold(key) {
		return answer{}, fmt.Errorf("create %s %s: %w: another owner is creating it", t.Kind, ref.Name, kube.ErrTaken)
	}
	if calls < 2 && t.target().limited() {
		return answer{wait: "about to be created", again: patience}, nil
	}
	// The call keeps its place at the target until the creation.
	ends = false
	return answer{create: true, lost: lost, wait: "about to be created"}, nil
}

// OnLost sets how a step answers that its thing was there and is gone, because somebody has deleted it
// in the target. With [Recreate], the default, the plan creates another one, and its [Monitor] makes
// the event ThingLost. With [Report] the node fails until the thing is there again: for things whose
// data a new one would not have.
func (n *Node[T]) OnLost(r Replacement) *Node[T] {
	switch {
	case !n.outside:
		n.plan.wrong(fmt.Errorf("%w: %q is no step: a deleted object is created again", errGraph, n.name))
	case r != Report && r != Recreate:
		n.plan.wrong(fmt.Errorf("%w: %q answers the loss of its thing by %q: want Report or Recreate", errGraph, n.name, r))
	}
	n.onLost = r
	return n
}

// retryIn returns the time after which an observation that has failed is repeated. It is the
// thing's own: the back-off of its owner grows with the failures of all nodes.
func (t *Things[T]) retryIn(r *NodeStatus) time.Duration {
	if r.State != Failed {
		return soonest
	}
	return min(max(soonest, time.Since(r.Since.Time)/4), cmp.Or(t.Poll, 5*time.Minute))
}

// writes reports that a call to observe the thing is likely to be followed by another one,
// which creates or changes it.
func (n *thingNode[T]) writes(thing *ThingStatus, last *sight[T]) bool {
	t := n.things
	switch {
	case !thing.ours(), last != nil && last.is == nil:
		return true
	case thing.uncertain():
		return t.Idempotent || !t.inDoubt(thing, time.Now())
	}
	return last != nil && t.differs(last.is, n.wanted)
}

// finish ends a call.
func (n *node) finish() {
	if n.endCall != nil {
		n.endCall()
		n.endCall = nil
	}
}

// create creates a thing whose intent is recorded. The call ends a timeout after the
// recorded time, so that it is known until when the call can take effect.
func (n *thingNode[T]) create(ctx context.Context, c claim) (answer, error) {
	t := n.things
	until := c.record.Thing.Called.Add(t.target().timeout())
	if time.Until(until) < t.target().timeout()/2 {
		return answer{create: true, wait: "about to be created"}, nil // too little time is left: it is recorded again
	}
	defer n.finish()
	ref, k, err := t.ref(ctx, n.plan, *c.record)
	if err != nil {
		return answer{}, err
	}
	if err := gate.Open(ctx); err != nil {
		return answer{refused: true}, fmt.Errorf("create %s %s: %w", t.Kind, ref.Name, err)
	}
	t.remember(n.plan.sightOf(*c.record), nil, "", nil).sent = n.wanted
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	is, err := call(limited, t.target(), func(ctx context.Context) (*T, error) { return t.Create(ctx, ref, n.wanted) })
	switch {
	case err != nil:
		return answer{refused: errors.Is(err, ErrRefused)}, fmt.Errorf("create %s %s: %w", t.Kind, ref.Name, err)
	case is == nil:
		return answer{}, fmt.Errorf("create %s %s: the function Create has returned nothing", t.Kind, ref.Name)
	}
	if mentions(is, ref.Token) {
		t.tells.Store(true)
	}
	return n.found(ctx, c, ref, k, is, false)
}

// found takes care of the outcome of a thing that exists, and changes the thing if need be
// and writes or no limit allows another call.
func (n *thingNode[T]) found(ctx context.Context, c claim, ref Ref, k kept, is *T, writes bool) (answer, error) {
	t, key, thing := n.things, n.plan.sightOf(*c.record), c.record.Thing
	thing.Token = cmp.Or(ref.Token, rand.Text()) // an adopted thing has none
	outcome := ref.Outcome
	if last := t.last(key); len(outcome) == 0 && last != nil && last.token == thing.Token {
		outcome = last.outcome // it could not be recorded yet
	}
	if len(outcome) == 0 && t.Outcome != nil {
		outcome = t.Outcome(is)
		switch {
		case len(outcome) > 0:
		case c.recorded, !thing.uncertain():
			return answer{
				got: t.remember(key, is, thing.Token, nil), wait: "there is no record of its outcome, and it shows none",
			}, nil
		default:
			// Its creation was answered to a process that has ended. Nobody has used the thing.
			if err := t.delete(ctx, ref); err != nil {
				return answer{}, err
			}
			return answer{wait: "its outcome was lost before it was recorded: it is created again", again: soonest, deleted: true}, nil
		}
	}
	seen := t.remember(key, is, thing.Token, outcome)
	if !k.right && len(outcome) > 0 {
		if err := t.Keep.save(ctx, n.plan, *c.record, outcome); err != nil {
			return answer{}, err
		}
	}
	switch {
	case !t.differs(is, n.wanted):
		return answer{got: seen}, nil
	case !writes && t.target().limited():
		return answer{got: seen, wait: "about to be changed", again: patience}, nil
	}
	if err := gate.Open(ctx); err != nil {
		return answer{}, fmt.Errorf("update %s %s: %w", t.Kind, ref.Name, err)
	}
	ref.Outcome = outcome
	is, err := call(ctx, t.target(), func(ctx context.Context) (*T, error) { return t.Update(ctx, ref, is, n.wanted) })
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("update %s %s: %w", t.Kind, ref.Name, err)
	case is == nil:
		return answer{}, fmt.Errorf("update %s %s: the function Update has returned nothing", t.Kind, ref.Name)
	}
	return answer{got: t.remember(key, is, thing.Token, outcome)}, nil
}

func (n *thingNode[T]) keep(a answer, r *record, now time.Time, v *verdict) {
	s := a.got.(*sight[T])
	n.live, n.outcome = s.is, s.outcome
	r.Thing.Token = s.token
	switch {
	case n.things.Keep != nil:
		r.Thing.Outcome, r.Thing.Kept = nil, r.Thing.Kept || len(s.outcome) > 0
	case len(s.outcome) > 0 && len(r.Thing.Outcome) == 0:
		r.Thing.Outcome, v.urgent = s.outcome, true
	}
	if !r.Thing.Made {
		r.Thing.Made = true
		if n.claim.recorded {
			r.Thing.Answered = calledAt(time.Now())
		}
		if n.claim.recorded && !n.doubted {
			r.Thing.Called = metav1.Time{} // the only creation was answered
		}
	}
	if a.wait != "" {
		v.State = ready.State{Phase: ready.Waiting, Message: a.wait}
	} else {
		v.State = n.readyWhen(n.live)
	}
	since := r.Since.Time
	if r.State == Ready || since.IsZero() {
		since = now
	}
	s.judged(v.Phase == ready.Ready, now.Sub(since))
	if a.again == 0 {
		v.again = max(s.due().Sub(now), time.Second)
	}
}
