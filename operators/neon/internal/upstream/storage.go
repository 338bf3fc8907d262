package upstream

import (
	"context"
	"net/http"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Safekeeper calls a safekeeper.
type Safekeeper struct{ caller }

// NewSafekeeper returns the client of a safekeeper.
func NewSafekeeper(c Config) *Safekeeper { return &Safekeeper{caller{c}} }

// ID returns the ID that the safekeeper keeps on its volume.
func (s *Safekeeper) ID(ctx context.Context) (int64, error) { return s.id(ctx) }

// TimelineCount returns the number of timelines that the safekeeper holds. It is zero after the
// loss of the volume.
func (s *Safekeeper) TimelineCount(ctx context.Context) (int, error) {
	var answer struct {
		Count int `json:"timeline_count"`
	}
	err := s.call(ctx, request{http.MethodGet, "/v1/utilization", scope(token.Safekeeper), nil}, &answer)
	return answer.Count, err
}

// WAL is the state of a timeline on a safekeeper.
type WAL struct {
	TenantID   string `json:"tenant_id"`
	TimelineID string `json:"timeline_id"`
	Membership struct {
		Generation int64    `json:"generation"`
		Members    []Member `json:"members"`
		// NewMembers is set during a migration.
		NewMembers []Member `json:"new_members"`
	} `json:"mconf"`
	Acceptor struct {
		// Term rises with each start of a compute.
		Term int64 `json:"term"`
	} `json:"acceptor_state"`
	FlushLSN            LSN `json:"flush_lsn"`
	CommitLSN           LSN `json:"commit_lsn"`
	StartLSN            LSN `json:"timeline_start_lsn"`
	BackupLSN           LSN `json:"backup_lsn"`
	RemoteConsistentLSN LSN `json:"remote_consistent_lsn"`
}

// Member is a safekeeper of a timeline's set.
type Member struct {
	ID   int64  `json:"id"`
	Host string `json:"host"`
	Port int    `json:"pg_port"`
}

// Timeline returns the state of a timeline. The error is [IsNotFound] when the safekeeper
// does not hold it.
func (s *Safekeeper) Timeline(ctx context.Context, tenant, timeline string) (WAL, error) {
	var w WAL
	err := s.call(ctx, request{http.MethodGet, timelinePath(tenant, timeline, ""), scope(token.Safekeeper), nil}, &w)
	return w, err
}

// Pageserver calls a pageserver.
type Pageserver struct{ caller }

// NewPageserver returns the client of a pageserver.
func NewPageserver(c Config) *Pageserver { return &Pageserver{caller{c}} }

// ID returns the ID of the pageserver. A pageserver that cannot register itself takes
// connections and does not answer.
func (p *Pageserver) ID(ctx context.Context) (int64, error) { return p.id(ctx) }

// PageserverTenant is a shard as its pageserver knows it.
type PageserverTenant struct {
	ID    string `json:"id"`
	State struct {
		Slug string `json:"slug"`
	} `json:"state"`
	Generation *int64 `json:"generation"`
}

// Tenants returns the shards that are attached to the pageserver.
func (p *Pageserver) Tenants(ctx context.Context) ([]PageserverTenant, error) {
	var all []PageserverTenant
	err := p.call(ctx, request{http.MethodGet, "/v1/tenant", scope(token.Pageserver), nil}, &all)
	return all, err
}

// ReloadKeys makes the pageserver read the file of its public keys again.
func (p *Pageserver) ReloadKeys(ctx context.Context) error {
	return p.call(ctx, request{http.MethodPost, "/v1/reload_auth_validation_keys", scope(token.Pageserver), nil}, nil)
}

func (c caller) id(ctx context.Context) (int64, error) {
	var answer struct {
		ID int64 `json:"id"`
	}
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/status"}, &answer)
	return answer.ID, err
}
