// Package controller stands in for Neon's storage controller in tests. It is no part of Neon.
// It keeps its state in the PostgreSQL database of DATABASE_URL, registers pageservers and
// safekeepers, puts tenants and timelines on them, calls the hooks of a control plane, and answers
// as recordings of the real program show, including where the real one does harm: see
// the tests of package contract.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Config holds the flags and the environment of the real program.
type Config struct {
	DatabaseURL string
	// DatabaseWait ends the wait for a database that is away, in calls that do not wait for
	// ever. The real program takes 30 s.
	DatabaseWait time.Duration
	// Hooks is the URL of the control plane.
	Hooks string
	Auth  wire.Auth
	// The tokens for pageservers, safekeepers and the control plane.
	PageserverToken, SafekeeperToken, HooksToken string
	// HTTP makes the requests.
	HTTP *http.Client
	// Lookup finds a host. Default: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// PageserversByTLS and SafekeepersByTLS choose https ports.
	PageserversByTLS, SafekeepersByTLS bool
	// TimelinesOntoSafekeepers puts timelines on safekeepers, SafekeeperCount of them.
	TimelinesOntoSafekeepers bool
	SafekeeperCount          int
	// RestoreLostDisks attaches shards again to a pageserver that comes with an empty disk.
	RestoreLostDisks bool
	// MaxOffline and MaxWarmingUp are how long a pageserver may be silent.
	MaxOffline, MaxWarmingUp time.Duration
	// HeartbeatEvery and SettleEvery are the intervals of the background work.
	HeartbeatEvery, SettleEvery time.Duration
	// TenantRate is the number of requests in a second for each tenant.
	TenantRate int
	Log        *slog.Logger
}

// Controller is one stand-in.
type Controller struct {
	Config
	// Faults go wrong on purpose.
	Faults wire.Faults

	store  *store
	panics chan error

	mu         sync.Mutex
	nodes      map[int64]*node
	tombstones map[int64]*node
	keepers    map[int64]*keeper
	tenants    map[string]*tenant
	timelines  map[string]*timeline
	notified   map[string]string // the last body of notify-attach that was accepted, by tenant
	limiters   map[string]*rate.Limiter
	held       chan struct{} // operations on nodes do not end while it is open
	moves      int           // the moves that they may make meanwhile
	// cursed is set when a node was removed though it did not answer: the next background
	// work ends the program, as in the real one.
	cursed bool
}

// node is a pageserver.
type node struct {
	upstream.Node
	GRPCHost *string `json:"listen_grpc_addr"`
	GRPCPort *int    `json:"listen_grpc_port"`

	heard     time.Time
	since     time.Time // of the availability
	operation *operation
}

// keeper is a safekeeper.
type keeper struct {
	upstream.Registration
	// HTTPSPort hides the field of Registration, since upstream's answer always has it.
	HTTPSPort *int `json:"https_port"`

	// online and load, the number of its timelines, are those of the last heartbeat.
	online bool
	load   int
}

// tenant is a tenant and its shards.
type tenant struct {
	ID         string             `json:"tenant_id"`
	Count      int                `json:"count"`
	StripeSize int                `json:"stripe_size"`
	Placement  upstream.Placement `json:"policy"`
	Config     map[string]any     `json:"config"`
	Zone       string             `json:"preferred_az_id"`
	Shards     []*shard           `json:"shards"`

	work  sync.Mutex // held while pageservers are told
	saved string     // the body in the database
}

// shard is a part of a tenant, and where it is meant to be.
type shard struct {
	ID         string  `json:"id"`
	Attached   *int64  `json:"attached"`
	Secondary  []int64 `json:"secondary"`
	Generation int64   `json:"generation"`
	SplitFrom  string  `json:"split_from,omitempty"`

	lastError string
	pending   bool
	// observed is how each pageserver is known to hold the shard.
	observed map[int64]string
}

// timeline is the part of a timeline that the storage controller keeps: its safekeepers.
type timeline struct {
	Tenant     string       `json:"tenant_id"`
	ID         string       `json:"timeline_id"`
	Generation int64        `json:"generation"`
	Set        []int64      `json:"sk_set"`
	NewSet     []int64      `json:"new_sk_set"`
	Start      upstream.LSN `json:"start_lsn"`
	PGVersion  int          `json:"pg_version"`
	// Told is the last generation that the hook was told.
	Told int64 `json:"cplane_notified_generation"`
	// Deleted is when the deletion began.
	Deleted *time.Time `json:"deleted_at"`
	// Missing are members that have to copy the timeline.
	Missing []int64 `json:"missing"`
}

// Open connects to the database, waits up to the timeout for it, and reads the state.
func Open(ctx context.Context, c Config, timeout time.Duration) (*Controller, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := openStore(ctx, c.DatabaseURL, timeout)
	if err != nil {
		return nil, err
	}
	held := make(chan struct{})
	close(held)
	loaded := &Controller{
		Config: c, store: s, panics: make(chan error, 1), nodes: map[int64]*node{}, tombstones: map[int64]*node{},
		keepers: map[int64]*keeper{}, tenants: map[string]*tenant{}, timelines: map[string]*timeline{},
		notified: map[string]string{}, limiters: map[string]*rate.Limiter{}, held: held,
	}
	if err := loaded.load(ctx); err != nil {
		s.close()
		return nil, err
	}
	return loaded, nil
}

