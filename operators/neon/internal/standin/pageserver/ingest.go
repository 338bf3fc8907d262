package pageserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// ingestEvery is how often a pageserver looks for WAL. A request for a timeline looks at once.
const ingestEvery = time.Second

// ingest reads the WAL of all timelines from the safekeepers until ctx ends.
func (p *Pageserver) ingest(ctx context.Context) {
	ticker := time.NewTicker(ingestEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var all []safekeeper.Published
		if err := (wire.Client{HTTP: p.HTTP}).Do(ctx, http.MethodGet, p.Broker+"/standin/timelines", nil, &all); err != nil {
			continue
		}
		byTimeline := map[string][]safekeeper.Published{}
		for _, said := range all {
			key := said.Tenant + "/" + said.Timeline
			byTimeline[key] = append(byTimeline[key], said)
		}
		for _, said := range byTimeline {
			p.mu.Lock()
			s, err := p.attachedShard(said[0].Tenant)
			var t *timeline
			if err == nil {
				t = s.timelines[said[0].Timeline]
			}
			p.mu.Unlock()
			if t != nil {
				p.read(ctx, s, t, said)
			}
		}
	}
}

// refresh reads the WAL of a timeline that the broker knows of. Without a broker or safekeepers
// the timeline stays as it is.
func (p *Pageserver) refresh(ctx context.Context, s *shard, t *timeline) {
	var said []safekeeper.Published
	address := p.Broker + "/standin/timeline/" + t.tenant + "/" + t.index.ID
	if err := (wire.Client{HTTP: p.HTTP}).Do(ctx, http.MethodGet, address, nil, &said); err != nil {
		return
	}
	p.read(ctx, s, t, said)
}

// trusts reports that the pageserver has authorities by which it checks certificates.
func (p *Pageserver) trusts() bool { return p.CA != "" }

func (p *Pageserver) walPath(s *shard, t *timeline) string {
	return filepath.Join(p.shardDir(s.id), "timelines", t.index.ID, "wal")
}

func (p *Pageserver) removeLocal(s *shard, t *timeline) error {
	return os.RemoveAll(filepath.Dir(p.walPath(s, t)))
}

// read appends the WAL that safekeepers have committed to the timeline's local file.
func (p *Pageserver) read(ctx context.Context, s *shard, t *timeline, said []safekeeper.Published) {
	for _, from := range said {
		p.mu.Lock()
		have := t.local(p.walPath(s, t))
		p.mu.Unlock()
		if from.Commit <= have || from.Start > have {
			continue
		}
		var wal []byte
		address := from.URL(p.trusts()) + "/standin/tenant/" + t.tenant + "/timeline/" + t.index.ID +
			"/wal?" + url.Values{"from": {have.String()}}.Encode()
		client := wire.Client{HTTP: p.HTTP, Token: p.Token}
		if err := client.Do(ctx, http.MethodGet, address, nil, &wal); err != nil {
			continue
		}
		if err := p.append(s, t, have, wal); err != nil {
			p.Log.Warn("write WAL", "timeline", t.index.ID, "error", err)
			continue
		}
		p.mu.Lock()
		t.source, t.micros = from.PG, time.Now().UnixMicro()
		p.mu.Unlock()
	}
}

// local returns the end of the WAL that is on the disk.
func (t *timeline) local(path string) upstream.LSN {
	if t.last == 0 {
		t.last = t.index.Start
		if info, err := os.Stat(path); err == nil {
			t.last += upstream.LSN(info.Size())
		}
	}
	return t.last
}

func (p *Pageserver) append(s *shard, t *timeline, at upstream.LSN, wal []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.last != at || t.deleted {
		return nil // another reader was faster
	}
	path := p.walPath(s, t)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(wal, int64(at-t.index.Start)); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	t.last = at + upstream.LSN(len(wal))
	return nil
}

