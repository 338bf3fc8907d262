package plan

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/gate"
)

// Things says how the things of a type are observed, created, changed and deleted outside
// the cluster: buckets, databases, tenants of a storage. T has wanted fields as well as
// observed ones. A program has one Things for each type, and describes single things by
// [Step]. The counterpart in crossplane-runtime is managed.ExternalClient.
//
// The functions are called on several goroutines. Their context ends after the Target's
// Timeout. They should be as cheap as a request. They get no owner: if the address or the
// credentials differ from owner to owner, the name of the thing says which it needs, as in
// namespace/server/user, and the functions read them from the cache. Delete needs them too,
// so they must stay as long as there are things.
type Things[T any] struct {
	// Kind names the type of the things in the status and in messages, such as Bucket. It
	// must stay the same from release to release.
	Kind string
	// Target is the system that the things are in. Default: one without limits for each
	// Things.
	Target *Target
	// Name returns the name of a wanted thing: no other thing of the kind has it in the
	// target. Default: the owner's uid, a slash and the name of the node.
	Name func(want *T) string
	// Observe returns a thing, nil if there is none of that name.
	Observe func(ctx context.Context, r Ref) (*T, error)
	// Create makes a thing, and returns it as it is then. An error that wraps [ErrRefused]
	// says that the thing was not made, such as because another one has the name. After any
	// other error the plan does not know that.
	Create func(ctx context.Context, r Ref, want *T) (*T, error)
	// Differs reports that a thing must be changed. It is required if Update is set.
	Differs func(is, want *T) bool
	// Update changes a thing, and returns it as it is then. Default: things are never
	// changed.
	Update func(ctx context.Context, r Ref, is, want *T) (*T, error)
	// Delete deletes a thing. It is no error if there is none.
	Delete func(ctx context.Context, r Ref) error

	// Idempotent says that it is harmless to call Create again, because the target never
	// has two things of one name or token. Without it, a Create that was not answered is
	// repeated only when it can no longer take effect: see Settle.
	Idempotent bool
	// Settle is the time after which a call that was sent can no longer take effect, if it
	// has not yet, and after which Observe shows a thing whose creation was answered. Default:
	// one minute.
	Settle time.Duration
	// Poll is the time after which a thing that is ready is observed again, to find the
	// changes of others. Up to a tenth is added at random. Default: 5 minutes.
	// A thing that is not ready is observed more often: after 2 s at first, and then after a
	// quarter of the time for which it has not been ready.
	Poll time.Duration
	// Next returns the time after which a thing that is ready is observed again if that is less
	// than Poll, such as the rest of its life; at least 2 s. Zero means Poll, as does no Next.
	Next func(is *T) time.Duration

	// Adopt reports whether a thing that was found is the owner's, although no creation of it
	// was answered: it existed before, or somebody else may have made it meanwhile. A thing that
	// is not the owner's is neither changed nor deleted, and the error of the node wraps
	// [kube.ErrTaken].
	//
	// After a creation that was not answered, a thing is the owner's in any case if its name or
	// one of its texts, such as a tag, has the Token of the [Ref] or the owner's uid. So a target
	// that can store the Token should, and T should show it. Otherwise Adopt decides. Without
	// Adopt, a thing is the owner's only after a creation that was not answered, if all values
	// that were sent are there, and at least one besides the name, or nothing else. That is no
	// proof: somebody else may have made the same thing in that time. A process that has not seen
	// what was sent cannot tell. It deletes no such thing, and the deletion is an error.
	Adopt func(r Ref, is *T) bool
	// Outcome returns the part of a created thing that must not be lost, such as a password
	// or an id that the target has given. It is recorded before any node that needs this one
	// is built, and is in each later [Ref]. It returns nil for a thing that does not show its
	// outcome yet, or no longer does. Without an outcome a thing is not ready.
	Outcome func(is *T) map[string]string
	// Keep is where outcomes are recorded. Default: the owner's status. See [InSecret].
	Keep Keeper

	own   Target // is used if Target is nil
	mu    sync.Mutex
	known map[sightKey]*sight[T]
	tells atomic.Bool // the things show the tokens of their creations
	// holders are the owners of this process that have a thing or create it, by its name.
	holders map[string]holder
}

