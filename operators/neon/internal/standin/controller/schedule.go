package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/pageserver"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// How a pageserver holds a shard.
const (
	attached  = "attached"
	secondary = "secondary"
)

// usable reports whether shards may be put on a node.
func (n *node) usable() bool {
	return n.Availability == upstream.NodeActive &&
		(n.Scheduling == upstream.ScheduleActive || n.Scheduling == upstream.ScheduleFilling)
}

// candidates returns the nodes that shards may be put on, those with the fewest shards first.
func (c *Controller) candidates(mode string) []*node {
	load := map[int64]int{}
	for _, t := range c.tenants {
		for _, s := range t.Shards {
			if mode == attached && s.Attached != nil {
				load[*s.Attached]++
			}
			if mode == secondary {
				for _, id := range s.Secondary {
					load[id]++
				}
			}
		}
	}
	list := slices.DeleteFunc(sorted(c.nodes), func(n *node) bool { return !n.usable() })
	slices.SortStableFunc(list, func(a, b *node) int { return cmp.Compare(load[a.ID], load[b.ID]) })
	return list
}

// pickZone returns the zone whose nodes have the fewest shards.
func (c *Controller) pickZone() string {
	load := map[string]int{}
	for _, n := range c.nodes {
		if n.usable() {
			load[n.Zone] += 0
		}
	}
	for _, t := range c.tenants {
		if _, ok := load[t.Zone]; ok {
			load[t.Zone] += len(t.Shards)
		}
	}
	zones := slices.Sorted(maps.Keys(load))
	if len(zones) == 0 {
		return ""
	}
	return slices.MinFunc(zones, func(a, b string) int { return cmp.Compare(load[a], load[b]) })
}

// schedule gives a shard the places that its tenant's placement asks for. Places that are good are
// kept.
func (c *Controller) schedule(t *tenant, s *shard) error {
	if t.Placement.Kind == "Detached" {
		s.Attached, s.Secondary = nil, nil
		return nil
	}
	if t.Placement.Kind == "Secondary" {
		if s.Attached != nil {
			s.Secondary = append(s.Secondary, *s.Attached)
		}
		s.Attached = nil
		s.Secondary = s.Secondary[:min(1, len(s.Secondary))]
		return nil
	}
	if s.Attached == nil {
		if err := c.scheduleAttached(t, s); err != nil {
			return err
		}
	}
	s.Secondary = slices.DeleteFunc(s.Secondary, func(id int64) bool { return id == *s.Attached || c.nodes[id] == nil })
	for _, n := range byZone(c.candidates(secondary), t.Zone, false) {
		if len(s.Secondary) >= t.Placement.Secondaries {
			break
		}
		if n.ID != *s.Attached && !slices.Contains(s.Secondary, n.ID) {
			s.Secondary = append(s.Secondary, n.ID)
		}
	}
	s.Secondary = append([]int64{}, s.Secondary[:min(len(s.Secondary), t.Placement.Secondaries)]...)
	return nil
}

func (c *Controller) scheduleAttached(t *tenant, s *shard) error {
	for _, id := range s.Secondary {
		if n := c.nodes[id]; n != nil && n.usable() {
			s.Attached = &n.ID
			return nil
		}
	}
	for _, n := range byZone(c.candidates(attached), t.Zone, true) {
		s.Attached = &n.ID
		return nil
	}
	return wire.Errorf(http.StatusServiceUnavailable, "No pageservers found to schedule shard %s", s.ID)
}

// byZone puts the nodes of a zone first, or last.
func byZone(nodes []*node, zone string, first bool) []*node {
	slices.SortStableFunc(nodes, func(a, b *node) int {
		x, y := a.Zone == zone, b.Zone == zone
		if x == y {
			return 0
		}
		if x == first {
			return -1
		}
		return 1
	})
	return nodes
}

func (c *Controller) saveTenant(ctx context.Context, t *tenant) error {
	c.mu.Lock()
	body := wire.MustJSON(t)
	same := t.saved == string(body)
	c.mu.Unlock()
	if same {
		return nil
	}
	if err := c.store.put(ctx, "tenants", t.ID, body); err != nil {
		return err
	}
	c.mu.Lock()
	t.saved = string(body)
	c.mu.Unlock()
	return nil
}

// reconcileFor reconciles a tenant that a request has changed. It does not end with the request,
// because the real program's reconcilers are tasks of their own.
func (c *Controller) reconcileFor(r *http.Request, t *tenant) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), reconcileLimit)
	defer stop()
	return c.reconcile(ctx, t)
}

// reconcileLimit is the longest time of such a reconcile.
const reconcileLimit = 30 * time.Second

