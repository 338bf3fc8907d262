package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/state"
)

// An Ownership says which process a cluster belongs to. It is empty for a cluster that
// belongs to none.
type Ownership struct {
	Owner process.Identity `json:"owner,omitzero"`

	// Keep is the time that the cluster stays after its owner has ended. Meanwhile it has no
	// objects but those of a new cluster, and another process can adopt it. If Keep is zero,
	// the cluster ends with its owner, and cannot be adopted.
	Keep time.Duration `json:"keep,omitempty"`
}

var (
	// ErrOwned reports that a cluster belongs to another process that runs.
	ErrOwned = errors.New("the cluster belongs to another process")

	// ErrEnding reports that a cluster cannot be adopted because it ends.
	ErrEnding = errors.New("the cluster ends")
)

// A tenure is the ownership of a cluster at a moment.
type tenure struct {
	Ownership
	since time.Time // the owner's end was seen then; zero while the owner runs
}

// An effect is a consequence of a tenure.
type effect string

const (
	stay  effect = "stay"
	empty effect = "empty" // delete the objects of the owner
	leave effect = "leave" // end the cluster
)

// next returns the consequence of the owner's state. A cluster that is not ready when its
// owner ends is of no use to the next one.
func (t tenure) next(alive, ready bool, now time.Time) effect {
	switch {
	case t.since.IsZero() && alive:
		return stay
	case t.since.IsZero() && ready && t.Keep > 0:
		return empty
	case t.since.IsZero() || now.Sub(t.since) >= t.Keep:
		return leave
	default:
		return stay
	}
}

// An adoption is a request to make another process the owner.
type adoption struct {
	by   Ownership
	done chan error
}

// watchOwner ends the cluster when its time is over. It owns the tenure.
func (s *supervisor) watchOwner(ctx context.Context) {
	defer close(s.unowned)
	t := tenure{Ownership: s.Ownership}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		// The cluster ends.
		case <-ctx.Done():
			return

		// The owner may have ended, or the cluster was kept long enough.
		case <-tick.C:
			s.settle(ctx, &t)

		// Another process wants the cluster.
		case a := <-s.adoptions:
			s.settle(ctx, &t)
			a.done <- s.adopt(ctx, &t, a.by)
		}
	}
}

// settle brings the cluster into the state that its tenure asks for.
func (s *supervisor) settle(ctx context.Context, t *tenure) {
	switch t.next(t.Owner.Alive(), s.is(Ready), time.Now()) {
	case stay:
	case leave:
		s.Log.Info("the process that owned the cluster has ended", "pid", t.Owner.PID, "kept", t.Keep)
		s.stop()
	case empty:
		s.Log.Info("the process that owns the cluster has ended: the cluster is kept", "pid", t.Owner.PID, "for", t.Keep)
		t.since = time.Now()
		ctx, cancel := context.WithTimeout(ctx, emptyLimit)
		defer cancel()
		if err := s.probe.empty(ctx, s.fresh); err != nil {
			s.Log.Error("the cluster is not kept", "error", err)
			s.stop()
		}
	}
}

// emptyLimit is the longest time that the deletion of an owner's objects may take. It
// needs some milliseconds.
const emptyLimit = 30 * time.Second

// adopt makes another process the owner. The owner itself may change the time.
func (s *supervisor) adopt(ctx context.Context, t *tenure, by Ownership) error {
	switch {
	case ctx.Err() != nil || !s.is(Ready):
		return ErrEnding
	case t.since.IsZero() && t.Owner != by.Owner:
		return ErrOwned
	}
	if !t.since.IsZero() {
		if err := s.sound(ctx); err != nil {
			s.Log.Error("the cluster cannot be used again", "error", err)
			s.stop()
			return fmt.Errorf("%w: %w", ErrEnding, err)
		}
	}
	if err := s.note(func(r *state.Record) { r.Owner = by.Owner }); err != nil {
		return err
	}
	*t = tenure{Ownership: by}
	return nil
}

// sound returns an error if the cluster has suffered since it was started.
func (s *supervisor) sound(ctx context.Context) error {
	if _, err := os.Stat(s.Dir.Kubeconfig()); err != nil {
		return err
	}
	for _, c := range s.components {
		if !c.is(running) {
			return fmt.Errorf("%s does not run", c.Spec.Name)
		}
		if err := s.probe.check(ctx, c.ReadyAgain); err != nil {
			return fmt.Errorf("%s is not ready: %w", c.Spec.Name, err)
		}
	}
	return nil
}

// requestAdoption is adopt for other goroutines.
func (s *supervisor) requestAdoption(ctx context.Context, by Ownership) error {
	if s.Keep == 0 || by.Keep == 0 {
		return ErrOwned
	}
	a := adoption{by: by, done: make(chan error, 1)}
	select {
	case s.adoptions <- a:
		return <-a.done
	case <-s.unowned:
		return ErrEnding
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
