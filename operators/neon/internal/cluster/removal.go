package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// removalLimit is the time that a pageserver may take to hand its data to others when it is
// removed. Then the removal is begun again, by force.
const removalLimit = 15 * time.Minute

// removals has the times at which removals were begun by force, by the names of pageservers.
type removals struct {
	mu     sync.Mutex
	forced map[string]time.Time
}

// lately reports whether a removal was begun by force within the limit. It is begun once more
// after an operator that has ended: that harms nothing.
func (r *removals) lately(name string, limit time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.forced[name]) < limit
}

func (r *removals) force(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forced == nil {
		r.forced = map[string]time.Time{}
	}
	r.forced[name] = time.Now()
}

// removal is the removal of a pageserver.
type removal struct {
	name   string // of the thing
	begun  time.Time
	limit  time.Duration
	alive  func(context.Context) error // an error if the pageserver does not answer
	forced *removals
}

// remove begins to remove a pageserver, or goes on. Its data moves to the others first.
//
// A pageserver that has just died is left alone until it answers, or until the storage
// controller says that it is Offline: the storage controller can panic otherwise.
//
// A removal does not end while the data has no other place. When that lasts too long it is
// cancelled, and begun again by force, unless no other pageserver could serve the data then.
func (r removal) remove(ctx context.Context, sc *upstream.Controller, id int64) error {
	is, err := sc.Node(ctx, id)
	late := time.Since(r.begun) >= r.limit
	switch {
	case upstream.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case is.Scheduling == upstream.ScheduleDeleting && (!late || r.forced.lately(r.name, r.limit)):
		return nil
	case is.Scheduling == upstream.ScheduleDeleting:
		// The storage controller goes back to Active soon, and is asked again then.
		return sc.CancelDeleteNode(ctx, id)
	}
	switch is.Availability {
	case upstream.NodeOffline:
	case upstream.NodeActive:
		if err := r.alive(ctx); err != nil {
			return fmt.Errorf("pageserver %d does not answer: it is removed when it does, or is Offline: %w", id, err)
		}
	default:
		return fmt.Errorf("pageserver %d is %s: it is removed when it is Active or Offline", id, is.Availability)
	}
	if late && is.Availability == upstream.NodeActive {
		if err := replaceable(ctx, sc, id); err != nil {
			return err
		}
	}
	if late {
		if err := sc.ForceDeleteNode(ctx, id); err != nil {
			return err
		}
		r.forced.force(r.name)
		return nil
	}
	return sc.DeleteNode(ctx, id)
}

// replaceable returns an error if no other pageserver can take the data of one that serves it.
func replaceable(ctx context.Context, sc *upstream.Controller, id int64) error {
	all, err := sc.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.ID != id && n.Availability == upstream.NodeActive && n.Scheduling != upstream.ScheduleDeleting {
			return nil
		}
	}
	return fmt.Errorf("pageserver %d is the only one that is Active: it is removed when another one is", id)
}

// removalOf describes the removal of a pageserver.
func (op *Operator) removalOf(ctx context.Context, cluster kube.Key, id int64, name string) (removal, error) {
	c, err := op.Clusters.In(cluster.Namespace).Cached().Get(ctx, cluster.Name)
	if err != nil {
		return removal{}, err
	}
	r := removal{name: name, begun: time.Now(), limit: removalLimit, forced: &op.removals}
	if op.RemovalLimit > 0 {
		r.limit = op.RemovalLimit
	}
	for _, m := range c.Status.Pageservers {
		if m.ID == id && !m.Leaving.IsZero() {
			r.begun = m.Leaving.Time
		}
	}
	r.alive = func(ctx context.Context) error {
		p, err := op.Clients.Pageserver(ctx, cluster, id)
		if err != nil {
			return err
		}
		is, err := p.ID(ctx)
		if err == nil && is != id {
			err = fmt.Errorf("it says that it is pageserver %d", is)
		}
		return err
	}
	return r, nil
}
