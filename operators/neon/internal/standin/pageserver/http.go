package pageserver

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func (p *Pageserver) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/status", wire.Handler(func(*http.Request) (wire.Answer, error) {
		return wire.OK(map[string]int64{"id": p.ID}), nil
	}))
	mux.Handle("GET /metrics", wire.Handler(p.metrics))
	all := func(pattern string, h wire.Handler) {
		mux.Handle(pattern, wire.Handler(func(r *http.Request) (wire.Answer, error) {
			if err := p.check(r); err != nil {
				return wire.Answer{}, err
			}
			return h(r)
		}))
	}
	all("GET /v1/tenant", p.shardList)
	all("GET /v1/utilization", func(*http.Request) (wire.Answer, error) {
		return wire.OK(map[string]any{"disk_usage_bytes": 0, "free_space_bytes": 1 << 40, "utilization_score": 0}), nil
	})
	all("POST /v1/reload_auth_validation_keys", func(*http.Request) (wire.Answer, error) { return wire.OK(nil), p.readKey() })
	all("PUT /v1/tenant/{shard}/location_config", p.putLocation)
	all("DELETE /v1/tenant/{shard}", p.deleteShard)
	all("GET /v1/tenant/{shard}/timeline", p.timelines)
	all("GET /v1/tenant/{shard}/timeline_and_offloaded", p.timelinesAndOffloaded)
	all("POST /v1/tenant/{shard}/timeline", p.createTimeline)
	all("GET /v1/tenant/{shard}/timeline/{timeline}", p.timeline)
	all("DELETE /v1/tenant/{shard}/timeline/{timeline}", p.deleteTimeline)
	all("PUT /v1/tenant/{shard}/timeline/{timeline}/archival_config", p.archive)
	all("PUT /v1/tenant/{shard}/timeline/{timeline}/detach_ancestor", p.detachAncestor)
	all("GET /v1/tenant/{shard}/timeline/{timeline}/get_lsn_by_timestamp", p.lsnByTime)
	all("POST /v1/tenant/{shard}/timeline/{timeline}/lsn_lease", p.lease)
	return mux
}

func (p *Pageserver) check(r *http.Request) error {
	p.mu.Lock()
	auth := p.auth
	p.mu.Unlock()
	return auth.Check(r, tenantOf(cmp.Or(r.PathValue("shard"), r.PathValue("tenant"))), token.Pageserver)
}

func (p *Pageserver) timeline(r *http.Request) (wire.Answer, error) {
	s, t, err := p.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	p.refresh(r.Context(), s, t)
	return wire.OK(p.describe(s, t)), nil
}

func (p *Pageserver) list(r *http.Request) ([]Description, error) {
	p.mu.Lock()
	s, err := p.attachedShard(r.PathValue("shard"))
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	var all []*timeline
	for _, id := range slices.Sorted(maps.Keys(s.timelines)) {
		if t := s.timelines[id]; !t.index.Offloaded {
			all = append(all, t)
		}
	}
	p.mu.Unlock()
	list := []Description{}
	for _, t := range all {
		list = append(list, p.describe(s, t))
	}
	return list, nil
}

func (p *Pageserver) timelines(r *http.Request) (wire.Answer, error) {
	list, err := p.list(r)
	return wire.OK(list), err
}

// timelinesAndOffloaded also has the timelines that are offloaded: see [Pageserver.Offload].
func (p *Pageserver) timelinesAndOffloaded(r *http.Request) (wire.Answer, error) {
	list, err := p.list(r)
	if err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.attachedShard(r.PathValue("shard"))
	if err != nil {
		return wire.Answer{}, err
	}
	offloaded := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(s.timelines)) {
		if t := s.timelines[id]; t.index.Offloaded {
			offloaded = append(offloaded, map[string]any{
				"tenant_id": s.id, "timeline_id": id, "ancestor_timeline_id": t.index.Ancestor,
				"ancestor_retain_lsn": t.index.AncestorLSN, "archived_at": time.Now().UTC().Format(time.RFC3339),
			})
		}
	}
	return wire.OK(map[string]any{"timelines": list, "offloaded": offloaded}), nil
}

// leaseLength is that of the real program's leases.
const leaseLength = 60 * time.Second

func leaseEnd() string { return time.Now().UTC().Add(leaseLength).Format("2006-01-02T15:04:05.000Z") }

func (p *Pageserver) lsnByTime(r *http.Request) (wire.Answer, error) {
	at, err := time.Parse(time.RFC3339, r.URL.Query().Get("timestamp"))
	if err != nil {
		return wire.Answer{}, wire.BadRequest("Invalid timestamp: %v", err)
	}
	s, t, err := p.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	p.refresh(r.Context(), s, t)
	moments, err := p.moments(r.Context(), t)
	if err != nil {
		return wire.Answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lsn, kind := lsnAt(moments, at, max(t.index.Initdb, from(t.index.AncestorLSN)), t.lastRecord())
	answer := map[string]any{"lsn": lsn, "kind": kind}
	if r.URL.Query().Get("with_lease") == "true" {
		answer["valid_until"] = leaseEnd()
	}
	return wire.OK(answer), nil
}

func from(lsn *upstream.LSN) upstream.LSN {
	if lsn == nil {
		return 0
	}
	return *lsn
}

// lsnAt returns the end of the last commit that is not after a time, in a timeline that
// reaches from oldest to last.
func lsnAt(moments []safekeeper.Moment, at time.Time, oldest, last upstream.LSN) (upstream.LSN, upstream.LSNKind) {
	if len(moments) == 0 {
		return oldest, upstream.LSNNoData
	}
	after := slices.IndexFunc(moments, func(m safekeeper.Moment) bool { return m.Micros > at.UnixMicro() })
	switch after {
	case 0:
		return oldest, upstream.LSNPast
	case -1:
		return last, upstream.LSNFuture
	}
	return moments[after-1].LSN, upstream.LSNPresent
}

func (p *Pageserver) lease(r *http.Request) (wire.Answer, error) {
	var body struct {
		LSN upstream.LSN `json:"lsn"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	if _, _, err := p.find(r); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(map[string]string{"valid_until": leaseEnd()}), nil
}

func (p *Pageserver) metrics(*http.Request) (wire.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("pageserver_tenant_states_count{state=\"Active\"} %d\n", len(p.shards))
	for _, s := range p.shards {
		for _, t := range s.timelines {
			labels := fmt.Sprintf("{tenant_id=%q,shard_id=%q,timeline_id=%q}", t.tenant, s.id, t.index.ID)
			text += fmt.Sprintf("pageserver_last_record_lsn%s %d\n", labels, t.lastRecord())
		}
	}
	return wire.OK(wire.Raw{Type: "text/plain; version=0.0.4", Content: []byte(text)}), nil
}
