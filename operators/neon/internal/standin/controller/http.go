package controller

import (
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/time/rate"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func (c *Controller) handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/status", "/live", "/ready"} {
		mux.Handle("GET "+path, wire.Handler(func(*http.Request) (wire.Answer, error) { return wire.OK(nil), nil }))
	}
	mux.Handle("GET /metrics", wire.Handler(c.metrics))
	route := func(scope token.Scope, pattern string, h wire.Handler) {
		mux.Handle(pattern, wire.Handler(func(r *http.Request) (wire.Answer, error) {
			if err := c.Auth.Check(r, "", scope, token.Admin); err != nil {
				return wire.Answer{}, err
			}
			if err := c.limit(r); err != nil {
				return wire.Answer{}, err
			}
			return h(r)
		}))
	}
	route(token.Generations, "POST /upcall/v1/re-attach", c.reAttach)
	route(token.Generations, "POST /upcall/v1/validate", c.validate)

	route(token.Infra, "GET /control/v1/node", c.listNodes)
	route(token.Infra, "POST /control/v1/node", c.registerNode)
	route(token.Infra, "GET /control/v1/node/{node}", c.getNode)
	route(token.Admin, "GET /control/v1/node/{node}/shards", c.nodeShards)
	route(token.Admin, "PUT /control/v1/node/{node}/config", c.configureNode)
	route(token.Infra, "PUT /control/v1/node/{node}/drain", c.start("drain"))
	route(token.Infra, "DELETE /control/v1/node/{node}/drain", c.cancel("drain"))
	route(token.Infra, "PUT /control/v1/node/{node}/fill", c.start("fill"))
	route(token.Infra, "DELETE /control/v1/node/{node}/fill", c.cancel("fill"))
	route(token.Admin, "PUT /control/v1/node/{node}/delete", c.start("delete"))
	route(token.Admin, "DELETE /control/v1/node/{node}/delete", c.cancel("delete"))
	route(token.Admin, "GET /debug/v1/tombstone", c.listTombstones)
	route(token.Admin, "DELETE /debug/v1/tombstone/{node}", c.deleteTombstone)

	route(token.Infra, "GET /control/v1/safekeeper", c.listKeepers)
	route(token.Infra, "GET /control/v1/safekeeper/{keeper}", c.getKeeper)
	route(token.Infra, "POST /control/v1/safekeeper/{keeper}", c.registerKeeper)
	route(token.Admin, "POST /control/v1/safekeeper/{keeper}/scheduling_policy", c.setKeeperPolicy)

	route(token.Pageserver, "POST /v1/tenant", c.createTenant)
	route(token.Pageserver, "DELETE /v1/tenant/{tenant}", c.deleteTenant)
	route(token.Pageserver, "GET /v1/tenant/{tenant}/config", c.getConfig)
	route(token.Pageserver, "PATCH /v1/tenant/config", c.patchConfig)
	route(token.Pageserver, "PUT /v1/tenant/config", c.putConfig)
	// The scrubber's scope is allowed here by the real program.
	route(token.Scrubber, "GET /control/v1/tenant/{tenant}", c.describeTenant)
	route(token.Admin, "GET /control/v1/tenant", c.listTenants)
	route(token.Admin, "PUT /control/v1/tenant/{tenant}/policy", c.setPolicy)
	route(token.Admin, "PUT /control/v1/tenant/{shard}/migrate", c.migrateShard)
	route(token.Admin, "PUT /control/v1/tenant/{tenant}/shard_split", c.split)

	route(token.Pageserver, "POST /v1/tenant/{tenant}/timeline", c.createTimeline)
	route(token.Pageserver, "DELETE /v1/tenant/{tenant}/timeline/{timeline}", c.deleteTimeline)
	route(token.Pageserver, "PUT /v1/tenant/{tenant}/timeline/{timeline}/archival_config", c.archive)
	route(token.Pageserver, "PUT /v1/tenant/{tenant}/timeline/{timeline}/detach_ancestor", c.detachAncestor)
	route(token.Pageserver, "POST /v1/tenant/{tenant}/timeline/{timeline}/lsn_lease", c.lease)
	route(token.Admin, "POST /v1/tenant/{tenant}/timeline/{timeline}/safekeeper_migrate", c.migrateTimeline)
	route(token.Admin, "POST /v1/tenant/{tenant}/timeline/{timeline}/safekeeper_migrate_abort", c.abortMigration)
	route(token.Admin, "GET /debug/v1/tenant/{tenant}/timeline/{timeline}/locate", c.locate)
	// All other requests to read go to the pageserver with the first shard.
	route(token.Pageserver, "GET /v1/tenant/{tenant}", c.pass)
	route(token.Pageserver, "GET /v1/tenant/{tenant}/{rest...}", c.pass)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			wire.Write(w, wire.Answer{Status: http.StatusNotFound, Body: wire.Raw{Type: "text/plain", Content: []byte("Not Found")}})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// limit refuses requests about a tenant beyond its rate.
func (c *Controller) limit(r *http.Request) error {
	id := r.PathValue("tenant")
	if id == "" {
		return nil
	}
	c.mu.Lock()
	limiter := c.limiters[id]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Limit(c.TenantRate), c.TenantRate)
		c.limiters[id] = limiter
	}
	c.mu.Unlock()
	if !limiter.Allow() {
		return wire.Errorf(http.StatusTooManyRequests, "Too many requests: tenant %s", id)
	}
	return nil
}

func pathID(r *http.Request, name string) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue(name), 10, 64)
	if err != nil {
		return 0, wire.BadRequest("failed to parse %s: %v", name, err)
	}
	return id, nil
}

func (c *Controller) metrics(*http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf("storage_controller_leadership_status{status=\"leader\"} 1\nstorage_controller_pageserver_nodes %d\n"+
		"storage_controller_safekeeper_nodes %d\n", len(c.nodes), len(c.keepers))
	pending := 0
	for _, t := range c.tenants {
		for _, s := range t.Shards {
			if s.pending {
				pending++
			}
		}
	}
	text += fmt.Sprintf("storage_controller_pending_reconciles %d\n", pending)
	return wire.OK(wire.Raw{Type: "text/plain; version=0.0.4", Content: []byte(text)}), nil
}
