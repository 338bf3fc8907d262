package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
// [Things.Settle]. The deletion of a thing waits for the same time.
func Step[T any](p *Plan, name string, things *Things[T], build func(Inputs) (*T, error)) *Node[T] {
	exists := func(*T) ready.State { return ready.State{Phase: ready.Ready} }
	n := &thingNode[T]{Node: newNode(p, name, kube.Kind{}, exists), things: things}
	n.typed, n.make, n.outside = n, build, true
	if things == nil {
		p.wrong(fmt.Errorf("%w: %q has no Things", ErrGraph, name))
		return n.Node
	}
	n.kind.Kind = things.Kind
	p.Knows(things)
	return n.Node
}

// thingNode is the typed part of a node for a thing.
type thingNode[T any] struct {
	*Node[T]
	things *Things[T]
}

func (n *thingNode[T]) build(_ context.Context, in Inputs) (*claim, error) {
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
	if !n.retain && len(n.plan.owner.GetFinalizers()) == 0 {
		return nil, fmt.Errorf("nothing would delete %s %s after its owner: give the controller a Cleanup that calls Delete",
			n.things.Kind, name)
	}
	return &claim{key: kube.Key{Name: name}}, nil
}

// fetch observes the thing if its last sight is too old, and creates or changes it.
func (n *thingNode[T]) fetch(ctx context.Context, c claim) (answer, error) {
	t, thing := n.things, c.record.Thing
	last := t.last(n.plan.sightOf(c.record))
	good := thing.Made && last != nil && !t.differs(last.is, n.wanted)
	if good && time.Now().Before(last.due()) {
		return answer{got: last}, nil
	}
	if c.recorded {
		return n.create(ctx, c)
	}
	calls := 1
	if !thing.ours() {
		calls = 2 // it will have to be created
	}
	done, wait, err := t.target().turn(ctx, n.plan.sightOf(c.record), calls)
	switch {
	case err != nil:
		return answer{}, err
	case done == nil && good:
		return answer{got: last, again: wait}, nil // it is as good as the calls allow
	case done == nil:
		return answer{wait: "waiting for its turn to call " + t.target().String(), again: wait}, nil
	}
	defer done()
	ref, err := t.ref(ctx, n.plan, c.record)
	if err != nil {
		return answer{}, err
	}
	is, err := t.observe(ctx, ref)
	switch {
	case err != nil:
		return answer{}, err
	case is != nil && !thing.ours() && (t.Adopt == nil || !t.Adopt(ref, is)):
		return answer{}, fmt.Errorf("create %s %s: %w", t.Kind, ref.Name, kube.ErrTaken)
	case is != nil:
		return n.found(ctx, c, ref, is)
	case thing.uncertain() && !t.Idempotent && time.Now().Before(t.doubtUntil(thing)):
		return answer{
			wait:  t.doubts(thing),
			again: min(soonest, time.Until(t.doubtUntil(thing))),
		}, nil
	}
	t.forget(n.plan.sightOf(c.record))
	return answer{create: true, wait: "about to be created"}, nil
}

// create creates a thing whose intent is recorded.
func (n *thingNode[T]) create(ctx context.Context, c claim) (answer, error) {
	t := n.things
	done, err := t.target().acquire(ctx)
	if err != nil {
		return answer{}, err
	}
	defer done()
	if time.Now().After(c.record.Thing.Called.Add(t.target().timeout())) {
		return answer{create: true, wait: "about to be created"}, nil // the recorded time no longer holds
	}
	ref, err := t.ref(ctx, n.plan, c.record)
	if err != nil {
		return answer{}, err
	}
	is, err := call(ctx, t.target(), func(ctx context.Context) (*T, error) { return t.Create(ctx, ref, n.wanted) })
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("create %s %s: %w", t.Kind, ref.Name, err)
	case is == nil:
		return answer{}, fmt.Errorf("create %s %s: the function Create has returned nothing", t.Kind, ref.Name)
	}
	return n.found(ctx, c, ref, is)
}

// found takes care of the outcome of a thing that exists, and changes the thing if need be.
func (n *thingNode[T]) found(ctx context.Context, c claim, ref Ref, is *T) (answer, error) {
	t, key := n.things, n.plan.sightOf(c.record)
	outcome := ref.Outcome
	if last := t.last(key); len(outcome) == 0 && last != nil {
		outcome = last.outcome // it could not be recorded yet
	}
	if len(outcome) == 0 && t.Outcome != nil {
		outcome = t.Outcome(is)
		switch {
		case len(outcome) > 0:
		case c.record.Thing.Made:
			return answer{}, fmt.Errorf("%s %s: its recorded outcome is lost, and it shows none", t.Kind, ref.Name)
		default:
			// Nobody has used the thing yet.
			if err := t.delete(ctx, ref); err != nil {
				return answer{}, err
			}
			return answer{wait: "its outcome was lost before it was recorded: it is created again", again: soonest}, nil
		}
	}
	seen := t.remember(key, is, outcome, time.Now())
	if t.Keep != nil && len(outcome) > 0 && len(ref.Outcome) == 0 {
		if err := t.Keep.save(ctx, n.plan, c.record, outcome); err != nil {
			return answer{}, err
		}
	}
	if !c.recorded && t.differs(is, n.wanted) {
		ref.Outcome = outcome
		t.target().owe()
		is, err := call(ctx, t.target(), func(ctx context.Context) (*T, error) { return t.Update(ctx, ref, is, n.wanted) })
		switch {
		case err != nil:
			return answer{}, fmt.Errorf("update %s %s: %w", t.Kind, ref.Name, err)
		case is == nil:
			return answer{}, fmt.Errorf("update %s %s: the function Update has returned nothing", t.Kind, ref.Name)
		}
		seen = t.remember(key, is, outcome, time.Now())
	}
	return answer{got: seen}, nil
}

func (n *thingNode[T]) keep(a answer, r *record, now time.Time) verdict {
	s := a.got.(*sight[T])
	n.live = s.is
	v := verdict{State: n.readyWhen(n.live)}
	since := r.Since.Time
	if r.State == Ready || since.IsZero() {
		since = now
	}
	s.judged(v.Phase == ready.Ready, now.Sub(since))
	if a.again == 0 {
		v.again = max(s.due().Sub(now), time.Second)
	}
	if n.things.Keep == nil && s.outcome != nil && len(r.Thing.Outcome) == 0 {
		r.Thing.Outcome, v.urgent = s.outcome, true
	}
	if !r.Thing.Made {
		r.Thing.Made = true
		if n.claim.recorded && !n.doubted {
			r.Thing.Called = metav1.Time{} // the only creation was answered
		}
	}
	return v
}
