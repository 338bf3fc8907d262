package safekeeper

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Pull is the storage controller's request to copy a timeline from other safekeepers.
type Pull struct {
	Tenant          string      `json:"tenant_id"`
	Timeline        string      `json:"timeline_id"`
	Hosts           []string    `json:"http_hosts"`
	IgnoreTombstone *bool       `json:"ignore_tombstone"`
	Membership      *Membership `json:"mconf"`
}

func (s *Safekeeper) pull(r *http.Request) (wire.Answer, error) {
	var p Pull
	if err := wire.Decode(r, &p); err != nil {
		return wire.Answer{}, err
	}
	if err := errors.Join(wire.CheckID(p.Tenant), wire.CheckID(p.Timeline)); err != nil {
		return wire.Answer{}, err
	}
	if t, err := s.Timeline(p.Tenant, p.Timeline); err == nil {
		if p.Membership != nil {
			if err := t.setMembership(*p.Membership); err != nil {
				return wire.Answer{}, err
			}
		}
		return wire.OK(map[string]any{"safekeeper_host": nil}), nil
	}
	host, content, err := s.furthest(r.Context(), p)
	if err != nil {
		return wire.Answer{}, err
	}
	dir := filepath.Join(s.Dir, p.Tenant, p.Timeline)
	if err := unpack(dir, content); err != nil {
		return wire.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := loadTimeline(dir, p.Tenant, p.Timeline, s.changed)
	if err != nil {
		return wire.Answer{}, err
	}
	if p.Membership != nil {
		if err := t.setMembership(*p.Membership); err != nil {
			return wire.Answer{}, err
		}
	}
	delete(s.deleted, key(p.Tenant, p.Timeline))
	s.timelines[key(p.Tenant, p.Timeline)] = t
	s.changed()
	return wire.OK(map[string]any{"safekeeper_host": host}), nil
}

// furthest returns the copy of the safekeeper that has the most WAL.
func (s *Safekeeper) furthest(ctx context.Context, p Pull) (string, []byte, error) {
	client := wire.Client{HTTP: s.HTTP, Token: s.Token}
	var best string
	var most upstream.LSN
	for _, host := range p.Hosts {
		var status Status
		url := host + "/v1/tenant/" + p.Tenant + "/timeline/" + p.Timeline
		if err := client.Do(ctx, http.MethodGet, url, nil, &status); err != nil {
			continue
		}
		if best == "" || status.Flush > most {
			best, most = host, status.Flush
		}
	}
	if best == "" {
		return "", nil, fmt.Errorf("timeline %s is on none of %v", key(p.Tenant, p.Timeline), p.Hosts)
	}
	var content []byte
	url := best + "/standin/tenant/" + p.Tenant + "/timeline/" + p.Timeline + "/snapshot"
	if err := client.Do(ctx, http.MethodGet, url, nil, &content); err != nil {
		return "", nil, fmt.Errorf("copy timeline: %w", err)
	}
	return best, content, nil
}

// snapshot answers with a tar of the timeline's directory.
func (s *Safekeeper) snapshot(r *http.Request) (wire.Answer, error) {
	t, err := s.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	if err := t.log.Hold(func() error { return archive.AddFS(os.DirFS(t.dir)) }); err != nil {
		return wire.Answer{}, fmt.Errorf("pack timeline: %w", err)
	}
	if err := archive.Close(); err != nil {
		return wire.Answer{}, fmt.Errorf("pack timeline: %w", err)
	}
	return wire.OK(wire.Raw{Type: "application/x-tar", Content: content.Bytes()}), nil
}

func unpack(dir string, content []byte) error {
	archive := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack timeline: %w", err)
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("unpack timeline: name %q leaves the directory", header.Name)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("unpack timeline: %w", err)
		}
		file, err := io.ReadAll(archive)
		if err != nil {
			return fmt.Errorf("unpack timeline: %w", err)
		}
		if err := os.WriteFile(path, file, 0o644); err != nil {
			return fmt.Errorf("unpack timeline: %w", err)
		}
	}
}

// largestRead is the most WAL in one answer.
const largestRead = 64 << 20

// wal answers with committed WAL from an LSN on.
func (s *Safekeeper) wal(r *http.Request) (wire.Answer, error) {
	t, err := s.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	from, err := upstream.ParseLSN(r.URL.Query().Get("from"))
	if err != nil {
		return wire.Answer{}, wire.BadRequest("%v", err)
	}
	content, err := t.Read(from, largestRead)
	if err != nil {
		return wire.Answer{}, wire.BadRequest("%v", err)
	}
	return wire.OK(wire.Raw{Type: "application/octet-stream", Content: content}), nil
}

// moments answers with the times of commits.
func (s *Safekeeper) moments(r *http.Request) (wire.Answer, error) {
	t, err := s.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	moments, err := t.Moments()
	if err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(moments), nil
}

// backup writes the files of WAL that are complete to the remote storage.
func (s *Safekeeper) backup(ctx context.Context) {
	if s.Objects == nil {
		return
	}
	s.mu.Lock()
	var all []*Timeline
	for _, t := range s.timelines {
		all = append(all, t)
	}
	s.mu.Unlock()
	for _, t := range all {
		if err := s.backupTimeline(ctx, t); err != nil && ctx.Err() == nil {
			s.Log.Warn("back up WAL", "timeline", t.ID, "error", err)
		}
	}
}

func (s *Safekeeper) backupTimeline(ctx context.Context, t *Timeline) error {
	for {
		commit := t.Position().Commit
		t.mu.Lock()
		from, start := t.state.Backup, t.state.Start
		t.mu.Unlock()
		if from+segment > commit {
			return nil
		}
		content, err := t.Read(max(from, start), int(from+segment-max(from, start)))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s/%s/%024X", t.Tenant, t.ID, uint64(from/segment))
		if err := s.Objects.Put(ctx, name, content); err != nil {
			return err
		}
		t.mu.Lock()
		t.state.Backup = from + segment
		err = t.save()
		t.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (s *Safekeeper) removeBackup(ctx context.Context, tenant, timeline string) error {
	if s.Objects == nil {
		return nil
	}
	keys, err := s.Objects.List(ctx, strings.Join([]string{tenant, timeline, ""}, "/"))
	if err != nil {
		return fmt.Errorf("delete timeline from remote storage: %w", err)
	}
	for _, key := range keys {
		if err := s.Objects.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete timeline from remote storage: %w", err)
		}
	}
	return nil
}
