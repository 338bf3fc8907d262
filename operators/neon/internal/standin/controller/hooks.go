package controller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// attachHook is the body of notify-attach.
type attachHook struct {
	Tenant     string      `json:"tenant_id"`
	Zone       string      `json:"preferred_az"`
	StripeSize *int        `json:"stripe_size"`
	Shards     []hookShard `json:"shards"`
}

type hookShard struct {
	Node   int64 `json:"node_id"`
	Number int   `json:"shard_number"`
}

// keepersHook is the body of notify-safekeepers.
type keepersHook struct {
	Tenant      string       `json:"tenant_id"`
	Timeline    string       `json:"timeline_id"`
	Generation  int64        `json:"generation"`
	Safekeepers []hookKeeper `json:"safekeepers"`
}

type hookKeeper struct {
	ID   int64  `json:"id"`
	Host string `json:"hostname"`
}

const (
	// hookTimeout ends a call of the control plane.
	hookTimeout = 10 * time.Second
	// hookTries is how often a call that is answered with 429, 502, 503 or 504 is made at once.
	hookTries = 3
	hookPause = 200 * time.Millisecond
)

// notifyAttach tells the control plane where a tenant's shards are, if that has changed. When
// it fails, the shard says so, and the background tries again.
func (c *Controller) notifyAttach(ctx context.Context, t *tenant) {
	c.mu.Lock()
	hook := attachHook{Tenant: t.ID, Zone: t.Zone, Shards: []hookShard{}}
	if len(t.Shards) > 1 {
		hook.StripeSize = &t.StripeSize
	}
	complete := true
	for i, s := range t.Shards {
		if s.Attached == nil || s.observed[*s.Attached] != attached {
			complete = false
			break
		}
		hook.Shards = append(hook.Shards, hookShard{*s.Attached, i})
	}
	text := string(wire.MustJSON(hook))
	same := c.notified[t.ID] == text
	c.mu.Unlock()
	if !complete || same || c.Hooks == "" {
		return
	}
	err := c.hook(ctx, "/notify-attach", hook)
	c.mu.Lock()
	defer c.mu.Unlock()
	first := t.Shards[0]
	if err != nil {
		first.pending, first.lastError = true, err.Error()
		return
	}
	c.notified[t.ID] = text
	for _, s := range t.Shards {
		s.pending, s.lastError = false, ""
	}
}

// The texts that the real program gives for answers of the control plane.
var (
	errBusy  = errors.New("Control plane tenant busy")                  //nolint:staticcheck // upstream's text
	errFatal = errors.New("Non-retryable error from the control plane") //nolint:staticcheck // the same
)

// hook calls the control plane.
func (c *Controller) hook(ctx context.Context, path string, body any) error {
	var err error
	for try := range hookTries {
		if try > 0 {
			sleep(ctx, hookPause)
		}
		err = c.hookOnce(ctx, path, body)
		var answer *wire.Error
		if err == nil || !errors.As(err, &answer) {
			return err
		}
		switch answer.Status {
		case http.StatusLocked:
			return errBusy
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
			return errFatal
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			return err
		}
	}
	return err
}

func (c *Controller) hookOnce(ctx context.Context, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	return c.client(c.HooksToken).Do(ctx, http.MethodPut, c.Hooks+path, body, nil)
}

// notifyKeepers tells the control plane the safekeepers of a timeline.
func (c *Controller) notifyKeepers(ctx context.Context, t *timeline, set []int64) error {
	c.mu.Lock()
	hook := keepersHook{Tenant: t.Tenant, Timeline: t.ID, Generation: t.Generation, Safekeepers: []hookKeeper{}}
	for _, id := range set {
		k := c.keepers[id]
		if k == nil {
			continue
		}
		hook.Safekeepers = append(hook.Safekeepers, hookKeeper{id, k.Host})
	}
	c.mu.Unlock()
	if c.Hooks != "" {
		if err := c.hook(ctx, "/notify-safekeepers", hook); err != nil {
			return err
		}
	}
	c.mu.Lock()
	t.Told = t.Generation
	c.mu.Unlock()
	return c.saveTimeline(ctx, t)
}
