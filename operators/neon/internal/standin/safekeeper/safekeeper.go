// Package safekeeper stands in for Neon's safekeeper in tests. It is no part of Neon. It takes
// the real program's flags, keeps its state in the data directory, and answers the calls of the
// storage controller and of an operator as recordings of the real program show.
//
// It stores the WAL of computes ([Timeline]), and moves it with pull_timeline. Unlike the real
// program it talks to the stand-in for the broker by HTTP, under /standin.
package safekeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pintle-go/pintle/operators/neon/internal/objects"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Config holds the flags and the environment of the real program.
type Config struct {
	// Dir is the data directory. It must exist.
	Dir string
	// ID is that of the flag --id. Zero means the ID that is in Dir.
	ID int64
	// Zone is --availability-zone.
	Zone string
	// Broker is the URL of the broker.
	Broker string
	// AdvertisePG is the address that others reach the WAL service at.
	AdvertisePG string
	// AdvertiseHTTPS is that of the HTTP service with TLS. Default: the host of AdvertisePG, and the
	// port of the listener.
	AdvertiseHTTPS string
	// Auth checks the tokens of requests to the HTTP service.
	Auth wire.Auth
	// Token is that of the file of --auth-token-path. It is sent to other safekeepers.
	Token string
	// Objects is the remote storage, or nil.
	Objects objects.Store
	// HTTP makes the requests.
	HTTP *http.Client
	Log  *slog.Logger
}

// Listeners are where a safekeeper serves. PG may be nil. HTTPS are listeners with TLS.
type Listeners struct {
	HTTP, HTTPS []net.Listener
	PG          []net.Listener
}

// Safekeeper is one stand-in.
type Safekeeper struct {
	Config
	// Faults go wrong on purpose.
	Faults wire.Faults

	lock  *os.File
	kick  chan struct{}
	http  string // the address of the HTTP service that others use
	https string // and that with TLS, if there is one

	mu        sync.Mutex
	timelines map[string]*Timeline
	// deleted are timelines that were deleted since the start: the real program forgets
	// them in the same way.
	deleted map[string]bool
}

