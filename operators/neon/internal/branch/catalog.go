package branch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/internal/recent"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// A storage controller takes ten requests a second for a tenant. So the timelines of a
// tenant are read with one request, which all branches of the project share.
const (
	// calm is how old a list may be for a timeline that serves.
	calm = 15 * time.Second
	// brisk is how old it may be for one that is not there or does not serve.
	brisk = time.Second
)

// catalogs has the catalog of each tenant.
type catalogs struct {
	mu sync.Mutex
	by map[tenantKey]*catalog
}

type tenantKey struct {
	cluster kube.Key
	tenant  string
}

// catalog knows the timelines of a tenant: a list that was read, and the changes that this
// process has made since.
type catalog struct {
	reads recent.Reader[map[string]upstream.Timeline]

	mu    sync.Mutex
	edits []edit    // oldest first
	floor time.Time // lists from before are wrong
}

// edit is a change that a list may not show if its read began before.
type edit struct {
	at time.Time
	id string
	is *upstream.Timeline // nil: it was deleted
}

// of returns the catalog of a tenant.
func (all *catalogs) of(clients controllers, cluster kube.Key, tenant string) *catalog {
	all.mu.Lock()
	defer all.mu.Unlock()
	key := tenantKey{cluster, tenant}
	if c := all.by[key]; c != nil {
		return c
	}
	if all.by == nil {
		all.by = make(map[tenantKey]*catalog)
	}
	c := new(catalog)
	c.reads.Read = func(ctx context.Context) (map[string]upstream.Timeline, error) {
		sc, err := clients.Controller(ctx, cluster)
		if err != nil {
			return nil, err
		}
		return list(ctx, sc, tenant)
	}
	all.by[key] = c
	return c
}

// forget drops the catalog of a tenant that is gone.
func (all *catalogs) forget(cluster kube.Key, tenant string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.by, tenantKey{cluster, tenant})
}

// controllers has the clients of storage controllers.
type controllers interface {
	Controller(ctx context.Context, cluster kube.Key) (*upstream.Controller, error)
}

// list reads the timelines of a tenant. One that was archived can be offloaded: then no
// pageserver has it at hand, and only its id and its place in the ancestor are known.
func list(ctx context.Context, sc *upstream.Controller, tenant string) (map[string]upstream.Timeline, error) {
	timelines, offloaded, err := sc.TimelinesAndOffloaded(ctx, tenant)
	if err != nil {
		return nil, err
	}
	all := make(map[string]upstream.Timeline, len(timelines)+len(offloaded))
	archived := true
	for _, t := range offloaded {
		all[t.ID] = upstream.Timeline{
			TenantID: tenant, ID: t.ID, Ancestor: t.Ancestor, AncestorLSN: t.AncestorLSN, Archived: &archived,
		}
	}
	for _, t := range timelines {
		all[t.ID] = t
	}
	return all, nil
}

// one returns a timeline as it was at a moment or later, nil if there was none. The error is
// NotFound if there is no such tenant.
func (c *catalog) one(ctx context.Context, id string, since time.Time) (*upstream.Timeline, error) {
	all, edits, err := c.read(ctx, since)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(edits) {
		if e.id == id {
			return e.is, nil
		}
	}
	if t, ok := all[id]; ok {
		return &t, nil
	}
	return nil, nil
}

// children returns the timelines that are branches of one, as they were at a moment or later.
func (c *catalog) children(ctx context.Context, id string, since time.Time) (children []upstream.Timeline, err error) {
	all, edits, err := c.read(ctx, since)
	if err != nil {
		return nil, err
	}
	changed := make(map[string]*upstream.Timeline)
	for _, e := range edits {
		changed[e.id] = e.is
	}
	of := func(t upstream.Timeline) bool { return t.Ancestor != nil && *t.Ancestor == id }
	for _, t := range all {
		if _, other := changed[t.ID]; !other && of(t) {
			children = append(children, t)
		}
	}
	for _, t := range changed {
		if t != nil && of(*t) {
			children = append(children, *t)
		}
	}
	slices.SortFunc(children, func(a, b upstream.Timeline) int { return strings.Compare(a.ID, b.ID) })
	return children, nil
}

// read returns a list, and the changes that it may not show.
func (c *catalog) read(ctx context.Context, since time.Time) (map[string]upstream.Timeline, []edit, error) {
	c.mu.Lock()
	if since.Before(c.floor) {
		since = c.floor
	}
	c.mu.Unlock()
	all, began, err := c.reads.Since(ctx, since)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := slices.IndexFunc(c.edits, func(e edit) bool { return !e.at.Before(began) })
	if first < 0 {
		return all, nil, nil
	}
	return all, slices.Clone(c.edits[first:]), nil
}

// put notes a timeline as this process has made or changed it, nil for one that it has deleted.
func (c *catalog) put(id string, is *upstream.Timeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	// Lists are younger than that.
	c.edits = slices.DeleteFunc(c.edits, func(e edit) bool { return now.Sub(e.at) > 2*calm })
	c.edits = append(c.edits, edit{now, id, is})
}

// expire makes lists useless that were begun before.
func (c *catalog) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor = time.Now()
}
