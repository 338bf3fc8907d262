// Package pageserver stands in for Neon's pageserver in tests. It is no part of Neon. It reads
// the real program's files from its working directory, registers itself with the storage
// controller, keeps timelines in the object store, and answers the calls of the storage
// controller and of an operator as recordings of the real program show.
//
// It holds no pages: a timeline is the files that initdb made, and the WAL since. A compute's
// stand-in asks the port for PostgreSQL for both, by HTTP: see package wal.
package pageserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/objects"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// Pageserver is one stand-in.
type Pageserver struct {
	Settings
	// Dir is the working directory.
	Dir string
	// Objects is the remote storage.
	Objects objects.Store
	// Token is NEON_AUTH_TOKEN. It is sent to safekeepers.
	Token string
	// HTTP makes the requests.
	HTTP *http.Client
	// RetryEvery is the time between tries to register.
	RetryEvery time.Duration
	// Bases may be shared with other pageservers.
	Bases *Bases
	// Faults go wrong on purpose.
	Faults wire.Faults
	Log    *slog.Logger

	attached chan struct{} // closed when the storage controller has named the shards to attach

	mu     sync.Mutex
	auth   wire.Auth
	shards map[string]*shard
}

// Listeners are where a pageserver serves.
type Listeners struct{ HTTP, PG []net.Listener }

// Open reads the files of a working directory.
func Open(dir string) (*Pageserver, error) {
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	store, err := objects.Open(settings.RemoteStorage, objects.CredentialsFromEnvironment())
	if err != nil {
		return nil, err
	}
	p := &Pageserver{
		Settings: settings, Dir: dir, Objects: store, RetryEvery: 3 * time.Second,
		attached: make(chan struct{}), shards: map[string]*shard{}, Bases: new(Bases), Log: slog.New(slog.DiscardHandler),
	}
	return p, p.readKey()
}

// Run registers the pageserver, tries again until that succeeds, and serves until ctx
// ends. Until it is registered it takes requests and does not answer them.
func (p *Pageserver) Run(ctx context.Context, on Listeners) error {
	p.Log.Info("stand-in for Neon's pageserver, no part of Neon", "id", p.ID, "dir", p.Dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	failed := make(chan error, len(on.HTTP)+len(on.PG)+1)
	for _, listener := range on.HTTP {
		group.Go(func() { failed <- wire.Serve(ctx, listener, p.Faults.Wrap(p.whenAttached(p.handler()))) })
	}
	for _, listener := range on.PG {
		group.Go(func() { failed <- wire.Serve(ctx, listener, p.whenAttached(p.pages())) })
	}
	group.Go(func() {
		if err := p.register(ctx); err != nil {
			failed <- err
			return
		}
		p.ingest(ctx)
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	group.Wait()
	return err
}

func (p *Pageserver) whenAttached(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-p.attached:
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	})
}

// ReAttach is the question of a pageserver to the storage controller at its start.
type ReAttach struct {
	Node      int64         `json:"node_id"`
	Register  *Registration `json:"register,omitempty"`
	EmptyDisk *bool         `json:"empty_local_disk,omitempty"`
}

// Registration is metadata.json in the form of the storage controller.
type Registration struct {
	Node      int64   `json:"node_id"`
	PGHost    string  `json:"listen_pg_addr"`
	PGPort    int     `json:"listen_pg_port"`
	GRPCHost  *string `json:"listen_grpc_addr"`
	GRPCPort  *int    `json:"listen_grpc_port"`
	HTTPHost  string  `json:"listen_http_addr"`
	HTTPPort  int     `json:"listen_http_port"`
	HTTPSPort *int    `json:"listen_https_port"`
	Zone      string  `json:"availability_zone_id"`
}

// Attached is the storage controller's answer.
type Attached struct {
	Tenants []AttachedShard `json:"tenants"`
}

// AttachedShard is a shard that the pageserver shall hold.
type AttachedShard struct {
	ID         string `json:"id"`
	Generation *int64 `json:"gen"`
	// Mode is upstream's location mode.
	Mode string `json:"mode"`
}

// register asks the storage controller for the shards to attach, for as long as it takes. The real
// program never gives up either.
func (p *Pageserver) register(ctx context.Context) error {
	known, err := filepath.Glob(filepath.Join(p.Dir, "tenants", "*"))
	if err != nil {
		return fmt.Errorf("find shards: %w", err)
	}
	empty := len(known) == 0
	request := ReAttach{Node: p.ID, Register: p.registration(), EmptyDisk: &empty}
	client := wire.Client{HTTP: p.HTTP, Token: p.ControlPlaneToken}
	url := strings.TrimSuffix(p.ControlPlane, "/") + "/re-attach"
	for attempt := 0; ; attempt++ {
		var answer Attached
		err := client.Do(ctx, http.MethodPost, url, request, &answer)
		if err == nil {
			err = p.attachAll(ctx, answer, known)
		}
		if err == nil {
			close(p.attached)
			return nil
		}
		p.Log.Warn("storage controller upcall failed, will retry", "attempt", attempt, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.RetryEvery):
		}
	}
}

// attachAll takes up the shards on the disk, as far as the storage controller wants them here.
// With an empty disk it takes all that the storage controller names.
func (p *Pageserver) attachAll(ctx context.Context, answer Attached, known []string) error {
	local := map[string]bool{}
	for _, dir := range known {
		local[filepath.Base(dir)] = true
	}
	for _, wanted := range answer.Tenants {
		if len(known) > 0 && !local[wanted.ID] {
			continue
		}
		delete(local, wanted.ID)
		location := Location{Mode: wanted.Mode, Generation: wanted.Generation}
		if err := p.locate(ctx, wanted.ID, location); err != nil {
			return err
		}
	}
	for id := range local {
		if err := os.RemoveAll(p.shardDir(id)); err != nil {
			return fmt.Errorf("forget shard: %w", err)
		}
	}
	return nil
}

func (p *Pageserver) registration() *Registration {
	m := p.Metadata
	if m == nil {
		return nil
	}
	r := &Registration{
		Node: p.ID, PGHost: m.Host, PGPort: m.Port, GRPCHost: m.GRPCHost, GRPCPort: m.GRPCPort,
		HTTPHost: m.HTTPHost, HTTPPort: m.HTTPPort, HTTPSPort: m.HTTPSPort, Zone: p.Zone,
	}
	if m.Zone != "" {
		r.Zone = m.Zone
	}
	return r
}

var errNoZone = errors.New("no availability zone: neither metadata.json nor pageserver.toml names one")
