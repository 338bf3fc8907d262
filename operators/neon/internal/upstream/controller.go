package upstream

import (
	"context"
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// Controller calls a storage controller.
type Controller struct {
	caller
	limits *limits
}

// NewController returns the client of a storage controller. All users of one storage
// controller share one Controller, since it holds the limit of requests for each tenant.
func NewController(c Config) *Controller {
	return &Controller{caller: caller{c}, limits: &limits{tenants: map[string]*rate.Limiter{}}}
}

// Ready returns nil when the storage controller serves. It says nothing about its database,
// which the storage controller asks only for writes.
func (c *Controller) Ready(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/ready"}, nil)
}

// TenantRate is the number of requests that the storage controller takes each second for a
// tenant. It delays more, so Controller does, which keeps its requests from timing out.
const TenantRate = 10

// tenantCall is call for a request about a tenant.
func (c *Controller) tenantCall(ctx context.Context, tenant string, r request, into any) error {
	if err := c.limits.wait(ctx, tenant); err != nil {
		return &TransportError{cause: err}
	}
	return c.call(ctx, r, into)
}

// limits delays the requests about each tenant.
type limits struct {
	mu      sync.Mutex
	tenants map[string]*rate.Limiter
}

// many is the number of tenants beyond which limits forgets those that are at rest.
const many = 1000

func (l *limits) wait(ctx context.Context, tenant string) error {
	return l.of(tenant).Wait(ctx)
}

func (l *limits) of(tenant string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limiter, ok := l.tenants[tenant]; ok {
		return limiter
	}
	if len(l.tenants) >= many {
		for id, limiter := range l.tenants {
			if limiter.Tokens() >= float64(limiter.Burst()) {
				delete(l.tenants, id)
			}
		}
	}
	limiter := rate.NewLimiter(TenantRate, 1)
	l.tenants[tenant] = limiter
	return limiter
}
