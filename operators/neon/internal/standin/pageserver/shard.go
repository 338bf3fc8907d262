package pageserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/operators/neon/internal/objects"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// Location is where and how a pageserver holds a shard.
type Location struct {
	// Mode is AttachedSingle, AttachedMulti, AttachedStale, Secondary or Detached.
	Mode       string          `json:"mode"`
	Generation *int64          `json:"generation"`
	Secondary  json.RawMessage `json:"secondary_conf"`
	Number     int             `json:"shard_number"`
	Count      int             `json:"shard_count"`
	StripeSize int             `json:"shard_stripe_size"`
	Config     map[string]any  `json:"tenant_conf"`
	// SplitFrom is the shard that this one is a part of since a split.
	SplitFrom string `json:"standin_split_from,omitempty"`
}

func (l Location) attached() bool { return strings.HasPrefix(l.Mode, "Attached") }

// shard is a shard on this pageserver. Its fields are guarded by the pageserver's lock.
type shard struct {
	id        string
	location  Location
	timelines map[string]*timeline
	// attached ends when the shard is attached here no more.
	attached context.Context //nolint:containedctx // it is the life of the attachment, not of a call
	detach   context.CancelFunc
}

const tenantDigits = 32

// tenantOf returns the tenant of a shard: shards of split tenants have a suffix.
func tenantOf(shard string) string { return shard[:min(len(shard), tenantDigits)] }

// zero reports whether a shard is the only one or the first.
func zero(shard string) bool {
	return len(shard) == tenantDigits || strings.HasPrefix(shard[tenantDigits:], "-00")
}

func (p *Pageserver) shardDir(id string) string { return filepath.Join(p.Dir, "tenants", id) }

func (p *Pageserver) locate(ctx context.Context, id string, l Location) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shards[id]
	if l.Mode == "Detached" {
		if s != nil {
			s.detach()
			delete(p.shards, id)
		}
		return os.RemoveAll(p.shardDir(id))
	}
	if err := os.MkdirAll(p.shardDir(id), 0o755); err != nil {
		return fmt.Errorf("make shard's directory: %w", err)
	}
	if s != nil && s.location.attached() == l.attached() {
		s.location = l
		return nil
	}
	if s != nil {
		s.detach()
	}
	attached, detach := context.WithCancel(context.WithoutCancel(ctx))
	s = &shard{id: id, location: l, timelines: map[string]*timeline{}, attached: attached, detach: detach}
	if l.attached() {
		if l.SplitFrom != "" {
			if err := p.copyObjects(ctx, l.SplitFrom, id); err != nil {
				detach()
				return err
			}
		}
		if err := p.loadTimelines(ctx, s); err != nil {
			detach()
			return err
		}
	}
	p.shards[id] = s
	return nil
}

// prefix is where the object store has a shard.
func prefix(shard string) string { return "tenants/" + shard + "/" }

func indexKey(shard, timeline string) string {
	return prefix(shard) + "timelines/" + timeline + "/index_part.json"
}

func initdbKey(shard, timeline string) string {
	return prefix(shard) + "timelines/" + timeline + "/initdb.tar"
}

func (p *Pageserver) loadTimelines(ctx context.Context, s *shard) error {
	keys, err := p.Objects.List(ctx, prefix(s.id)+"timelines/")
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !strings.HasSuffix(key, "/index_part.json") {
			continue
		}
		text, err := p.Objects.Get(ctx, key)
		if errors.Is(err, objects.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		t := &timeline{tenant: tenantOf(s.id)}
		if err := json.Unmarshal(text, &t.index); err != nil {
			return fmt.Errorf("decode index of timeline: %w", err)
		}
		s.timelines[t.index.ID] = t
	}
	return nil
}

func (p *Pageserver) copyObjects(ctx context.Context, from, to string) error {
	keys, err := p.Objects.List(ctx, prefix(from))
	if err != nil {
		return err
	}
	for _, key := range keys {
		content, err := p.Objects.Get(ctx, key)
		if err != nil {
			return err
		}
		if err := p.Objects.Put(ctx, prefix(to)+strings.TrimPrefix(key, prefix(from)), content); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pageserver) deleteObjects(ctx context.Context, prefix string) error {
	keys, err := p.Objects.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := p.Objects.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// attachedShard returns a shard that is attached here. The ID of a tenant stands for its first
// shard.
func (p *Pageserver) attachedShard(id string) (*shard, error) {
	for _, known := range slices.Sorted(maps.Keys(p.shards)) {
		s := p.shards[known]
		if s.location.attached() && (known == id || tenantOf(known) == id && zero(known)) {
			return s, nil
		}
	}
	return nil, wire.NotFound("tenant %s", id)
}

// shardList answers with the shards that are attached.
func (p *Pageserver) shardList(*http.Request) (wire.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(p.shards)) {
		s := p.shards[id]
		if !s.location.attached() {
			continue
		}
		list = append(list, map[string]any{
			"id": id, "state": map[string]string{"slug": "Active"}, "current_physical_size": nil,
			"attachment_status": map[string]string{"slug": "attached"}, "generation": s.location.Generation,
		})
	}
	return wire.OK(list), nil
}

func (p *Pageserver) putLocation(r *http.Request) (wire.Answer, error) {
	var l Location
	if err := wire.Decode(r, &l); err != nil {
		return wire.Answer{}, err
	}
	id := r.PathValue("shard")
	if err := p.locate(r.Context(), id, l); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(map[string]any{"shards": []map[string]any{{"shard_id": id, "node_id": p.ID}}, "stripe_size": nil}), nil
}

// deleteShard forgets a shard and deletes it from the object store.
func (p *Pageserver) deleteShard(r *http.Request) (wire.Answer, error) {
	id := r.PathValue("shard")
	if err := p.locate(r.Context(), id, Location{Mode: "Detached"}); err != nil {
		return wire.Answer{}, err
	}
	if err := p.deleteObjects(r.Context(), prefix(id)); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(nil), nil
}
