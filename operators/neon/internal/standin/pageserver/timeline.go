package pageserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// index is the part of a timeline that is kept in the object store.
type index struct {
	ID          string        `json:"timeline_id"`
	PGVersion   int           `json:"pg_version"`
	SystemID    uint64        `json:"system_id"`
	Initdb      upstream.LSN  `json:"initdb_lsn"`
	Start       upstream.LSN  `json:"start_lsn"`
	Prev        upstream.LSN  `json:"prev_record_lsn"`
	Ancestor    *string       `json:"ancestor_timeline_id"`
	AncestorLSN *upstream.LSN `json:"ancestor_lsn"`
	Archived    bool          `json:"archived"`
	// Offloaded timelines were archived, and only the object store has them.
	Offloaded bool `json:"offloaded,omitempty"`
	// Asked is the request that made the timeline, to tell repeats from conflicts.
	Asked NewTimeline `json:"asked"`
	// Detached are the parts of WAL that were the ancestor's before the timeline was detached.
	Detached []part `json:"detached,omitempty"`
}

// timeline is a timeline on this pageserver. Its fields are guarded by the pageserver's lock.
type timeline struct {
	tenant string
	index  index
	// last is the end of the WAL that is here, once it was read.
	last    upstream.LSN
	source  string
	micros  int64
	deleted bool
	broken  string // the reason, see [Pageserver.Break]
}

func (t *timeline) lastRecord() upstream.LSN { return max(t.last, t.index.Start) }

// NewTimeline is the storage controller's request for a timeline.
type NewTimeline struct {
	ID        string        `json:"new_timeline_id"`
	PGVersion *int          `json:"pg_version,omitempty"`
	Ancestor  *string       `json:"ancestor_timeline_id,omitempty"`
	StartLSN  *upstream.LSN `json:"ancestor_start_lsn,omitempty"`
	ReadOnly  bool          `json:"read_only,omitempty"`
	// Initdb is an existing timeline whose initdb is taken. The stand-in refuses it.
	Initdb *string `json:"existing_initdb_timeline_id,omitempty"`
}

const defaultVersion = 17

func (n NewTimeline) version() int {
	if n.PGVersion == nil {
		return defaultVersion
	}
	return *n.PGVersion
}

// same reports whether a request asks for the timeline that is there. A branch that was
// detached since is another.
func (n NewTimeline) same(i index) bool {
	if (n.Ancestor == nil) != (i.Ancestor == nil) || n.Ancestor != nil && *n.Ancestor != *i.Ancestor {
		return false
	}
	if n.Ancestor == nil {
		return n.version() == i.PGVersion
	}
	return n.StartLSN == nil || *n.StartLSN == *i.AncestorLSN
}

func notFound(tenant, timeline string) error {
	return wire.NotFound("Timeline %s/%s was not found", tenant, timeline)
}

func (p *Pageserver) createTimeline(r *http.Request) (wire.Answer, error) {
	var n NewTimeline
	if err := wire.Decode(r, &n); err != nil {
		return wire.Answer{}, err
	}
	if err := wire.CheckID(n.ID); err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	s, err := p.attachedShard(r.PathValue("shard"))
	if err != nil {
		p.mu.Unlock()
		return wire.Answer{}, err
	}
	existing := s.timelines[n.ID]
	p.mu.Unlock()
	if existing != nil {
		if existing.index.Offloaded || !n.same(existing.index) {
			return wire.Answer{}, wire.Errorf(http.StatusConflict, "timeline already exists with different parameters")
		}
		return wire.Answer{Status: http.StatusCreated, Body: p.describe(s, existing)}, nil
	}
	var made *timeline
	if n.Ancestor == nil {
		made, err = p.bootstrap(r.Context(), s, n)
	} else {
		made, err = p.branch(r.Context(), s, n)
	}
	if err != nil {
		return wire.Answer{}, err
	}
	if err := p.saveIndex(r.Context(), s, made); err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	s.timelines[n.ID] = made
	p.mu.Unlock()
	return wire.Answer{Status: http.StatusCreated, Body: p.describe(s, made)}, nil
}

