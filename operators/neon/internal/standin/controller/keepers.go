package controller

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func (c *Controller) listKeepers(*http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(sorted(c.keepers)), nil
}

func (c *Controller) keeper(r *http.Request) (*keeper, error) {
	id, err := pathID(r, "keeper")
	if err != nil {
		return nil, err
	}
	if k := c.keepers[id]; k != nil {
		return k, nil
	}
	return nil, wire.NotFound("unknown node id %d", id)
}

func (c *Controller) getKeeper(r *http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.keeper(r)
	if err != nil {
		return wire.Answer{}, err
	}
	return frozen(k), nil
}

// registerKeeper writes the request over the known registration, except the policy.
func (c *Controller) registerKeeper(r *http.Request) (wire.Answer, error) {
	var body struct {
		ID        int64  `json:"id"`
		Region    string `json:"region_id"`
		Version   int64  `json:"version"`
		Host      string `json:"host"`
		Port      int    `json:"port"`
		Active    *bool  `json:"active"`
		HTTPPort  int    `json:"http_port"`
		HTTPSPort *int   `json:"https_port"`
		Zone      string `json:"availability_zone_id"`
	}
	id, err := pathID(r, "keeper")
	if err != nil {
		return wire.Answer{}, err
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	if id != body.ID {
		return wire.Answer{}, wire.BadRequest("id mismatch: url=%d, body=%d", id, body.ID)
	}
	if id <= 0 {
		return wire.Answer{}, wire.BadRequest("id not allowed to be zero or negative: %d", id)
	}
	if c.SafekeepersByTLS && body.HTTPSPort == nil {
		return wire.Answer{}, wire.Errorf(http.StatusPreconditionFailed,
			"cannot upsert safekeeper %d: https is enabled, but https port is not specified", id)
	}
	c.mu.Lock()
	k := c.keepers[id]
	if k == nil {
		k = &keeper{}
		k.Policy = upstream.SafekeeperActivating
		c.keepers[id] = k
	}
	k.Registration = upstream.Registration{
		ID: id, Region: body.Region, Version: body.Version, Host: body.Host, Port: body.Port, HTTPPort: body.HTTPPort,
		Zone: body.Zone, Policy: k.Policy,
	}
	k.HTTPSPort = body.HTTPSPort
	c.mu.Unlock()
	return wire.Answer{Status: http.StatusNoContent}, c.saveKeeper(r.Context(), k)
}

func (c *Controller) saveKeeper(ctx context.Context, k *keeper) error {
	c.mu.Lock()
	body := wire.MustJSON(k)
	c.mu.Unlock()
	return c.store.put(ctx, "safekeepers", nodeKey(k.ID), body)
}

var policies = []upstream.SafekeeperPolicy{
	upstream.SafekeeperActive, upstream.SafekeeperActivating, upstream.SafekeeperPause, upstream.SafekeeperDecommissioned,
}

func (c *Controller) setKeeperPolicy(r *http.Request) (wire.Answer, error) {
	var body struct {
		Policy upstream.SafekeeperPolicy `json:"scheduling_policy"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	if !slices.Contains(policies, body.Policy) {
		return wire.Answer{}, wire.BadRequest("Failed to parse json request: scheduling_policy: unknown variant `%s`, "+
			"expected one of `%s`, `%s`, `%s`, `%s` at line 1 column %d",
			body.Policy, policies[0], policies[1], policies[2], policies[3], r.ContentLength-1)
	}
	c.mu.Lock()
	k, err := c.keeper(r)
	if err == nil {
		k.Policy = body.Policy
		// It gets no heartbeats, so it is not known to be online when it is taken back.
		k.online = k.online && k.Policy != upstream.SafekeeperDecommissioned
	}
	c.mu.Unlock()
	if err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(nil), c.saveKeeper(r.Context(), k)
}

// pickKeepers chooses safekeepers for a timeline: those that had the fewest timelines at the last
// heartbeat, each in a zone of its own.
func (c *Controller) pickKeepers() ([]int64, error) {
	active := slices.DeleteFunc(sorted(c.keepers), func(k *keeper) bool {
		return k.Policy != upstream.SafekeeperActive || !k.online
	})
	total := len(active)
	slices.SortStableFunc(active, func(a, b *keeper) int { return cmp.Compare(a.load, b.load) })
	zones := map[string]bool{}
	var set []int64
	for _, k := range active {
		if !zones[k.Zone] && len(set) < c.SafekeeperCount {
			zones[k.Zone] = true
			set = append(set, k.ID)
		}
	}
	if len(set) < c.SafekeeperCount {
		return nil, wire.Errorf(http.StatusInternalServerError,
			"couldn't find %d safekeepers in different AZs for new timeline (found: %d, total active: %d)", c.SafekeeperCount, len(set), total)
	}
	return set, nil
}

// members returns safekeepers in the form of a timeline's membership.
func (c *Controller) members(set []int64) []upstream.Member {
	members := []upstream.Member{}
	for _, id := range set {
		if k := c.keepers[id]; k != nil {
			members = append(members, upstream.Member{ID: id, Host: k.Host, Port: k.Port})
		}
	}
	return members
}

// onEach calls all safekeepers of a set, and returns those that failed.
func (c *Controller) onEach(ctx context.Context, set []int64, method, path string, body any) []int64 {
	var failed []int64
	for _, id := range set {
		c.mu.Lock()
		k := c.keepers[id]
		var url string
		if k != nil {
			url = k.url(c.SafekeepersByTLS)
		}
		c.mu.Unlock()
		if k == nil || c.client(c.SafekeeperToken).Do(ctx, method, url+path, body, nil) != nil {
			failed = append(failed, id)
		}
	}
	return failed
}

// quorum is an error unless more than half of a set has succeeded.
func quorum(set, failed []int64) error {
	done, wanted := len(set)-len(failed), len(set)/2+1
	if done < wanted {
		return wire.Errorf(http.StatusInternalServerError,
			"not enough successful reconciliations to reach quorum size: %d of %d of total %d", done, wanted, len(set))
	}
	return nil
}

// createOnKeepers makes a timeline on its safekeepers. Safekeepers that fail copy it later.
func (c *Controller) createOnKeepers(ctx context.Context, t *timeline) error {
	c.mu.Lock()
	body := safekeeper.NewTimeline{
		Tenant: t.Tenant, Timeline: t.ID, PGVersion: t.PGVersion * 10000, Start: t.Start,
		Membership: safekeeper.Membership{Generation: t.Generation, Members: c.members(t.Set)},
	}
	set := slices.Clone(t.Set)
	c.mu.Unlock()
	failed := c.onEach(ctx, set, http.MethodPost, "/v1/tenant/timeline", body)
	if err := quorum(set, failed); err != nil {
		return err
	}
	c.mu.Lock()
	t.Missing = failed
	c.mu.Unlock()
	return c.saveTimeline(ctx, t)
}