// ErrPanicked says that the real program would have panicked.
var ErrPanicked = errors.New("panicked: Nodes may not be removed while referenced")

// Run serves until ctx ends or the program panics as the real one does.
func (c *Controller) Run(ctx context.Context, listeners ...net.Listener) error {
	c.Log.Info("stand-in for Neon's storage controller, no part of Neon")
	ctx, cancel := context.WithCancel(ctx)
	defer c.store.close()
	defer cancel()
	var group sync.WaitGroup
	failed := make(chan error, len(listeners))
	handler := c.Faults.Wrap(c.handler())
	// Pageservers that are up are known before the first request.
	c.Heartbeat(ctx)
	for _, listener := range listeners {
		group.Go(func() { failed <- wire.Serve(ctx, listener, handler) })
	}
	group.Go(func() { c.background(ctx) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-c.panics:
	}
	cancel()
	group.Wait()
	c.Release()
	c.finishOperations()
	return err
}

// background tells computes once where their tenants are, and then looks after all at intervals, as
// the real program does on its own.
func (c *Controller) background(ctx context.Context) {
	c.Settle(ctx)
	heartbeat, settle := time.NewTicker(c.HeartbeatEvery), time.NewTicker(c.SettleEvery)
	defer heartbeat.Stop()
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		// Nodes and safekeepers are asked whether they live.
		case <-heartbeat.C:
			c.Heartbeat(ctx)
		// All that is not as it should be is tried again.
		case <-settle.C:
			c.Settle(ctx)
			c.Optimise(ctx, optimiseAfter)
		}
	}
}

// Hold keeps operations on nodes (drain, fill, delete) from ending, until Release. Meanwhile
// they move this number of tenants.
func (c *Controller) Hold(moves int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.moves = make(chan struct{}), moves
}

// mayMove waits while operations are held, and reports whether the operation goes on.
func (c *Controller) mayMove(ctx context.Context) bool {
	c.mu.Lock()
	held := c.held
	c.moves--
	allowed := c.moves >= 0
	c.mu.Unlock()
	if !allowed {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// Release ends Hold.
func (c *Controller) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.held:
	default:
		close(c.held)
	}
}

func (c *Controller) load(ctx context.Context) error {
	var nodes []*node
	if err := c.store.all(ctx, "nodes", &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Scheduling == upstream.ScheduleDeleting && n.Availability == upstream.NodeOffline {
			c.tombstones[n.ID] = n
			continue
		}
		n.Availability = upstream.NodeOffline
		if n.Scheduling != upstream.SchedulePause && n.Scheduling != upstream.SchedulePauseForRestart {
			n.Scheduling = upstream.ScheduleActive
		}
		if c.PageserversByTLS && n.HTTPSPort == nil {
			return fmt.Errorf("cannot load node %d from persistent: https is enabled, but https port is not specified", n.ID)
		}
		c.nodes[n.ID] = n
	}
	var keepers []*keeper
	if err := c.store.all(ctx, "safekeepers", &keepers); err != nil {
		return err
	}
	for _, k := range keepers {
		if c.SafekeepersByTLS && k.HTTPSPort == nil { // decommissioned ones, too
			return fmt.Errorf("cannot load safekeeper %d from persistence: https is enabled, but https port is not specified", k.ID)
		}
		c.keepers[k.ID] = k
	}
	var tenants []*tenant
	if err := c.store.all(ctx, "tenants", &tenants); err != nil {
		return err
	}
	for _, t := range tenants {
		for _, s := range t.Shards {
			s.observed = map[int64]string{}
			if s.Attached != nil {
				s.observed[*s.Attached] = attached
			}
			for _, id := range s.Secondary {
				s.observed[id] = secondary
			}
		}
		c.tenants[t.ID] = t
	}
	var timelines []*timeline
	if err := c.store.all(ctx, "timelines", &timelines); err != nil {
		return err
	}
	for _, t := range timelines {
		c.timelines[t.Tenant+"/"+t.ID] = t
	}
	return nil
}

func (c *Controller) client(token string) wire.Client { return wire.Client{HTTP: c.HTTP, Token: token} }

// urlOf returns the URL of a node, whose ports change when it registers again.
func (c *Controller) urlOf(n *node) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.PageserversByTLS {
		return fmt.Sprintf("https://%s:%d", n.HTTPHost, *n.HTTPSPort)
	}
	return fmt.Sprintf("http://%s:%d", n.HTTPHost, n.HTTPPort)
}

// String is a node in the texts of errors.
func (n *node) String() string { return fmt.Sprintf("%d (%s)", n.ID, n.HTTPHost) }

func (k *keeper) url(byTLS bool) string {
	if byTLS {
		return fmt.Sprintf("https://%s:%d", k.Host, *k.HTTPSPort)
	}
	return fmt.Sprintf("http://%s:%d", k.Host, k.HTTPPort)
}