// reconcile makes pageservers hold a tenant's shards as they are meant to, and tells the
// computes. Pageservers that do not answer are tried again in the background.
func (c *Controller) reconcile(ctx context.Context, t *tenant) error {
	t.work.Lock()
	defer t.work.Unlock()
	if err := c.saveTenant(ctx, t); err != nil {
		return err
	}
	var failed []error
	for _, s := range t.Shards {
		if err := c.attach(ctx, t, s); err != nil {
			failed = append(failed, err)
		}
	}
	c.notifyAttach(ctx, t)
	for _, s := range t.Shards {
		if err := c.settleRest(ctx, t, s); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (c *Controller) attach(ctx context.Context, t *tenant, s *shard) error {
	c.mu.Lock()
	done := s.Attached == nil || s.observed[*s.Attached] == attached
	var n *node
	if !done {
		n = c.nodes[*s.Attached]
		done = n != nil && n.Availability == upstream.NodeOffline // attached when it comes back
	}
	if !done {
		s.Generation++
	}
	c.mu.Unlock()
	if done {
		return nil
	}
	if n == nil {
		return fmt.Errorf("shard %s is meant to be on a node that is gone", s.ID)
	}
	if err := c.saveTenant(ctx, t); err != nil {
		return err
	}
	if err := c.locateOn(ctx, t, s, n, attached); err != nil {
		return err
	}
	c.mu.Lock()
	s.SplitFrom = ""
	c.mu.Unlock()
	return nil
}

// settleRest makes secondaries, and removes the shard from where it is not meant to be.
func (c *Controller) settleRest(ctx context.Context, t *tenant, s *shard) error {
	c.mu.Lock()
	wanted := map[int64]string{}
	for _, id := range s.Secondary {
		wanted[id] = secondary
	}
	if s.Attached != nil {
		wanted[*s.Attached] = attached
	}
	changes := map[*node]string{}
	for id, mode := range wanted {
		if n := c.nodes[id]; n != nil && s.observed[id] != mode && mode == secondary {
			changes[n] = mode
		}
	}
	for id := range s.observed {
		if n := c.nodes[id]; n != nil && wanted[id] == "" {
			changes[n] = ""
		}
	}
	c.mu.Unlock()
	var failed []error
	for n, mode := range changes {
		if err := c.locateOn(ctx, t, s, n, mode); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (c *Controller) locateOn(ctx context.Context, t *tenant, s *shard, n *node, mode string) error {
	c.mu.Lock()
	offline := n.Availability == upstream.NodeOffline
	location := pageserver.Location{Mode: "Detached", Count: t.Count, StripeSize: t.StripeSize, Config: maps.Clone(t.Config)}
	generation := s.Generation
	switch mode {
	case attached:
		location.Mode, location.Generation, location.SplitFrom = "AttachedSingle", &generation, s.SplitFrom
	case secondary:
		location.Mode = "Secondary"
	}
	c.mu.Unlock()
	if offline {
		return nil // told when it comes back
	}
	ctx, cancel := context.WithTimeout(ctx, locateTimeout)
	defer cancel()
	url := c.urlOf(n) + "/v1/tenant/" + s.ID + "/location_config"
	err := c.client(c.PageserverToken).Do(ctx, http.MethodPut, url, location, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		s.lastError = err.Error()
		return err
	}
	if mode == "" {
		delete(s.observed, n.ID)
	} else {
		s.observed[n.ID] = mode
	}
	return nil
}

// locateTimeout is how long a pageserver may take to attach a shard.
const locateTimeout = 30 * time.Second

// move attaches a shard to another node and keeps the old one as a secondary.
func (c *Controller) move(t *tenant, s *shard, to int64) {
	if s.Attached == nil || *s.Attached == to {
		s.Attached = &to
		return
	}
	from := *s.Attached
	s.Attached = &to
	s.Secondary = slices.DeleteFunc(s.Secondary, func(id int64) bool { return id == to })
	if t.Placement.Secondaries > len(s.Secondary) {
		s.Secondary = append(s.Secondary, from)
	}
}

// failOver moves the shards of a node that is lost.
func (c *Controller) failOver(ctx context.Context, lost *node) {
	for _, t := range c.tenantsOn(lost.ID) {
		c.mu.Lock()
		for _, s := range t.Shards {
			if s.Attached == nil || *s.Attached != lost.ID {
				continue
			}
			if to := c.other(t, s, lost.ID); to != 0 {
				delete(s.observed, lost.ID)
				c.move(t, s, to)
			}
		}
		c.mu.Unlock()
		if err := c.reconcile(ctx, t); err != nil {
			c.Log.Warn("fail over", "tenant", t.ID, "error", err)
		}
	}
}

// other returns a node for a shard that is not the given one, or zero: a secondary, else any.
func (c *Controller) other(t *tenant, s *shard, not int64) int64 {
	for _, id := range s.Secondary {
		if n := c.nodes[id]; id != not && n != nil && n.usable() {
			return id
		}
	}
	for _, n := range byZone(c.candidates(attached), t.Zone, true) {
		if n.ID != not {
			return n.ID
		}
	}
	return 0
}

// tenantsOn returns the tenants with a shard on a node, attached or secondary.
func (c *Controller) tenantsOn(id int64) []*tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*tenant
	for _, key := range slices.Sorted(maps.Keys(c.tenants)) {
		t := c.tenants[key]
		if slices.ContainsFunc(t.Shards, func(s *shard) bool {
			return s.Attached != nil && *s.Attached == id || slices.Contains(s.Secondary, id)
		}) {
			list = append(list, t)
		}
	}
	return list
}

// optimiseAfter is how long a node must be up before shards go back to it.
const optimiseAfter = 30 * time.Second

// Optimise moves shards back to their preferred zone, to nodes that have been up for a while and
// hold a secondary.
func (c *Controller) Optimise(ctx context.Context, after time.Duration) {
	c.mu.Lock()
	var moved []*tenant
	for _, key := range slices.Sorted(maps.Keys(c.tenants)) {
		t := c.tenants[key]
		for _, s := range t.Shards {
			if s.Attached == nil || c.nodes[*s.Attached] == nil || c.nodes[*s.Attached].Zone == t.Zone {
				continue
			}
			for _, id := range s.Secondary {
				if n := c.nodes[id]; n != nil && n.usable() && n.Zone == t.Zone && time.Since(n.since) >= after {
					c.move(t, s, id)
					moved = append(moved, t)
					break
				}
			}
		}
	}
	c.mu.Unlock()
	for _, t := range slices.Compact(moved) {
		if err := c.reconcile(ctx, t); err != nil {
			c.Log.Warn("optimise", "tenant", t.ID, "error", err)
		}
	}
}