func (p *Pageserver) saveIndex(ctx context.Context, s *shard, t *timeline) error {
	return p.Objects.Put(ctx, indexKey(s.id, t.index.ID), wire.MustJSON(t.index))
}

// branch makes a timeline that begins in another. For an LSN that the other has not reached it
// waits until the shard goes or the client does.
func (p *Pageserver) branch(ctx context.Context, s *shard, n NewTimeline) (*timeline, error) {
	p.mu.Lock()
	ancestor := s.timelines[*n.Ancestor]
	p.mu.Unlock()
	if ancestor == nil || ancestor.index.Offloaded {
		return nil, wire.Errorf(http.StatusInternalServerError,
			"Cannot branch off the timeline that's not present in pageserver: Timeline %s/%s was not found", tenantOf(s.id), *n.Ancestor)
	}
	p.refresh(ctx, s, ancestor)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ancestor.index.Archived {
		return nil, wire.Errorf(http.StatusNotAcceptable, "ancestor timeline is archived")
	}
	at := ancestor.lastRecord()
	prev := ancestor.index.Prev
	if n.StartLSN != nil {
		at, prev = *n.StartLSN, 0
	}
	if cutoff := ancestor.index.Initdb; at < cutoff {
		return nil, wire.Errorf(http.StatusNotAcceptable, "invalid branch start lsn: less than latest GC cutoff %s: "+
			"LSN %s is earlier than latest GC cutoff %s (we might've already garbage collected needed data)", cutoff, at, cutoff)
	}
	if at > ancestor.lastRecord() {
		p.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-s.attached.Done():
		}
		p.mu.Lock()
		return nil, wire.Errorf(http.StatusServiceUnavailable, "Tenant shutting down")
	}
	// Branching before the ancestor's own start is a branch of the ancestor's ancestor.
	for ancestor.index.Ancestor != nil && at < *ancestor.index.AncestorLSN {
		ancestor = s.timelines[*ancestor.index.Ancestor]
	}
	of := ancestor.index.ID
	return &timeline{tenant: tenantOf(s.id), index: index{
		ID: n.ID, PGVersion: ancestor.index.PGVersion, SystemID: ancestor.index.SystemID, Initdb: ancestor.index.Initdb,
		Start: at, Prev: prev, Ancestor: &of, AncestorLSN: &at, Asked: n,
	}}, nil
}

func (p *Pageserver) children(s *shard, of string) []*timeline {
	var children []*timeline
	for _, id := range slices.Sorted(maps.Keys(s.timelines)) {
		if t := s.timelines[id]; t.index.Ancestor != nil && *t.index.Ancestor == of {
			children = append(children, t)
		}
	}
	return children
}

func names(timelines []*timeline) string {
	text := ""
	for i, t := range timelines {
		if i > 0 {
			text += ", "
		}
		text += t.index.ID
	}
	return text
}

// find returns a timeline of a shard that is at hand.
func (p *Pageserver) find(r *http.Request) (*shard, *timeline, error) {
	s, t, err := p.findAny(r)
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.index.Offloaded {
		return nil, nil, notFound(tenantOf(s.id), t.index.ID)
	}
	return s, t, nil
}

// findAny returns a timeline of a shard, also one that is offloaded.
func (p *Pageserver) findAny(r *http.Request) (*shard, *timeline, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.attachedShard(r.PathValue("shard"))
	if err != nil {
		return nil, nil, err
	}
	id := r.PathValue("timeline")
	if err := wire.CheckID(id); err != nil {
		return nil, nil, err
	}
	t := s.timelines[id]
	if t == nil {
		return nil, nil, notFound(tenantOf(s.id), id)
	}
	return s, t, nil
}

// Offload gives up the archived timelines that are at hand, as the real program does a while after
// their archival.
func (p *Pageserver) Offload() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shards {
		for _, t := range s.timelines {
			t.index.Offloaded = t.index.Archived
		}
	}
}

// Break makes a timeline fail for a reason, as the real program's own errors do.
func (p *Pageserver) Break(id, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shards {
		if t := s.timelines[id]; t != nil {
			t.broken = reason
		}
	}
}

