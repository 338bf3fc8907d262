package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/pageserver"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func sorted[T any](all map[int64]T) []T {
	list := []T{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[id])
	}
	return list
}

func (c *Controller) listNodes(*http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(sorted(c.nodes)), nil
}

// frozen encodes an answer while the state is locked.
func frozen(body any) wire.Answer {
	return wire.OK(wire.Raw{Type: "application/json", Content: wire.MustJSON(body)})
}

func (c *Controller) node(r *http.Request) (*node, error) {
	id, err := pathID(r, "node")
	if err != nil {
		return nil, err
	}
	if n := c.nodes[id]; n != nil {
		return n, nil
	}
	return nil, wire.NotFound("Node %d not registered", id)
}

func (c *Controller) getNode(r *http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(r)
	if err != nil {
		return wire.Answer{}, err
	}
	return frozen(n), nil
}

func (c *Controller) listTombstones(*http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(sorted(c.tombstones)), nil
}

func (c *Controller) deleteTombstone(r *http.Request) (wire.Answer, error) {
	id, err := pathID(r, "node")
	if err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	_, known := c.tombstones[id]
	c.mu.Unlock()
	if !known {
		return wire.OK(nil), nil
	}
	// Until the record is gone, the node cannot register again: its new record would go with the old one.
	if err := c.store.remove(r.Context(), "nodes", strconv.FormatInt(id, 10)); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tombstones, id)
	return wire.OK(nil), nil
}

func (c *Controller) registerNode(r *http.Request) (wire.Answer, error) {
	var body pageserver.Registration
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(nil), c.register(r.Context(), body)
}

// register adds a pageserver, or checks that it is the one that is known.
func (c *Controller) register(ctx context.Context, r pageserver.Registration) error {
	c.mu.Lock()
	known, dead := c.nodes[r.Node], c.tombstones[r.Node]
	var was node
	if known != nil {
		was = *known
	}
	c.mu.Unlock()
	if dead != nil {
		return wire.Conflict("Node %d is already exists", r.Node)
	}
	if known != nil {
		if was.HTTPHost != r.HTTPHost || was.HTTPPort != r.HTTPPort || was.PGHost != r.PGHost || was.PGPort != r.PGPort ||
			was.Zone != r.Zone {
			return wire.Conflict("Node is already registered with different address")
		}
		// These may change while the nodes of a cluster are moved to TLS.
		if samePort(was.HTTPSPort, r.HTTPSPort) && samePort(was.GRPCPort, r.GRPCPort) {
			return nil
		}
	}
	if c.PageserversByTLS && r.HTTPSPort == nil {
		return wire.Errorf(http.StatusInternalServerError,
			"cannot create node %d: https is enabled, but https port is not specified", r.Node)
	}
	lookup := c.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	if _, err := lookup(ctx, r.HTTPHost); err != nil {
		return wire.Errorf(http.StatusServiceUnavailable, "Node %d tried to register with unknown DNS name '%s'", r.Node, r.HTTPHost)
	}
	n := &node{
		Node: upstream.Node{
			ID: r.Node, Availability: upstream.NodeOffline, Scheduling: upstream.ScheduleActive, Zone: r.Zone,
			HTTPHost: r.HTTPHost, HTTPPort: r.HTTPPort, HTTPSPort: r.HTTPSPort, PGHost: r.PGHost, PGPort: r.PGPort,
		},
		GRPCHost: r.GRPCHost, GRPCPort: r.GRPCPort,
	}
	if known != nil {
		// As in the real program, it is a new node in memory until it attaches again.
		c.mu.Lock()
		known.HTTPSPort, known.GRPCHost, known.GRPCPort = n.HTTPSPort, n.GRPCHost, n.GRPCPort
		known.Scheduling = n.Scheduling
		known.setAvailability(n.Availability)
		c.mu.Unlock()
		return c.saveNode(ctx, known)
	}
	if err := c.saveNode(ctx, n); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[r.Node] = n
	return nil
}

