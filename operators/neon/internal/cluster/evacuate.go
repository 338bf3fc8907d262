package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// evacuation moves the timelines of a safekeeper that leaves to others, as a thing of the plan.
type evacuation struct {
	cluster kube.Key
	id      int64
	leaving []int64 // the safekeepers that leave, this one among them
	// done says that the storage controller has no timeline on the safekeeper.
	done    bool
	moved   int
	left    int    // timelines to look at
	failure string // of the last try
}

func (e *evacuation) String() string {
	text := fmt.Sprintf("safekeeper %d: %d timelines moved, %d to look at", e.id, e.moved, e.left)
	if e.failure != "" {
		text += ": " + e.failure
	}
	return text
}

// timelineKey identifies a timeline.
type timelineKey struct{ tenant, timeline string }

func (k timelineKey) String() string { return k.tenant + "/" + k.timeline }

// search is how far the evacuation of a safekeeper has come. It is begun again when the operator
// is: that costs time and harms nothing.
type search struct {
	todo   []timelineKey
	listed bool
	// clean says that the list was made after the last timeline was found on the safekeeper.
	clean   bool
	paused  bool
	moved   int
	failure string
	done    bool
}

// searches has the evacuations that are under way, by their names.
type searches struct {
	mu  sync.Mutex
	all map[string]search
}

func (s *searches) get(name string) search {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func (s *searches) set(name string, one search) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]search{}
	}
	s.all[name] = one
}

func (s *searches) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// evacuationSlice is the time after which an evacuation lets others have their turn.
const evacuationSlice = 5 * time.Second

// evacuations moves the timelines of safekeepers that leave.
func (op *Operator) evacuations() *plan.Things[evacuation] {
	seen := func(cluster kube.Key, id int64, s search) *evacuation {
		return &evacuation{cluster: cluster, id: id, done: s.done, moved: s.moved, left: len(s.todo), failure: s.failure}
	}
	return &plan.Things[evacuation]{
		Kind:   "Evacuation",
		Target: op.controllerTarget,
		Name:   func(e *evacuation) string { return (&member[struct{}]{cluster: e.cluster, id: e.id}).name() },
		Observe: func(ctx context.Context, r plan.Ref) (*evacuation, error) {
			sc, cluster, id, err := op.memberOf(ctx, r)
			if err != nil || sc == nil {
				return nil, err
			}
			return seen(cluster, id, op.searches.get(r.Name)), nil
		},
		Create: func(context.Context, plan.Ref, *evacuation) (*evacuation, error) {
			return nil, fmt.Errorf("%w: the cluster is being deleted", plan.ErrRefused)
		},
		Differs: func(is, _ *evacuation) bool { return !is.done },
		Update: func(ctx context.Context, r plan.Ref, _, want *evacuation) (*evacuation, error) {
			s := op.searches.get(r.Name)
			sc, err := op.Clients.Controller(ctx, want.cluster)
			if err == nil {
				err = s.goOn(ctx, sc, want, time.Now().Add(evacuationSlice))
			}
			s.failure = ""
			if err != nil {
				s.failure = err.Error() // it is tried again, and the condition says so
			}
			op.searches.set(r.Name, s)
			return seen(want.cluster, want.id, s), nil
		},
		Delete: func(_ context.Context, r plan.Ref) error {
			op.searches.forget(r.Name)
			return nil
		},
		Idempotent: true,
		Adopt:      func(plan.Ref, *evacuation) bool { return true },
		Poll:       5 * time.Second,
	}
}

func evacuationReady(e *evacuation) ready.State {
	if e.done {
		return ready.State{Phase: ready.Ready}
	}
	return ready.State{Phase: ready.Waiting, Message: e.String()}
}

// goOn moves timelines until all are moved, one fails, or the time is over. A safekeeper is
// done when a whole search, which began when it got no more timelines, has found none on it.
func (s *search) goOn(ctx context.Context, sc *upstream.Controller, e *evacuation, until time.Time) error {
	if !s.paused {
		if err := pause(ctx, sc, e.id); err != nil {
			return err
		}
		s.paused = true
	}
	registered, err := sc.Registrations(ctx)
	if err != nil {
		return fmt.Errorf("list safekeepers: %w", err)
	}
	for !s.done {
		if len(s.todo) == 0 {
			if s.done = s.listed && s.clean; s.done {
				return nil
			}
			if s.todo, err = allTimelines(ctx, sc); err != nil {
				return err
			}
			s.listed, s.clean = true, true
			if len(s.todo) == 0 {
				continue
			}
		}
		if time.Now().After(until) {
			return nil
		}
		t := s.todo[0]
		found, err := moveOff(ctx, sc, t, e.leaving, registered)
		if found {
			s.clean = false
		}
		if err != nil {
			s.clean = false
			s.todo = append(slices.Clone(s.todo[1:]), t) // others may succeed
			return fmt.Errorf("move timeline %s: %w", t, err)
		}
		if found {
			s.moved++
		}
		s.todo = s.todo[1:]
	}
	return nil
}

