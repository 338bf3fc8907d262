package pageserver

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// pages serves computes. The real port speaks the protocol of PostgreSQL.
func (p *Pageserver) pages() http.Handler {
	pages := &wal.Pages{Base: p.pagesBase, Pieces: p.pagesPieces}
	if p.PGAuth == "NeonJWT" {
		pages.Verify = p.verify
	}
	return pages
}

// verify allows the token of a tenant.
func (p *Pageserver) verify(text, tenant string) error {
	p.mu.Lock()
	key := p.auth.Key
	p.mu.Unlock()
	if key == nil {
		return nil
	}
	claims, err := key.Verify(text)
	if err != nil {
		return err
	}
	if claims.Scope == token.Pageserver || claims.Scope == token.Tenant && claims.TenantID == tenant {
		return nil
	}
	return fmt.Errorf("scope %s does not allow access to tenant %s", claims.Scope, tenant)
}

// known returns a timeline that is attached here.
func (p *Pageserver) known(tenant, id string) (*shard, *timeline, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.attachedShard(tenant)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", wal.ErrNoTimeline, err)
	}
	t := s.timelines[id]
	if t == nil {
		return nil, nil, fmt.Errorf("%w: Not found: Timeline %s/%s was not found", wal.ErrNoTimeline, tenant, id)
	}
	return s, t, nil
}

func (p *Pageserver) pagesBase(ctx context.Context, tenant, id string) ([]byte, error) {
	s, t, err := p.known(tenant, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	_, root, err := p.history(s, t, t.index.Start)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return p.Objects.Get(ctx, initdbKey(s.id, root.index.ID))
}

func (p *Pageserver) pagesPieces(ctx context.Context, tenant, id string) ([]wal.Piece, error) {
	s, t, err := p.known(tenant, id)
	if err != nil {
		return nil, err
	}
	p.refresh(ctx, s, t)
	p.mu.Lock()
	end := t.local(p.walPath(s, t))
	parts, _, err := p.history(s, t, end)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var pieces []wal.Piece
	for _, one := range parts {
		p.mu.Lock()
		owner := s.timelines[one.Timeline]
		p.mu.Unlock()
		if one.Key == "" && owner != nil && owner != t {
			p.refresh(ctx, s, owner)
		}
		pieces = append(pieces, wal.Piece{End: wal.LSN(one.To), Read: func(ctx context.Context, from wal.LSN) ([]byte, error) {
			if upstream.LSN(from) < one.From {
				return nil, fmt.Errorf("%w: %s", wal.ErrMissing, from)
			}
			content, err := p.content(ctx, s, one)
			if err != nil {
				return nil, err
			}
			return content[upstream.LSN(from)-one.From:], nil
		}})
	}
	if len(pieces) == 0 {
		pieces = append(pieces, wal.Piece{End: wal.LSN(end), Read: func(context.Context, wal.LSN) ([]byte, error) { return nil, nil }})
	}
	return pieces, nil
}
