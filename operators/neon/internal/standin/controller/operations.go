package controller

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// operation is a drain, a fill or a deletion of a node that is under way.
type operation struct {
	name   string
	stop   context.CancelFunc
	over   chan struct{}
	forced bool
	// dead says that the node did not answer when its deletion began, though it was taken
	// for active.
	dead bool
}

// stateOf is the scheduling of a node during an operation.
var stateOf = map[string]upstream.NodeScheduling{
	"drain": upstream.ScheduleDraining, "fill": upstream.ScheduleFilling, "delete": upstream.ScheduleDeleting,
}

// start returns the handler that begins an operation. It goes on after the answer.
func (c *Controller) start(name string) wire.Handler {
	return func(r *http.Request) (wire.Answer, error) {
		status := http.StatusAccepted
		if name == "delete" {
			status = http.StatusOK
		}
		c.mu.Lock()
		n, err := c.node(r)
		c.mu.Unlock()
		if err != nil {
			return wire.Answer{}, err
		}
		_, alive := c.ask(r.Context(), c.urlOf(n)+"/v1/status", "")
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.mayStart(n, name); err != nil {
			return wire.Answer{}, err
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
		n.operation = &operation{
			name: name, stop: stop, over: make(chan struct{}), forced: r.URL.Query().Get("force") == "true",
			dead: name == "delete" && !alive && n.Availability == upstream.NodeActive,
		}
		n.Scheduling = stateOf[name]
		go c.operate(ctx, n, n.operation)
		return wire.Answer{Status: status}, nil
	}
}

// mayStart says why an operation must not begin. The storage controller does one at a time.
func (c *Controller) mayStart(n *node, name string) error {
	if n.operation != nil && n.operation.name == name {
		return wire.Conflict("Node %d has %s in progress", n.ID, name)
	}
	for _, other := range c.nodes {
		if other.operation != nil {
			return wire.Precondition("Background operation already ongoing for node: %d", other.ID)
		}
	}
	if name == "delete" {
		return nil
	}
	if n.Availability != upstream.NodeActive {
		return wire.Errorf(http.StatusServiceUnavailable, "Node %d is currently unavailable", n.ID)
	}
	paused := name == "drain" && n.Scheduling == upstream.SchedulePause
	if n.Scheduling != upstream.ScheduleActive && !paused {
		return wire.Precondition("Node %d cannot be %sed due to %s policy", n.ID, name, n.Scheduling)
	}
	if len(c.nodes) < 2 {
		return wire.Precondition("No other nodes to %s to", name)
	}
	return nil
}

func (c *Controller) cancel(name string) wire.Handler {
	return func(r *http.Request) (wire.Answer, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, err := c.node(r)
		if err != nil {
			return wire.Answer{}, err
		}
		if n.operation == nil || n.operation.name != name {
			return wire.Answer{}, wire.Precondition("Node %d has no %s in progress", n.ID, name)
		}
		n.operation.stop()
		return wire.Answer{Status: http.StatusAccepted}, nil
	}
}

// operate does an operation, and gives the node its scheduling at the end.
func (c *Controller) operate(ctx context.Context, n *node, o *operation) {
	defer close(o.over)
	defer o.stop()
	var final upstream.NodeScheduling
	switch o.name {
	case "drain":
		final = upstream.SchedulePauseForRestart
		c.drain(ctx, n)
	case "fill":
		final = upstream.ScheduleActive
		c.fill(ctx, n)
	case "delete":
		c.empty(ctx, n, o.forced)
	}
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	<-held
	deleted := o.name == "delete" && ctx.Err() == nil
	c.mu.Lock()
	next := *n
	next.operation = nil
	switch {
	case ctx.Err() != nil:
		next.Scheduling = upstream.ScheduleActive
	case deleted:
		next.Scheduling, next.Availability = upstream.ScheduleDeleting, upstream.NodeOffline
	default:
		next.Scheduling = final
	}
	c.mu.Unlock()
	// It is saved before anybody sees it: the node may register itself again at once.
	err := c.saveNode(context.WithoutCancel(ctx), &next)
	c.mu.Lock()
	n.operation, n.Scheduling = nil, next.Scheduling
	if deleted {
		n.Availability = next.Availability
		delete(c.nodes, n.ID)
		c.tombstones[n.ID] = n
		c.cursed = c.cursed || o.dead
	}
	c.mu.Unlock()
	if err != nil {
		c.Log.Warn("save node", "error", err)
	}
}

// finishOperations ends all operations and waits for them.
func (c *Controller) finishOperations() {
	c.mu.Lock()
	var running []*operation
	for _, n := range c.nodes {
		if n.operation != nil {
			running = append(running, n.operation)
		}
	}
	c.mu.Unlock()
	for _, o := range running {
		o.stop()
		<-o.over
	}
}

// drain moves the shards of a node to their secondaries.
func (c *Controller) drain(ctx context.Context, n *node) {
	for _, t := range c.tenantsOn(n.ID) {
		c.mu.Lock()
		here := slices.ContainsFunc(t.Shards, func(s *shard) bool { return s.Attached != nil && *s.Attached == n.ID })
		c.mu.Unlock()
		if !here {
			continue
		}
		if !c.mayMove(ctx) {
			return
		}
		c.mu.Lock()
		for _, s := range t.Shards {
			if s.Attached == nil || *s.Attached != n.ID {
				continue
			}
			i := slices.IndexFunc(s.Secondary, func(id int64) bool { return c.nodes[id] != nil && c.nodes[id].usable() })
			if i >= 0 {
				c.move(t, s, s.Secondary[i])
			}
		}
		c.mu.Unlock()
		// A move that began is finished, even if the drain is cancelled.
		if err := c.reconcile(context.WithoutCancel(ctx), t); err != nil {
			c.Log.Warn("drain", "tenant", t.ID, "error", err)
		}
	}
}

// fill moves shards to a node that is in their preferred zone and holds a secondary.
func (c *Controller) fill(ctx context.Context, n *node) {
	for _, t := range c.tenantsOn(n.ID) {
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		if t.Zone == n.Zone {
			for _, s := range t.Shards {
				if slices.Contains(s.Secondary, n.ID) {
					c.move(t, s, n.ID)
				}
			}
		}
		c.mu.Unlock()
		if err := c.reconcile(context.WithoutCancel(ctx), t); err != nil {
			c.Log.Warn("fill", "tenant", t.ID, "error", err)
		}
	}
}

// emptyEvery is how often a deletion looks for a place for the shards that are still on its node.
const emptyEvery = time.Second

// empty moves all off a node. Where there is no place for a secondary, it goes on for ever, as the
// real program does, unless it is forced.
func (c *Controller) empty(ctx context.Context, n *node, forced bool) {
	for ctx.Err() == nil {
		on := c.tenantsOn(n.ID)
		if len(on) == 0 {
			return
		}
		for _, t := range on {
			c.mu.Lock()
			for _, s := range t.Shards {
				c.moveOff(t, s, n.ID, forced)
			}
			c.mu.Unlock()
			if err := c.reconcile(context.WithoutCancel(ctx), t); err != nil {
				c.Log.Warn("delete node", "tenant", t.ID, "error", err)
			}
		}
		if len(c.tenantsOn(n.ID)) > 0 {
			sleep(ctx, emptyEvery)
		}
	}
}

func (c *Controller) moveOff(t *tenant, s *shard, from int64, forced bool) {
	if s.Attached != nil && *s.Attached == from {
		if to := c.other(t, s, from); to != 0 {
			c.move(t, s, to)
		} else if forced {
			s.Attached = nil
		}
	}
	i := slices.Index(s.Secondary, from)
	if i < 0 {
		return
	}
	for _, n := range byZone(c.candidates(secondary), t.Zone, false) {
		if (s.Attached == nil || n.ID != *s.Attached) && n.ID != from && !slices.Contains(s.Secondary, n.ID) {
			s.Secondary[i] = n.ID
			return
		}
	}
	if forced {
		s.Secondary = slices.Delete(s.Secondary, i, i+1)
	}
}

// Settle does the background work of the real program once: it finishes deletions, lets safekeepers
// copy timelines that they miss, and tries again to tell pageservers and the control plane.
func (c *Controller) Settle(ctx context.Context) {
	c.mu.Lock()
	cursed := c.cursed
	var tenants []*tenant
	for _, t := range c.tenants {
		tenants = append(tenants, t)
	}
	var timelines []*timeline
	for _, t := range c.timelines {
		timelines = append(timelines, t)
	}
	c.mu.Unlock()
	if cursed {
		select {
		case c.panics <- ErrPanicked:
		default:
		}
		return
	}
	slices.SortFunc(tenants, func(a, b *tenant) int { return compare(a.ID, b.ID) })
	for _, t := range tenants {
		if err := c.reconcile(ctx, t); err != nil && ctx.Err() == nil {
			c.Log.Warn("reconcile", "tenant", t.ID, "error", err)
		}
	}
	for _, t := range timelines {
		c.settleTimeline(ctx, t)
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func nodeKey(id int64) string { return strconv.FormatInt(id, 10) }
