package safekeeper

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func (s *Safekeeper) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/status", wire.Handler(func(*http.Request) (wire.Answer, error) {
		return wire.OK(map[string]int64{"id": s.ID}), nil
	}))
	mux.Handle("GET /metrics", wire.Handler(s.metrics))
	all := func(pattern string, h wire.Handler) {
		mux.Handle(pattern, wire.Handler(func(r *http.Request) (wire.Answer, error) {
			if err := s.Auth.Check(r, r.PathValue("tenant"), token.Safekeeper); err != nil {
				return wire.Answer{}, err
			}
			return h(r)
		}))
	}
	all("GET /v1/utilization", s.utilization)
	all("POST /v1/tenant/timeline", s.create)
	all("POST /v1/pull_timeline", s.pull)
	all("DELETE /v1/tenant/{tenant}", s.deleteTenant)
	all("GET /v1/tenant/{tenant}/timeline/{timeline}", s.timeline)
	all("DELETE /v1/tenant/{tenant}/timeline/{timeline}", s.delete)
	all("PUT /v1/tenant/{tenant}/timeline/{timeline}/membership", s.membership)
	all("PUT /v1/tenant/{tenant}/timeline/{timeline}/exclude", s.exclude)
	all("POST /v1/tenant/{tenant}/timeline/{timeline}/term_bump", s.bump)
	all("GET /standin/tenant/{tenant}/timeline/{timeline}/snapshot", s.snapshot)
	all("GET /standin/tenant/{tenant}/timeline/{timeline}/wal", s.wal)
	all("GET /standin/tenant/{tenant}/timeline/{timeline}/moments", s.moments)
	return mux
}

func (s *Safekeeper) utilization(*http.Request) (wire.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.OK(map[string]int{"timeline_count": len(s.timelines)}), nil
}

// NewTimeline is the storage controller's request for a timeline.
type NewTimeline struct {
	Tenant     string        `json:"tenant_id"`
	Timeline   string        `json:"timeline_id"`
	Membership Membership    `json:"mconf"`
	PGVersion  int           `json:"pg_version"`
	SystemID   *uint64       `json:"system_id"`
	SegSize    *int64        `json:"wal_seg_size"`
	Start      upstream.LSN  `json:"start_lsn"`
	Commit     *upstream.LSN `json:"commit_lsn"`
}