// pause stops the storage controller from putting more timelines on a safekeeper.
func pause(ctx context.Context, sc *upstream.Controller, id int64) error {
	is, err := sc.Registration(ctx, id)
	switch {
	case upstream.IsNotFound(err):
		return nil // it was never registered
	case err != nil:
		return fmt.Errorf("pause safekeeper %d: %w", id, err)
	case is.Policy != upstream.SafekeeperActive && is.Policy != upstream.SafekeeperActivating:
		return nil // it is paused, or decommissioned, which later versions spell in another way
	}
	if err := sc.SetSafekeeperPolicy(ctx, id, upstream.SafekeeperPause); err != nil {
		return fmt.Errorf("pause safekeeper %d: %w", id, err)
	}
	return nil
}

// allTimelines returns the timelines of all tenants, those that are archived among them.
func allTimelines(ctx context.Context, sc *upstream.Controller) (all []timelineKey, err error) {
	tenants, err := sc.Tenants(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	for _, t := range tenants {
		here, offloaded, err := sc.TimelinesAndOffloaded(ctx, t.ID)
		switch {
		case upstream.IsNotFound(err):
			continue // it was deleted meanwhile
		case err != nil:
			return nil, fmt.Errorf("list timelines of tenant %s: %w", t.ID, err)
		}
		for _, one := range here {
			all = append(all, timelineKey{t.ID, one.ID})
		}
		for _, one := range offloaded {
			all = append(all, timelineKey{t.ID, one.ID})
		}
	}
	return all, nil
}

// moveOff moves a timeline off safekeepers that leave, and reports whether it was on one.
func moveOff(
	ctx context.Context, sc *upstream.Controller, t timelineKey, leaving []int64, registered []upstream.Registration,
) (found bool, err error) {
	at, err := sc.Locate(ctx, t.tenant, t.timeline)
	if upstream.IsNotFound(err) {
		return false, nil // it needs no safekeepers, or is being deleted
	}
	if err != nil {
		return false, err
	}
	leaves := func(id int64) bool { return slices.Contains(leaving, id) }
	if !slices.ContainsFunc(at.Set, leaves) && !slices.ContainsFunc(at.NewSet, leaves) {
		return false, nil
	}
	if slices.ContainsFunc(at.NewSet, leaves) {
		err := sc.AbortSafekeeperMigration(ctx, t.tenant, t.timeline)
		if upstream.IsNotFound(err) {
			// A storage controller from before August 2025 cannot. The next round moves the timeline on
			// from its goal.
			return true, sc.MigrateSafekeepers(ctx, t.tenant, t.timeline, at.NewSet)
		}
		if err != nil {
			return true, err
		}
		if at, err = sc.Locate(ctx, t.tenant, t.timeline); err != nil {
			return true, err
		}
		if !slices.ContainsFunc(at.Set, leaves) {
			return true, nil
		}
	}
	// The storage controller refuses another set than that of a migration which is under way.
	set := at.NewSet
	if len(set) == 0 {
		if set, err = newSet(at.Set, leaving, registered); err != nil {
			return true, err
		}
	}
	return true, sc.MigrateSafekeepers(ctx, t.tenant, t.timeline, set)
}

// newSet returns the safekeepers of a timeline when some leave: those that stay, and active ones
// in zones of their own.
func newSet(is, leaving []int64, registered []upstream.Registration) ([]int64, error) {
	var set []int64
	zones := map[string]bool{}
	for _, r := range registered {
		if slices.Contains(is, r.ID) && !slices.Contains(leaving, r.ID) {
			set = append(set, r.ID)
			zones[r.Zone] = true
		}
	}
	// By turns, so that the timelines of one safekeeper do not all go to one other.
	first := 0
	if len(registered) > 0 {
		for _, id := range is {
			first += int(id % int64(len(registered)))
		}
		first %= len(registered)
	}
	for i := range registered {
		r := registered[(first+i)%len(registered)]
		free := r.Policy == upstream.SafekeeperActive && !slices.Contains(leaving, r.ID) && !zones[r.Zone]
		if len(set) < max(timelineZones, len(is)) && free {
			set = append(set, r.ID)
			zones[r.Zone] = true
		}
	}
	if len(set) < timelineZones {
		return nil, errNoSafekeeper
	}
	slices.Sort(set)
	return set, nil
}

var errNoSafekeeper = errors.New("no active safekeeper is in another zone: it waits for one")
