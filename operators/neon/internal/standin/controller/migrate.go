package controller

import (
	"context"
	"net/http"
	"slices"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// migrateTimeline moves a timeline to another set of safekeepers, by way of a joint set. The control
// plane hears of each generation. A repeat goes on with a migration that has failed half-way.
func (c *Controller) migrateTimeline(r *http.Request) (wire.Answer, error) {
	var body struct {
		Set []int64 `json:"new_sk_set"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	t, err := c.findTimeline(r)
	if err != nil {
		return wire.Answer{}, err
	}
	if err := c.maySet(body.Set); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	old := slices.Clone(t.Set)
	if t.NewSet != nil && !slices.Equal(t.NewSet, body.Set) { // the order counts, as in the real program
		err = wire.Conflict("the timeline is already migrating to a different safekeeper set: %v", t.NewSet)
	}
	under := t.NewSet != nil
	same := !under && slices.Equal(slices.Sorted(slices.Values(old)), slices.Sorted(slices.Values(body.Set)))
	c.mu.Unlock()
	if same || err != nil {
		return wire.OK(nil), err
	}
	if !under {
		if err := c.setMembership(r.Context(), t, old, nil); err != nil {
			return wire.Answer{}, err
		}
		if err := c.tellKeepers(r.Context(), t, old); err != nil {
			return wire.Answer{}, err
		}
	}

	// The joint set: both must hold all writes.
	joint := slices.Clone(old)
	for _, id := range body.Set {
		if !slices.Contains(joint, id) {
			joint = append(joint, id)
		}
	}
	if !under {
		if err := c.advance(r.Context(), t, old, body.Set); err != nil {
			return wire.Answer{}, err
		}
	}
	if err := c.setMembership(r.Context(), t, old, body.Set); err != nil {
		return wire.Answer{}, err
	}
	if err := c.tellKeepers(r.Context(), t, joint); err != nil {
		return wire.Answer{}, err
	}
	if failed := c.pull(r.Context(), t, body.Set, joint); len(failed) > 0 {
		if err := quorum(body.Set, failed); err != nil {
			return wire.Answer{}, err
		}
	}

	// The new set alone.
	if err := c.advance(r.Context(), t, body.Set, nil); err != nil {
		return wire.Answer{}, err
	}
	if err := c.setMembership(r.Context(), t, body.Set, nil); err != nil {
		return wire.Answer{}, err
	}
	if err := c.tellKeepers(r.Context(), t, body.Set); err != nil {
		return wire.Answer{}, err
	}
	left := slices.DeleteFunc(old, func(id int64) bool { return slices.Contains(body.Set, id) })
	// A safekeeper that is down keeps its copy: nobody asks it any more.
	c.onEach(r.Context(), left, http.MethodDelete, "/v1/tenant/"+t.Tenant+"/timeline/"+t.ID, nil)
	return wire.OK(nil), nil
}

// abortMigration goes back to the old set.
func (c *Controller) abortMigration(r *http.Request) (wire.Answer, error) {
	t, err := c.findTimeline(r)
	if err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	old, under := slices.Clone(t.Set), t.NewSet != nil
	c.mu.Unlock()
	if err := c.setMembership(r.Context(), t, old, nil); err != nil {
		return wire.Answer{}, err
	}
	if !under {
		return wire.OK(nil), nil
	}
	if err := c.advance(r.Context(), t, old, nil); err != nil {
		return wire.Answer{}, err
	}
	if err := c.setMembership(r.Context(), t, old, nil); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(nil), c.tellKeepers(r.Context(), t, old)
}

// maySet says why a set of safekeepers cannot be had.
func (c *Controller) maySet(set []int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(set) == 0 {
		return wire.BadRequest("new safekeeper set is empty")
	}
	zones := map[string]bool{}
	for _, id := range set {
		k := c.keepers[id]
		if k == nil {
			return wire.BadRequest("safekeeper %d does not exist", id)
		}
		if zones[k.Zone] {
			return wire.BadRequest("safekeepers %v are not in different AZs", set)
		}
		zones[k.Zone] = true
	}
	return nil
}

func (c *Controller) advance(ctx context.Context, t *timeline, set, next []int64) error {
	c.mu.Lock()
	t.Generation++
	t.Set, t.NewSet, t.Missing = slices.Clone(set), slices.Clone(next), nil
	c.mu.Unlock()
	return c.saveTimeline(ctx, t)
}

// setMembership tells a set of safekeepers its generation. A quorum must hear of it. Those that
// do not hold the timeline do not count.
func (c *Controller) setMembership(ctx context.Context, t *timeline, set, next []int64) error {
	c.mu.Lock()
	m := safekeeper.Membership{Generation: t.Generation, Members: c.members(set)}
	if next != nil {
		m.NewMembers = c.members(next)
	}
	c.mu.Unlock()
	body := map[string]any{"mconf": m}
	failed := c.onEach(ctx, set, http.MethodPut, "/v1/tenant/"+t.Tenant+"/timeline/"+t.ID+"/membership", body)
	return quorum(set, failed)
}

// tellKeepers calls the hook, unless the control plane knows of the generation.
func (c *Controller) tellKeepers(ctx context.Context, t *timeline, set []int64) error {
	c.mu.Lock()
	told := t.Told >= t.Generation
	c.mu.Unlock()
	if told {
		return nil
	}
	return c.notifyKeepers(ctx, t, set)
}

// pull makes safekeepers copy a timeline from others, and returns those that failed.
func (c *Controller) pull(ctx context.Context, t *timeline, to, from []int64) []int64 {
	c.mu.Lock()
	body := safekeeper.Pull{Tenant: t.Tenant, Timeline: t.ID}
	for _, id := range from {
		if k := c.keepers[id]; k != nil {
			body.Hosts = append(body.Hosts, k.url(c.SafekeepersByTLS))
		}
	}
	c.mu.Unlock()
	return c.onEach(ctx, to, http.MethodPost, "/v1/pull_timeline", body)
}