// ErrRefused is wrapped by the error of a function Create if the thing was certainly not
// made. Then there is no uncertainty, and Create may be called again.
var ErrRefused = errors.New("refused")

// Ref identifies a thing for the functions of [Things].
type Ref struct {
	// Name is that of the thing: see [Things.Name].
	Name string
	// Token is a random text that is recorded before Create is called, and is the same when
	// a Create that was not answered is repeated. Targets that know idempotency tokens or
	// tags can find the thing by it.
	Token string
	// Owner is the uid of the owner.
	Owner types.UID
	// Outcome is that of the thing: see [Things.Outcome]. It must not be changed.
	Outcome map[string]string
}

// ThingStatus tells about a thing outside the cluster.
type ThingStatus struct {
	// Token is the Ref's.
	Token string `json:"token,omitempty"`
	// Called is when the last creation was about to begin. It is unset if all creations
	// were answered.
	Called metav1.Time `json:"called,omitzero"`
	// Made says that the thing was there.
	Made bool `json:"made,omitempty"`
	// Answered is when the last creation was answered. For some time the target may not show
	// the thing.
	Answered metav1.Time `json:"answered,omitzero"`
	// Outcome is the thing's, unless it is kept elsewhere.
	Outcome map[string]string `json:"outcome,omitempty"`
	// Kept says that the outcome was kept elsewhere: see [Things.Keep].
	Kept bool `json:"kept,omitempty"`
}

// intend notes that a creation begins.
func (t *ThingStatus) intend(now time.Time) {
	if t.Token == "" || t.Made {
		*t = ThingStatus{Token: rand.Text()}
	}
	t.Called = calledAt(now)
}

// calledAt returns the time to record for a creation that is about to begin, or has just
// been answered.
func calledAt(now time.Time) metav1.Time {
	return metav1.NewTime(now.Truncate(time.Second).Add(time.Second))
}

// ours reports that the thing is the owner's if it exists.
func (t *ThingStatus) ours() bool { return t.Made || !t.Called.IsZero() }

// uncertain reports that a creation was not answered.
func (t *ThingStatus) uncertain() bool { return !t.Made && !t.Called.IsZero() }

// unmade reports that the record is of a thing that was not found yet.
func (s *NodeStatus) unmade() bool { return s.Thing != nil && !s.Thing.Made }

// AnyThings is a [Things] of any type.
type AnyThings interface {
	kindOf() string
	wrong() error
	// remove deletes a recorded thing.
	remove(ctx context.Context, p *Plan, s NodeStatus) removal
	// release leaves a recorded thing to others.
	release(ctx context.Context, p *Plan, s NodeStatus) removal
	// letGo ends the claim of a plan's owner to the name of a thing that was not made.
	letGo(p *Plan, s NodeStatus)
	// inDoubt reports that a creation which was not answered may still take effect.
	inDoubt(s *ThingStatus, now time.Time) bool
}

// Knows tells the plan of things that earlier descriptions had, so that it can delete
// them. A plan knows the things of its own steps.
func (p *Plan) Knows(all ...AnyThings) {
	for _, t := range all {
		if err := t.wrong(); err != nil {
			p.wrong(fmt.Errorf("describe things of kind %q: %w", t.kindOf(), err))
		}
		is := p.things[t.kindOf()]
		if is != nil && is != t {
			p.wrong(fmt.Errorf("%w: two Things have the kind %q", errGraph, t.kindOf()))
		}
		if p.things == nil {
			p.things = make(map[string]AnyThings)
		}
		if is == nil {
			p.things[t.kindOf()] = t
		}
	}
}

func (t *Things[T]) kindOf() string { return t.Kind }

