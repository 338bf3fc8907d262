package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/pageserver"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func (c *Controller) saveTimeline(ctx context.Context, t *timeline) error {
	c.mu.Lock()
	body := wire.MustJSON(t)
	c.mu.Unlock()
	return c.store.put(ctx, "timelines", t.Tenant+"/"+t.ID, body)
}

func (c *Controller) findTimeline(r *http.Request) (*timeline, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.PathValue("tenant") + "/" + r.PathValue("timeline")
	if t := c.timelines[key]; t != nil {
		return t, nil
	}
	return nil, wire.NotFound("Timeline %s not found", key)
}

func (c *Controller) locate(r *http.Request) (wire.Answer, error) {
	t, err := c.findTimeline(r)
	if err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return frozen(upstream.Location{Generation: t.Generation, Set: t.Set, NewSet: t.NewSet}), nil
}

// place is a shard and the pageserver that it is attached to.
type place struct {
	shard string
	node  *node
}

func (c *Controller) places(id string) ([]place, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[id]
	if t == nil {
		return nil, wire.NotFound("Tenant %s not found", id)
	}
	var list []place
	for _, s := range t.Shards {
		if s.Attached == nil || c.nodes[*s.Attached] == nil {
			return nil, wire.Errorf(http.StatusServiceUnavailable, "Shard %s is not attached", s.ID)
		}
		list = append(list, place{s.ID, c.nodes[*s.Attached]})
	}
	return list, nil
}

// onPageserver calls the pageserver of a shard. Its errors are for the caller to fold.
func (c *Controller) onPageserver(ctx context.Context, p place, method, rest string, body, into any) error {
	url := c.urlOf(p.node) + "/v1/tenant/" + p.shard + rest
	err := c.client(c.PageserverToken).Do(ctx, method, url, body, into)
	var answer *wire.Error
	if err != nil && !errors.As(err, &answer) {
		return wire.Errorf(http.StatusServiceUnavailable, "Error sending pageserver API request to %s: %v", p.node, err)
	}
	return err
}

// fold turns a pageserver's status into the one that the real program gives.
func fold(p place, err error) error {
	var answer *wire.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Status {
	case http.StatusNotAcceptable, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError:
		status := fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status))
		return wire.Conflict("%s %s: %s %s", p.node, status, status, answer.Msg)
	}
	return err
}

func (c *Controller) createTimeline(r *http.Request) (wire.Answer, error) {
	var body pageserver.NewTimeline
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	id := r.PathValue("tenant")
	if err := c.store.exec(r.Context(), "select 1"); err != nil {
		return wire.Answer{}, err
	}
	places, err := c.places(id)
	if err != nil {
		return wire.Answer{}, err
	}
	var first map[string]any
	for i, p := range places {
		var made map[string]any
		err := c.onPageserver(r.Context(), p, http.MethodPost, "/timeline", body, &made)
		if c.moved(id, places) {
			return wire.Answer{}, wire.Errorf(http.StatusServiceUnavailable, "Tenant attachment changed, please retry")
		}
		if err != nil {
			return wire.Answer{}, fold(p, err)
		}
		if i == 0 {
			first = made
		}
	}
	if !c.TimelinesOntoSafekeepers {
		return wire.Answer{Status: http.StatusCreated, Body: first}, nil
	}
	if body.ReadOnly {
		first["safekeepers"] = map[string]any{
			"tenant_id": id, "timeline_id": body.ID, "generation": 1, "safekeepers": []hookKeeper{},
		}
		return wire.Answer{Status: http.StatusCreated, Body: first}, nil
	}
	set, err := c.putOnKeepers(r.Context(), id, body.ID, first)
	if err != nil {
		return wire.Answer{}, err
	}
	first["safekeepers"] = set
	return wire.Answer{Status: http.StatusCreated, Body: first}, nil
}

func (c *Controller) moved(id string, before []place) bool {
	now, err := c.places(id)
	if err != nil || len(now) != len(before) {
		return true
	}
	for i := range now {
		if now[i].node.ID != before[i].node.ID || now[i].shard != before[i].shard {
			return true
		}
	}
	return false
}

// putOnKeepers gives a timeline safekeepers, those that it has if it was made before.
func (c *Controller) putOnKeepers(ctx context.Context, tenant, id string, made map[string]any) (map[string]any, error) {
	text := wire.MustJSON(made)
	var d pageserver.Description
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("decode timeline: %w", err)
	}
	c.mu.Lock()
	t := c.timelines[tenant+"/"+id]
	if t == nil {
		set, err := c.pickKeepers()
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		t = &timeline{Tenant: tenant, ID: id, Generation: 1, Set: set, Start: d.LastRecord, PGVersion: d.PGVersion}
		c.timelines[tenant+"/"+id] = t
	}
	c.mu.Unlock()
	if err := c.saveTimeline(ctx, t); err != nil {
		return nil, err
	}
	if err := c.createOnKeepers(ctx, t); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	keepers := []hookKeeper{}
	for _, id := range t.Set {
		keepers = append(keepers, hookKeeper{id, c.keepers[id].Host})
	}
	return map[string]any{"tenant_id": tenant, "timeline_id": id, "generation": t.Generation, "safekeepers": keepers}, nil
}