// samePort compares ports that may be missing.
func samePort(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func (c *Controller) saveNode(ctx context.Context, n *node) error {
	c.mu.Lock()
	body := wire.MustJSON(n)
	c.mu.Unlock()
	return c.store.put(ctx, "nodes", strconv.FormatInt(n.ID, 10), body)
}

// reAttach answers a pageserver that starts: with the shards that it shall hold, and with new
// generations, so that a predecessor of it cannot write any more.
func (c *Controller) reAttach(r *http.Request) (wire.Answer, error) {
	var body pageserver.ReAttach
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	if body.Register != nil {
		if err := c.register(r.Context(), *body.Register); err != nil {
			return wire.Answer{}, err
		}
	}
	c.mu.Lock()
	n := c.nodes[body.Node]
	if n == nil {
		c.mu.Unlock()
		return wire.Answer{}, wire.Conflict("Node %d is not registered", body.Node)
	}
	lost := body.EmptyDisk != nil && *body.EmptyDisk && !c.RestoreLostDisks
	answer := pageserver.Attached{Tenants: []pageserver.AttachedShard{}}
	var changed []*tenant
	for _, id := range slices.Sorted(maps.Keys(c.tenants)) {
		t := c.tenants[id]
		for _, s := range t.Shards {
			entry, here := s.attachAgain(n.ID)
			if !here || lost {
				continue
			}
			answer.Tenants = append(answer.Tenants, entry)
			changed = append(changed, t)
		}
	}
	n.setAvailability(upstream.NodeWarmingUp)
	n.heard = time.Now()
	if n.Scheduling != upstream.SchedulePause && n.Scheduling != upstream.ScheduleDeleting {
		n.Scheduling = upstream.ScheduleActive
	}
	c.mu.Unlock()
	for _, t := range slices.Compact(changed) {
		if err := c.saveTenant(r.Context(), t); err != nil {
			return wire.Answer{}, err
		}
	}
	return wire.OK(answer), nil
}

// attachAgain says how a shard is on a node that has started, with the next generation.
func (s *shard) attachAgain(node int64) (pageserver.AttachedShard, bool) {
	if s.Attached != nil && *s.Attached == node {
		s.Generation++
		s.observed[node] = attached
		generation := s.Generation
		return pageserver.AttachedShard{ID: s.ID, Generation: &generation, Mode: "AttachedSingle"}, true
	}
	if slices.Contains(s.Secondary, node) {
		s.observed[node] = secondary
		return pageserver.AttachedShard{ID: s.ID, Mode: "Secondary"}, true
	}
	delete(s.observed, node)
	return pageserver.AttachedShard{}, false
}

func (n *node) setAvailability(a upstream.NodeAvailability) {
	if n.Availability != a {
		n.Availability, n.since = a, time.Now()
	}
}

// validate confirms generations.
func (c *Controller) validate(r *http.Request) (wire.Answer, error) {
	type item struct {
		ID         string `json:"id"`
		Generation int64  `json:"gen"`
		Valid      *bool  `json:"valid,omitempty"`
	}
	var body struct {
		Tenants []item `json:"tenants"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, asked := range body.Tenants {
		valid := false
		for _, t := range c.tenants {
			for _, s := range t.Shards {
				valid = valid || s.ID == asked.ID && s.Generation == asked.Generation
			}
		}
		body.Tenants[i].Valid = &valid
	}
	return frozen(body), nil
}

func (c *Controller) configureNode(r *http.Request) (wire.Answer, error) {
	var body struct {
		ID           int64                     `json:"node_id"`
		Availability upstream.NodeAvailability `json:"availability"`
		Scheduling   upstream.NodeScheduling   `json:"scheduling"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	n, err := c.node(r)
	if err == nil && n.ID != body.ID {
		err = wire.BadRequest("Path and body node_id differ")
	}
	if err != nil {
		c.mu.Unlock()
		return wire.Answer{}, err
	}
	n.Scheduling = cmp.Or(body.Scheduling, n.Scheduling)
	n.setAvailability(cmp.Or(body.Availability, n.Availability))
	c.mu.Unlock()
	return wire.OK(nil), c.saveNode(r.Context(), n)
}

// nodeShard is a shard on a node: true for a secondary, false for attached, nil for neither.
type nodeShard struct {
	ID       string `json:"tenant_shard_id"`
	Observed *bool  `json:"is_observed_secondary"`
	Intended *bool  `json:"is_intended_secondary"`
}

func (c *Controller) nodeShards(r *http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(r)
	if err != nil {
		return wire.Answer{}, err
	}
	list := []nodeShard{}
	for _, id := range slices.Sorted(maps.Keys(c.tenants)) {
		for _, s := range c.tenants[id].Shards {
			entry := nodeShard{ID: s.ID}
			if mode := s.observed[n.ID]; mode != "" {
				is := mode == secondary
				entry.Observed = &is
			}
			if s.Attached != nil && *s.Attached == n.ID || slices.Contains(s.Secondary, n.ID) {
				is := slices.Contains(s.Secondary, n.ID)
				entry.Intended = &is
			}
			if entry.Observed != nil || entry.Intended != nil {
				list = append(list, entry)
			}
		}
	}
	return frozen(map[string]any{"node_id": n.ID, "shards": list}), nil
}

// Heartbeat asks all pageservers and safekeepers whether they live, and moves shards off
// pageservers that have been silent too long.
func (c *Controller) Heartbeat(ctx context.Context) {
	c.mu.Lock()
	nodes, keepers := sorted(c.nodes), sorted(c.keepers)
	c.mu.Unlock()
	for _, n := range nodes {
		_, alive := c.ask(ctx, c.urlOf(n)+"/v1/utilization", c.PageserverToken)
		c.mu.Lock()
		if alive {
			n.heard = time.Now()
			n.setAvailability(upstream.NodeActive)
		}
		silent := time.Since(n.heard)
		gone := n.Availability == upstream.NodeActive && silent > c.MaxOffline ||
			n.Availability == upstream.NodeWarmingUp && silent > c.MaxWarmingUp
		if gone {
			n.setAvailability(upstream.NodeOffline)
		}
		c.mu.Unlock()
		if gone {
			c.failOver(ctx, n)
		}
	}
	for _, k := range keepers {
		c.mu.Lock()
		url := ""
		if k.Policy != upstream.SafekeeperDecommissioned {
			url = k.url(c.SafekeepersByTLS)
		}
		c.mu.Unlock()
		if url == "" {
			continue
		}
		load, alive := c.ask(ctx, url+"/v1/utilization", c.SafekeeperToken)
		c.mu.Lock()
		k.online = alive
		if !alive {
			c.mu.Unlock()
			continue
		}
		k.load = load
		activated := k.Policy == upstream.SafekeeperActivating
		if activated {
			k.Policy = upstream.SafekeeperActive
		}
		c.mu.Unlock()
		if activated {
			if err := c.saveKeeper(ctx, k); err != nil {
				c.Log.Warn("save safekeeper", "error", err)
			}
		}
	}
}

// askTimeout is how long a heartbeat waits.
const askTimeout = 5 * time.Second

// ask asks a program whether it lives, and how many timelines it holds if it is a safekeeper.
func (c *Controller) ask(ctx context.Context, url, token string) (int, bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var answer struct {
		Timelines int `json:"timeline_count"`
	}
	err := c.client(token).Do(ctx, http.MethodGet, url, nil, &answer)
	return answer.Timelines, err == nil
}

// Forget makes a pageserver look silent for longer than any limit. Tests use it in place of
// waiting.
func (c *Controller) Forget(id int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	if n == nil {
		return fmt.Errorf("node %d is not registered", id)
	}
	n.heard = time.Time{}
	return nil
}