// moments returns the commits of a timeline, from a safekeeper that holds it.
func (p *Pageserver) moments(ctx context.Context, t *timeline) ([]safekeeper.Moment, error) {
	var said []safekeeper.Published
	address := p.Broker + "/standin/timeline/" + t.tenant + "/" + t.index.ID
	if err := (wire.Client{HTTP: p.HTTP}).Do(ctx, http.MethodGet, address, nil, &said); err != nil {
		return nil, fmt.Errorf("ask the broker: %w", err)
	}
	var longest []safekeeper.Moment
	for _, from := range said {
		var moments []safekeeper.Moment
		address := from.URL(p.trusts()) + "/standin/tenant/" + t.tenant + "/timeline/" + t.index.ID + "/moments"
		client := wire.Client{HTTP: p.HTTP, Token: p.Token}
		if err := client.Do(ctx, http.MethodGet, address, nil, &moments); err == nil && len(moments) > len(longest) {
			longest = moments
		}
	}
	return longest, nil
}

// part is a piece of WAL of one timeline.
type part struct {
	Timeline string       `json:"timeline_id"`
	From     upstream.LSN `json:"from"`
	To       upstream.LSN `json:"to"`
	// Key is the object that holds the piece, or empty for the timeline's local file.
	Key string `json:"key,omitempty"`
}

// history returns the pieces of WAL from initdb to an LSN in a timeline, oldest first, and the
// timeline whose initdb is at their beginning.
func (p *Pageserver) history(s *shard, t *timeline, to upstream.LSN) ([]part, *timeline, error) {
	var parts []part
	for {
		if t == nil {
			return nil, nil, errors.New("an ancestor is missing")
		}
		if to > t.index.Start {
			parts = append([]part{{Timeline: t.index.ID, From: t.index.Start, To: to}}, parts...)
		}
		if t.index.Ancestor == nil {
			return append(append([]part{}, t.index.Detached...), parts...), t, nil
		}
		to = min(to, *t.index.AncestorLSN)
		t = s.timelines[*t.index.Ancestor]
	}
}

// content returns the WAL of a piece.
func (p *Pageserver) content(ctx context.Context, s *shard, piece part) ([]byte, error) {
	if piece.Key != "" {
		return p.Objects.Get(ctx, piece.Key)
	}
	p.mu.Lock()
	t := s.timelines[piece.Timeline]
	p.mu.Unlock()
	if t == nil {
		return nil, notFound(tenantOf(s.id), piece.Timeline)
	}
	wal, err := os.ReadFile(p.walPath(s, t))
	if errors.Is(err, fs.ErrNotExist) {
		wal, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read WAL: %w", err)
	}
	from, to := int(piece.From-t.index.Start), int(piece.To-t.index.Start)
	if to > len(wal) {
		return nil, fmt.Errorf("read WAL: %s of timeline %s is not here yet", piece.To, piece.Timeline)
	}
	return wal[from:to], nil
}

// keepHistory copies the WAL that a branch has from its ancestors to objects of its own.
func (p *Pageserver) keepHistory(ctx context.Context, s *shard, t *timeline) ([]part, error) {
	p.mu.Lock()
	ancestor := s.timelines[*t.index.Ancestor]
	p.mu.Unlock()
	if ancestor != nil {
		p.refresh(ctx, s, ancestor)
	}
	p.mu.Lock()
	parts, root, err := p.history(s, t, t.index.Start)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	initdb, err := p.Objects.Get(ctx, initdbKey(s.id, root.index.ID))
	if err != nil {
		return nil, err
	}
	if err := p.Objects.Put(ctx, initdbKey(s.id, t.index.ID), initdb); err != nil {
		return nil, err
	}
	for i, piece := range parts {
		wal, err := p.content(ctx, s, piece)
		if err != nil {
			return nil, err
		}
		parts[i].Key = fmt.Sprintf("%stimelines/%s/wal-%016X", prefix(s.id), t.index.ID, uint64(piece.From))
		if err := p.Objects.Put(ctx, parts[i].Key, wal); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