func (t *Things[T]) wrong() error {
	switch {
	case t.Kind == "":
		return fmt.Errorf("%w: Kind is empty", errGraph)
	case t.Observe == nil, t.Create == nil, t.Delete == nil:
		return fmt.Errorf("%w: Observe, Create and Delete are required", errGraph)
	case t.Update != nil && t.Differs == nil:
		return fmt.Errorf("%w: Update is never called without Differs", errGraph)
	}
	return nil
}

func (t *Things[T]) target() *Target {
	if t.Target != nil {
		return t.Target
	}
	return &t.own
}

func (t *Things[T]) inDoubt(s *ThingStatus, now time.Time) bool {
	return !s.Called.IsZero() && now.Before(t.doubtUntil(s))
}

// doubtUntil returns when a creation that was not answered can no longer take effect.
func (t *Things[T]) doubtUntil(s *ThingStatus) time.Time {
	return s.Called.Add(t.doubtLasts())
}

func (t *Things[T]) doubtLasts() time.Duration {
	return t.target().timeout() + cmp.Or(t.Settle, time.Minute)
}

// isHidden reports that a thing was created so recently that the target need not show it.
func (t *Things[T]) isHidden(s *ThingStatus, now time.Time) bool {
	return s.Made && !s.Answered.IsZero() && now.Before(t.hiddenUntil(s))
}

// hiddenUntil returns when the target shows a thing whose creation was answered.
func (t *Things[T]) hiddenUntil(s *ThingStatus) time.Time {
	return s.Answered.Add(cmp.Or(t.Settle, time.Minute))
}

func (t *Things[T]) differs(is, want *T) bool { return t.Update != nil && t.Differs(is, want) }

func (t *Things[T]) observe(ctx context.Context, ref Ref) (*T, error) {
	is, err := call(ctx, t.target(), func(ctx context.Context) (*T, error) { return t.Observe(ctx, ref) })
	if err != nil {
		return nil, fmt.Errorf("observe %s %s: %w", t.Kind, ref.Name, err)
	}
	return is, nil
}

func (t *Things[T]) delete(ctx context.Context, ref Ref) error {
	err := gate.Open(ctx)
	if err == nil {
		_, err = call(ctx, t.target(), func(ctx context.Context) (*T, error) { return nil, t.Delete(ctx, ref) })
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", t.Kind, ref.Name, err)
	}
	return nil
}

// ref identifies a recorded thing for the functions. It also returns how the outcome is kept.
func (t *Things[T]) ref(ctx context.Context, p *Plan, s NodeStatus) (ref Ref, k kept, err error) {
	ref = Ref{Name: s.ObjectName, Token: s.Thing.Token, Owner: p.owner.GetUID(), Outcome: s.Thing.Outcome}
	if t.Keep == nil || t.Outcome == nil {
		return ref, kept{right: true}, nil
	}
	k, err = t.Keep.load(ctx, p, s)
	if err != nil || len(k.outcome) == 0 {
		return ref, k, err // an earlier release may have kept it in the status
	}
	ref.Outcome, ref.Token = k.outcome, k.token
	return ref, k, nil
}

// release leaves a thing and its outcome to others.
func (t *Things[T]) release(ctx context.Context, p *Plan, s NodeStatus) removal {
	t.forget(p.sightOf(s))
	if keep := t.keeper(s.Thing); keep != nil {
		return removal{err: keep.release(ctx, p, s)}
	}
	return removal{}
}

// keeper returns where the outcome of a thing may be; nil: only in the status. The release that
// made the thing may have kept it in a Secret.
func (t *Things[T]) keeper(s *ThingStatus) Keeper {
	switch {
	case t.Keep != nil && t.Outcome != nil:
		return t.Keep
	case s.Kept:
		return inSecret{}
	}
	return nil
}