const (
	// firstLook and laterLook are when a deletion is looked at again.
	firstLook, laterLook = time.Second, 5 * time.Second
	// deletionWait ends the wait for a deletion.
	deletionWait = 25 * time.Second
)

// deleteTimeline destroys the timeline on its safekeepers before it asks the pageserver, which may
// refuse. That is harmful, and the real program does it.
func (c *Controller) deleteTimeline(r *http.Request) (wire.Answer, error) {
	tenant, id := r.PathValue("tenant"), r.PathValue("timeline")
	places, err := c.places(tenant)
	if err != nil {
		return wire.Answer{}, err
	}
	if err := c.deleteOnKeepers(r.Context(), tenant, id); err != nil {
		return wire.Answer{}, err
	}
	begin := time.Now()
	for look := firstLook; ; look = laterLook {
		gone := true
		for _, p := range places {
			err := c.onPageserver(r.Context(), p, http.MethodDelete, "/timeline/"+id, nil, nil)
			var answer *wire.Error
			switch {
			case err == nil:
				gone = false
			case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
			default:
				return wire.Answer{}, wire.Errorf(http.StatusInternalServerError,
					"Error deleting timeline %s on %s on node %s: pageserver API: %v", id, p.shard, p.node, err)
			}
		}
		if gone {
			return wire.OK(nil), nil
		}
		if time.Since(begin)+look > deletionWait {
			return wire.Answer{Status: http.StatusConflict}, nil
		}
		sleep(r.Context(), look)
	}
}

func (c *Controller) deleteOnKeepers(ctx context.Context, tenant, id string) error {
	c.mu.Lock()
	t := c.timelines[tenant+"/"+id]
	if t == nil {
		c.mu.Unlock()
		return nil
	}
	if t.Deleted == nil {
		now := time.Now()
		t.Deleted = &now
	}
	set := append(append([]int64{}, t.Set...), t.NewSet...)
	c.mu.Unlock()
	if err := c.saveTimeline(ctx, t); err != nil {
		return err
	}
	c.onEach(ctx, set, http.MethodDelete, "/v1/tenant/"+tenant+"/timeline/"+id, nil)
	return nil
}

// settleTimeline finishes the deletion of a timeline, or lets safekeepers copy it that miss it.
func (c *Controller) settleTimeline(ctx context.Context, t *timeline) {
	c.mu.Lock()
	deleted, missing := t.Deleted != nil, append([]int64{}, t.Missing...)
	set := append(append([]int64{}, t.Set...), t.NewSet...)
	c.mu.Unlock()
	if deleted {
		if len(c.onEach(ctx, set, http.MethodDelete, "/v1/tenant/"+t.Tenant+"/timeline/"+t.ID, nil)) > 0 {
			return
		}
		// The record goes first: that of a timeline which is made again with the id would go with it.
		if err := c.store.remove(ctx, "timelines", t.Tenant+"/"+t.ID); err != nil {
			c.Log.Warn("forget timeline", "error", err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timelines, t.Tenant+"/"+t.ID)
		return
	}
	if len(missing) == 0 {
		return
	}
	failed := c.pull(ctx, t, missing, set)
	c.mu.Lock()
	t.Missing = failed
	c.mu.Unlock()
	if err := c.saveTimeline(ctx, t); err != nil {
		c.Log.Warn("save timeline", "error", err)
	}
}

// onShards makes a call on all shards of a tenant, and returns the first answer.
func (c *Controller) onShards(r *http.Request, body any) (map[string]any, error) {
	places, err := c.places(r.PathValue("tenant"))
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(r.URL.Path, "/timeline/")
	var first map[string]any
	for i, p := range places {
		var answer map[string]any
		if err := c.onPageserver(r.Context(), p, r.Method, "/timeline/"+rest, body, &answer); err != nil {
			return nil, err
		}
		if i == 0 {
			first = answer
		}
	}
	return first, nil
}

func (c *Controller) archive(r *http.Request) (wire.Answer, error) {
	var body struct {
		State string `json:"state"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	_, err := c.onShards(r, body)
	var answer *wire.Error
	if errors.As(err, &answer) && answer.Status == http.StatusPreconditionFailed {
		return wire.Answer{}, wire.Precondition("%s", answer.Msg)
	}
	return wire.OK(nil), err
}

func (c *Controller) detachAncestor(r *http.Request) (wire.Answer, error) {
	answer, err := c.onShards(r, nil)
	return wire.OK(answer), err
}

func (c *Controller) lease(r *http.Request) (wire.Answer, error) {
	var body struct {
		LSN upstream.LSN `json:"lsn"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	_, err := c.onShards(r, body)
	return wire.OK(nil), err
}

// pass gives a request to the pageserver with the tenant's first shard.
func (c *Controller) pass(r *http.Request) (wire.Answer, error) {
	if err := c.store.ping(r.Context(), c.DatabaseWait); err != nil {
		return wire.Answer{}, err
	}
	places, err := c.places(r.PathValue("tenant"))
	if err != nil {
		return wire.Answer{}, err
	}
	_, rest, _ := strings.Cut(r.URL.RequestURI(), "/v1/tenant/"+r.PathValue("tenant"))
	var content []byte
	if err := c.onPageserver(r.Context(), places[0], http.MethodGet, rest, nil, &content); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(wire.Raw{Type: "application/json", Content: content}), nil
}