func (s *Safekeeper) create(r *http.Request) (wire.Answer, error) {
	var n NewTimeline
	if err := wire.Decode(r, &n); err != nil {
		return wire.Answer{}, err
	}
	if err := errors.Join(wire.CheckID(n.Tenant), wire.CheckID(n.Timeline)); err != nil {
		return wire.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted[key(n.Tenant, n.Timeline)] {
		return wire.Answer{}, wire.Errorf(http.StatusInternalServerError, "timeline %s deleted", key(n.Tenant, n.Timeline))
	}
	if t, ok := s.timelines[key(n.Tenant, n.Timeline)]; ok {
		return wire.OK(t.status(nil)), nil
	}
	kept := state{
		Membership: n.Membership, PGVersion: n.PGVersion, Start: n.Start, Backup: n.Start &^ (segment - 1),
	}
	t, err := createTimeline(filepath.Join(s.Dir, n.Tenant, n.Timeline), n.Tenant, n.Timeline, kept, s.changed)
	if err != nil {
		return wire.Answer{}, err
	}
	s.timelines[key(n.Tenant, n.Timeline)] = t
	s.changed()
	return wire.OK(t.status(nil)), nil
}

func (s *Safekeeper) find(r *http.Request) (*Timeline, error) {
	tenant, timeline := r.PathValue("tenant"), r.PathValue("timeline")
	if err := errors.Join(wire.CheckID(tenant), wire.CheckID(timeline)); err != nil {
		return nil, err
	}
	return s.Timeline(tenant, timeline)
}

func (s *Safekeeper) timeline(r *http.Request) (wire.Answer, error) {
	t, err := s.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(t.status(s.peers(r.Context(), t))), nil
}

func (s *Safekeeper) delete(r *http.Request) (wire.Answer, error) {
	tenant, timeline := r.PathValue("tenant"), r.PathValue("timeline")
	existed, err := s.remove(r.Context(), tenant, timeline)
	if err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(map[string]bool{"dir_existed": existed}), nil
}

func (s *Safekeeper) deleteTenant(r *http.Request) (wire.Answer, error) {
	tenant := r.PathValue("tenant")
	answer := map[string]map[string]bool{}
	s.mu.Lock()
	var timelines []string
	for _, t := range s.timelines {
		if t.Tenant == tenant {
			timelines = append(timelines, t.ID)
		}
	}
	s.mu.Unlock()
	for _, id := range timelines {
		existed, err := s.remove(r.Context(), tenant, id)
		if err != nil {
			return wire.Answer{}, err
		}
		answer[id] = map[string]bool{"dir_existed": existed}
	}
	return wire.OK(answer), nil
}

// remove deletes a timeline from the disk and from the remote storage, and remembers that.
func (s *Safekeeper) remove(ctx context.Context, tenant, timeline string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, existed := s.timelines[key(tenant, timeline)]
	if existed {
		if err := t.close(); err != nil {
			return false, fmt.Errorf("delete timeline: %w", err)
		}
	}
	delete(s.timelines, key(tenant, timeline))
	s.deleted[key(tenant, timeline)] = true
	if err := os.RemoveAll(filepath.Join(s.Dir, tenant, timeline)); err != nil {
		return false, fmt.Errorf("delete timeline: %w", err)
	}
	_ = os.Remove(filepath.Join(s.Dir, tenant)) // fails while another timeline is there
	return existed, s.removeBackup(ctx, tenant, timeline)
}

func (s *Safekeeper) membership(r *http.Request) (wire.Answer, error) {
	t, err := s.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	var body struct {
		Membership Membership `json:"mconf"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	previous := t.Membership()
	if err := t.setMembership(body.Membership); err != nil {
		return wire.Answer{}, wire.Errorf(http.StatusConflict, "%v", err)
	}
	p := t.Position()
	return wire.OK(map[string]any{
		"previous_conf": previous, "current_conf": t.Membership(), "last_log_term": p.Term, "flush_lsn": p.Flush,
	}), nil
}

// exclude removes a timeline from a safekeeper that is in its set no more.
func (s *Safekeeper) exclude(r *http.Request) (wire.Answer, error) {
	if _, err := s.find(r); err != nil {
		return wire.Answer{}, err
	}
	return s.delete(r)
}

func (s *Safekeeper) bump(r *http.Request) (wire.Answer, error) {
	t, err := s.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	var body struct {
		Term *int64 `json:"term"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	previous := t.Position().Term
	wanted := previous + 1
	if body.Term != nil {
		wanted = *body.Term
	}
	if wanted > previous {
		if _, err := t.log.Vote(wal.Term(wanted)); err != nil {
			return wire.Answer{}, err
		}
	}
	return wire.OK(map[string]int64{"previous_term": previous, "current_term": t.Position().Term}), nil
}

func (s *Safekeeper) metrics(*http.Request) (wire.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("# TYPE safekeeper_timelines gauge\nsafekeeper_timelines %d\n", len(s.timelines))
	for _, t := range s.timelines {
		p := t.Position()
		labels := fmt.Sprintf("{tenant_id=%q,timeline_id=%q}", t.Tenant, t.ID)
		text += fmt.Sprintf("safekeeper_commit_lsn%s %d\nsafekeeper_flush_lsn%s %d\nsafekeeper_acceptor_term%s %d\n",
			labels, p.Commit, labels, p.Flush, labels, p.Term)
	}
	return wire.OK(wire.Raw{Type: "text/plain; version=0.0.4", Content: []byte(text)}), nil
}