// remove deletes a recorded thing. As long as it is uncertain whether the thing was
// created, it may appear after it was deleted. The same holds for a thing that was created
// a moment ago, unless the target shows it before. Meanwhile no other owner of this process makes
// one of the name. What was found in doubt, may be of a later owner, or has another owner is deleted
// only if something says that it is the owner's.
func (t *Things[T]) remove(ctx context.Context, p *Plan, s NodeStatus) (out removal) {
	key := p.sightOf(s)
	if !s.Thing.ours() {
		return t.dropped(ctx, p, s) // it may hold the name for a creation that was refused
	}
	begun, calls := time.Now(), 1
	hidden := t.isHidden(s.Thing, begun)
	last := t.last(key)
	ended := last != nil && last.ended
	held := t.hold(key)
	unsure := !held || s.Thing.uncertain() || ended
	observes := s.Undo == undoWait || t.inDoubt(s.Thing, begun)
	for _, more := range []bool{hidden || unsure, observes} {
		if more {
			calls++
		}
	}
	done, wait, err := t.target().turn(ctx, key, calls)
	switch {
	case err != nil:
		return removal{err: err}
	case done == nil:
		return removal{waits: "waiting for its turn to call " + t.target().String(), again: wait}
	}
	defer done()
	ref, k, err := t.ref(ctx, p, s)
	if err != nil {
		return removal{err: err}
	}
	leaves, lost := false, t.Outcome != nil && s.Thing.Kept && len(ref.Outcome) == 0
	if hidden || unsure || lost {
		is, err := t.observe(ctx, ref)
		if err != nil {
			return removal{err: err}
		}
		if leaves = unsure && is == nil; unsure && is != nil {
			of := t.whose(key, s.Thing, ref, k, is, nil)
			if leaves = of != ours; of == unknown && held && s.Thing.uncertain() && !ended {
				return removal{err: fmt.Errorf("delete %s %s: its creation was not answered, and nothing says whose this one is: "+
					"delete it in %s by hand, or have Adopt tell", t.Kind, ref.Name, t.target())}
			}
		}
		leaves = leaves || lost && is == nil
		shown := hidden && is != nil && !leaves
		hidden = hidden && is == nil
		if lost && is != nil && !leaves {
			if ref.Outcome = t.Outcome(is); len(ref.Outcome) == 0 {
				return removal{err: fmt.Errorf("delete %s %s: its outcome is lost, and it shows none: delete it in %s by hand",
					t.Kind, ref.Name, t.target())}
			}
		}
		defer func() { out.shown = shown }()
	}
	if !leaves {
		if last == nil {
			last = t.remember(key, nil, s.Thing.Token, nil)
		}
		last.asked = true
		if err := t.delete(ctx, ref); err != nil {
			return removal{err: err}
		}
	}
	if observes && !leaves {
		switch is, err := t.observe(ctx, ref); {
		case err != nil:
			return removal{err: err}
		case is != nil:
			return removal{waits: "it is still there"}
		}
		if seen := t.remember(key, nil, s.Thing.Token, nil); !hidden {
			seen.ended = true
			if !t.Idempotent {
				seen.sent = nil // no other one can appear
			}
		}
	}
	switch {
	case t.inDoubt(s.Thing, begun):
		return removal{waits: t.doubts(s.Thing)}
	case hidden:
		return removal{waits: t.hides(s.Thing)}
	}
	return t.dropped(ctx, p, s)
}

// dropped forgets a thing that is gone, and deletes its outcome or that of a former one of the name.
func (t *Things[T]) dropped(ctx context.Context, p *Plan, s NodeStatus) removal {
	if keep := t.keeper(s.Thing); keep != nil {
		if err := keep.drop(ctx, p, s); err != nil {
			return removal{err: err}
		}
	}
	t.forget(p.sightOf(s))
	return removal{}
}

// doubts is the message of a thing that may appear yet. It does not change from reconcile
// to reconcile.
func (t *Things[T]) doubts(s *ThingStatus) string {
	return "its creation was not answered, and may take effect until " + t.doubtUntil(s).UTC().Format(time.RFC3339)
}

// hides is the message of a thing that the target does not show yet.
func (t *Things[T]) hides(s *ThingStatus) string {
	return "it was created, and the target does not show it; that is possible until " +
		t.hiddenUntil(s).UTC().Format(time.RFC3339)
}