// deleteTimeline answers 202 first, and 404 when asked again after the deletion.
func (p *Pageserver) deleteTimeline(r *http.Request) (wire.Answer, error) {
	s, t, err := p.findAny(r)
	if err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	children := p.children(s, t.index.ID)
	if len(children) > 0 {
		p.mu.Unlock()
		return wire.Answer{}, wire.Precondition("Cannot delete timeline which has child timelines: [%s]", names(children))
	}
	t.deleted = true
	delete(s.timelines, t.index.ID)
	p.mu.Unlock()
	// The index goes last, so that a deletion that was cut off is seen and done again.
	objects := prefix(s.id) + "timelines/" + t.index.ID + "/"
	if err := errors.Join(p.removeLocal(s, t), p.deleteObjects(r.Context(), objects)); err != nil {
		return wire.Answer{}, fmt.Errorf("delete timeline: %w", err)
	}
	return wire.Answer{Status: http.StatusAccepted}, nil
}

func (p *Pageserver) archive(r *http.Request) (wire.Answer, error) {
	var body struct {
		State string `json:"state"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	s, t, err := p.findAny(r)
	if err != nil {
		return wire.Answer{}, err
	}
	if body.State != "Archived" && body.State != "Unarchived" {
		return wire.Answer{}, wire.BadRequest("Failed to parse json request: state: unknown variant `%s`, "+
			"expected `Archived` or `Unarchived` at line 1 column 1", body.State)
	}
	archived := body.State == "Archived"
	if err := p.mayArchive(s, t, archived); err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	t.index.Archived = archived
	t.index.Offloaded = t.index.Offloaded && archived
	p.mu.Unlock()
	return wire.OK(nil), p.saveIndex(r.Context(), s, t)
}

func (p *Pageserver) mayArchive(s *shard, t *timeline, archive bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !archive {
		if a := t.index.Ancestor; a != nil && s.timelines[*a] != nil && s.timelines[*a].index.Archived {
			return wire.Precondition("ancestor is archived: %s", *a)
		}
		return nil
	}
	live := slices.DeleteFunc(p.children(s, t.index.ID), func(c *timeline) bool { return c.index.Archived })
	if len(live) > 0 {
		return wire.Precondition("Cannot archive timeline which has non-archived child timelines: [%s]", names(live))
	}
	return nil
}

// detachAncestor makes a branch a root. Siblings that began no later in the old ancestor become
// its children.
func (p *Pageserver) detachAncestor(r *http.Request) (wire.Answer, error) {
	s, t, err := p.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	reparented := []string{}
	if t.index.Ancestor == nil {
		return wire.OK(map[string]any{"reparented_timelines": reparented}), nil
	}
	if err := p.mayDetach(s, t); err != nil {
		return wire.Answer{}, err
	}
	parts, err := p.keepHistory(r.Context(), s, t)
	if err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	changed := []*timeline{t}
	for _, sibling := range p.children(s, *t.index.Ancestor) {
		if sibling != t && *sibling.index.AncestorLSN <= *t.index.AncestorLSN {
			id := t.index.ID
			sibling.index.Ancestor = &id
			reparented = append(reparented, sibling.index.ID)
			changed = append(changed, sibling)
		}
	}
	t.index.Ancestor, t.index.AncestorLSN, t.index.Detached = nil, nil, parts
	p.mu.Unlock()
	for _, c := range changed {
		if err := p.saveIndex(r.Context(), s, c); err != nil {
			return wire.Answer{}, err
		}
	}
	return wire.OK(map[string]any{"reparented_timelines": reparented}), nil
}

// mayDetach refuses the detachments that upstream's default behaviour refuses:
// pageserver/src/tenant/timeline/detach_ancestor.rs.
func (p *Pageserver) mayDetach(s *shard, t *timeline) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.index.Archived {
		return wire.BadRequest("archived: %s", t.index.ID)
	}
	for _, sibling := range p.children(s, *t.index.Ancestor) {
		if sibling != t && sibling.index.Archived && *sibling.index.AncestorLSN <= *t.index.AncestorLSN {
			return wire.BadRequest("archived: %s", sibling.index.ID)
		}
	}
	if parent := s.timelines[*t.index.Ancestor]; parent != nil && parent.index.Ancestor != nil {
		return wire.BadRequest("too many ancestors")
	}
	return nil
}