// Open claims the data directory, sets or reads the ID, and loads the timelines.
func Open(c Config) (*Safekeeper, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Safekeeper{
		Config: c, kick: make(chan struct{}, 1), timelines: map[string]*Timeline{}, deleted: map[string]bool{},
	}
	dir, err := filepath.EvalSymlinks(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("get the absolute path for input workdir %s: %w", c.Dir, err)
	}
	s.Dir = dir
	if err := s.claim(); err != nil {
		return nil, err
	}
	if err := s.setID(); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.load(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// claim locks the data directory, so that two programs never share it.
func (s *Safekeeper) claim() error {
	lock, err := os.OpenFile(filepath.Join(s.Dir, "safekeeper.pid"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("claim pid file: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return fmt.Errorf("claim pid file: %w", err)
	}
	if err := lock.Truncate(0); err != nil {
		lock.Close()
		return fmt.Errorf("claim pid file: %w", err)
	}
	_, _ = fmt.Fprintf(lock, "%d", os.Getpid()) // for people
	s.lock = lock
	return nil
}

func (s *Safekeeper) setID() error {
	path := filepath.Join(s.Dir, "safekeeper.id")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.ID == 0:
		return errors.New("safekeeper id is not specified")
	case errors.Is(err, fs.ErrNotExist):
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d", s.ID), 0o644); err != nil {
			return fmt.Errorf("write safekeeper id: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read safekeeper id: %w", err)
	}
	id, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("parse safekeeper id: %w", err)
	}
	if s.ID != 0 && s.ID != id {
		return fmt.Errorf("safekeeper already initialized with id %d, can't set %d", id, s.ID)
	}
	s.ID = id
	return nil
}

func (s *Safekeeper) load() error {
	files, err := filepath.Glob(filepath.Join(s.Dir, "*", "*", stateFile))
	if err != nil {
		return fmt.Errorf("find timelines: %w", err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		tenant, id := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
		t, err := loadTimeline(dir, tenant, id, s.changed)
		if err != nil {
			return err
		}
		s.timelines[key(tenant, id)] = t
	}
	return nil
}

// Close gives up the data directory.
func (s *Safekeeper) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.timelines {
		if err := t.close(); err != nil {
			s.Log.Warn("close timeline", "error", err)
		}
	}
	s.timelines = map[string]*Timeline{}
	s.lock.Close()
}

// Run serves until ctx ends, then closes the safekeeper.
func (s *Safekeeper) Run(ctx context.Context, on Listeners) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.Close()
	s.http = s.advertised(on.HTTP)
	if len(on.HTTPS) > 0 {
		s.https = cmp.Or(s.AdvertiseHTTPS, s.advertised(on.HTTPS))
	}
	s.Log.Info("stand-in for Neon's safekeeper, no part of Neon", "id", s.ID, "dir", s.Dir)

	var group sync.WaitGroup
	failed := make(chan error, len(on.HTTP)+len(on.HTTPS)+len(on.PG))
	handler := s.Faults.Wrap(s.handler())
	for _, listener := range slices.Concat(on.HTTP, on.HTTPS) {
		group.Go(func() { failed <- wire.Serve(ctx, listener, handler) })
	}
	for _, listener := range on.PG {
		group.Go(func() { failed <- s.serveWAL(ctx, listener) })
	}
	group.Go(func() { s.publish(ctx) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	group.Wait()
	return err
}

// serveWAL serves the logs to computes, replicas and pageservers.
func (s *Safekeeper) serveWAL(ctx context.Context, listener net.Listener) error {
	server := &wal.Server{Find: func(tenant, timeline string) (*wal.Log, error) {
		t, err := s.Timeline(tenant, timeline)
		if err != nil {
			return nil, err
		}
		return t.log, nil
	}}
	if s.Auth.Key != nil {
		server.Verify = s.verify
	}
	return server.Serve(ctx, listener)
}

// verify allows the token of a tenant, and those of pageservers and other safekeepers.
func (s *Safekeeper) verify(text, tenant string) error {
	claims, err := s.Auth.Key.Verify(text)
	if err != nil {
		return err
	}
	if claims.Scope == token.Safekeeper || claims.Scope == token.Tenant && claims.TenantID == tenant {
		return nil
	}
	return fmt.Errorf("scope %s does not allow access to tenant %s", claims.Scope, tenant)
}

// advertised joins the host that is advertised for the WAL service and the port of an HTTP
// service.
func (s *Safekeeper) advertised(on []net.Listener) string {
	if len(on) == 0 {
		return ""
	}
	_, port, err := net.SplitHostPort(on[0].Addr().String())
	if err != nil {
		return ""
	}
	host, _, err := net.SplitHostPort(s.AdvertisePG)
	if err != nil {
		return on[0].Addr().String()
	}
	return net.JoinHostPort(host, port)
}

// Timeline returns a timeline that the safekeeper holds. The error is upstream's 404.
func (s *Safekeeper) Timeline(tenant, id string) (*Timeline, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.timelines[key(tenant, id)]; ok {
		return t, nil
	}
	if s.deleted[key(tenant, id)] {
		return nil, wire.NotFound("timeline %s deleted", key(tenant, id))
	}
	return nil, wire.NotFound("timeline %s not found", key(tenant, id))
}

func key(tenant, timeline string) string { return tenant + "/" + timeline }

// changed lets the broker know soon.
func (s *Safekeeper) changed() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Published is the news about a timeline that a safekeeper gives to the broker.
type Published struct {
	Safekeeper int64        `json:"safekeeper_id"`
	Tenant     string       `json:"tenant_id"`
	Timeline   string       `json:"timeline_id"`
	Term       int64        `json:"term"`
	Start      upstream.LSN `json:"local_start_lsn"`
	Flush      upstream.LSN `json:"flush_lsn"`
	Commit     upstream.LSN `json:"commit_lsn"`
	PG         string       `json:"safekeeper_connstr"`
	HTTP       string       `json:"http_connstr"`
	HTTPS      string       `json:"https_connstr,omitempty"`
	Micros     int64        `json:"micros"`
}

// publishEvery is the real program's interval.
const publishEvery = time.Second

func (s *Safekeeper) publish(ctx context.Context) {
	if s.Broker == "" {
		return
	}
	ticker := time.NewTicker(publishEvery)
	defer ticker.Stop()
	for {
		s.Publish(ctx)
		select {
		case <-ctx.Done():
			return
		// The broker hears of each timeline every second.
		case <-ticker.C:
		// And at once of a commit.
		case <-s.kick:
		}
	}
}

// URL returns the address of the HTTP service of the safekeeper that published news, for a reader that
// trusts the authority of its certificate or does not.
func (p Published) URL(trusts bool) string {
	if trusts && p.HTTPS != "" {
		return "https://" + p.HTTPS
	}
	return "http://" + p.HTTP
}

// Publish tells the broker about all timelines. A broker that does not answer is ignored.
func (s *Safekeeper) Publish(ctx context.Context) {
	all := []Published{}
	s.mu.Lock()
	for _, t := range s.timelines {
		p := t.Position()
		all = append(all, Published{
			Safekeeper: s.ID, Tenant: t.Tenant, Timeline: t.ID, Term: p.Term, Start: p.Start, Flush: p.Flush,
			Commit: p.Commit, PG: s.AdvertisePG, HTTP: s.http, HTTPS: s.https, Micros: time.Now().UnixMicro(),
		})
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	err := wire.Client{HTTP: s.HTTP}.Do(ctx, http.MethodPost, s.Broker+"/standin/publish", all, nil)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("publish", "error", err)
	}
	s.backup(ctx)
}
