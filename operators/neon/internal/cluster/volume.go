package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// volume is the operator's view of a safekeeper's volume.
type volume struct {
	// missing is a timeline that should be on it and is not, empty if there is none.
	missing string
	// emptied says that a timeline has been missing for so long that nobody will copy it.
	emptied bool
}

// emptiedAfter is the time after which a timeline that is missing stays so. The storage controller
// lets a safekeeper that was away when a timeline was made copy it within a minute.
const emptiedAfter = 3 * time.Minute

// suspicions has the times since when timelines are missing, by the names of safekeepers.
type suspicions struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// lasts reports for how long a safekeeper has been suspected. Without a suspicion it is cleared.
func (s *suspicions) lasts(name string, suspected bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !suspected {
		delete(s.since, name)
		return 0
	}
	if s.since == nil {
		s.since = map[string]time.Time{}
	}
	if _, known := s.since[name]; !known {
		s.since[name] = time.Now()
	}
	return time.Since(s.since[name])
}

// lookAtVolume compares the timelines that a safekeeper has with those that it should have. A
// safekeeper with an emptied volume says that all is well, and so does the storage controller:
// its timelines have one copy less, for ever.
//
// The branches tell which timelines a safekeeper should have, and a single request how many it
// has. Timelines without a NeonBranch do not count.
func (op *Operator) lookAtVolume(ctx context.Context, sc *upstream.Controller, cluster kube.Key, id int64) (volume, error) {
	name := (&member[struct{}]{cluster: cluster, id: id}).name()
	branches, err := op.branchesOn(ctx, cluster, id)
	if err != nil {
		return volume{}, err
	}
	missing, err := op.missing(ctx, sc, cluster, id, branches)
	if err != nil {
		return volume{}, err
	}
	limit := emptiedAfter
	if op.EmptiedAfter > 0 {
		limit = op.EmptiedAfter
	}
	lasts := op.suspicions.lasts(name, missing != "")
	return volume{missing: missing, emptied: missing != "" && lasts >= limit}, nil
}

// missing returns a timeline that a safekeeper should have and has not.
func (op *Operator) missing(
	ctx context.Context, sc *upstream.Controller, cluster kube.Key, id int64, branches []*api.NeonBranch,
) (string, error) {
	if len(branches) == 0 {
		return "", nil
	}
	keeper, err := op.Clients.Safekeeper(ctx, cluster, id)
	if err != nil {
		return "", err
	}
	has, err := keeper.TimelineCount(ctx)
	if err != nil || has >= len(branches) {
		return "", nil //nolint:nilerr // a safekeeper that does not answer is not judged: its pod says why
	}
	for _, b := range branches {
		if _, err := keeper.Timeline(ctx, b.Status.TenantID, b.Status.TimelineID); !upstream.IsNotFound(err) {
			continue
		}
		at, err := sc.Locate(ctx, b.Status.TenantID, b.Status.TimelineID)
		switch {
		case upstream.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("locate timeline %s: %w", b.Status.TimelineID, err)
		case slices.Contains(at.Set, id) && len(at.NewSet) == 0:
			return b.Status.TenantID + "/" + b.Status.TimelineID, nil
		}
	}
	return "", nil
}

// branchesOn returns the branches of a cluster whose timelines are on a safekeeper.
func (op *Operator) branchesOn(ctx context.Context, cluster kube.Key, id int64) ([]*api.NeonBranch, error) {
	all, err := op.branches(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(b *api.NeonBranch) bool { return !slices.Contains(b.Status.Safekeepers, id) }), nil
}

// branches returns the branches of a cluster that have a timeline.
func (op *Operator) branches(ctx context.Context, cluster kube.Key) (all []*api.NeonBranch, err error) {
	of := map[string]bool{}
	for p, err := range op.byCluster.Get(ctx, cluster) {
		if err != nil {
			return nil, err
		}
		of[p.Name] = true
	}
	if len(of) == 0 {
		return nil, nil
	}
	for b, err := range op.Branches.In(cluster.Namespace).Cached().All(ctx) {
		if err != nil {
			return nil, err
		}
		if of[b.Spec.Project] && b.DeletionTimestamp == nil && b.Status.TenantID != "" && b.Status.TimelineID != "" {
			all = append(all, b)
		}
	}
	return all, nil
}
