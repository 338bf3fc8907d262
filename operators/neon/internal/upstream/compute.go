package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Compute calls the compute_ctl of one compute.
type Compute struct {
	caller
	claims token.Claims
}

// NewCompute returns the client of the compute with this ID.
func NewCompute(c Config, id string) *Compute {
	return &Compute{caller: caller{c}, claims: token.Claims{ComputeID: id}}
}

// ComputeStatus is the state of a compute.
type ComputeStatus struct {
	StartTime time.Time `json:"start_time"`
	Tenant    string    `json:"tenant"`
	Timeline  string    `json:"timeline"`
	Status    string    `json:"status"`
	// LastActive is nil until the compute has seen a session. Sessions that are short can go
	// unseen: idle time counts from the later of StartTime and LastActive.
	LastActive *time.Time `json:"last_active"`
	// Error tells why the status is failed.
	Error *string `json:"error"`
}

// The statuses that a compute reports. A compute is ready only when it is running:
// before, roles and databases are missing though it answers queries.
const (
	ComputeEmpty         = "empty"
	ComputePending       = "configuration_pending"
	ComputeInit          = "init"
	ComputeRunning       = "running"
	ComputeConfiguration = "configuration"
	ComputeFailed        = "failed"
	ComputeTerminated    = "terminated"
)

// Status returns the state of the compute.
func (c *Compute) Status(ctx context.Context) (ComputeStatus, error) {
	var s ComputeStatus
	err := c.call(ctx, request{http.MethodGet, "/status", c.claims, nil}, &s)
	if s.Error != nil {
		safe := withoutSecrets(*s.Error)
		s.Error = &safe
	}
	return s, err
}

// Configure applies a configuration, the same text as in the compute's file, and returns
// when it is in effect. It is an error (412) unless the compute is empty or running. A
// configuration that cannot be applied leaves the compute failed for good: validate it
// first.
func (c *Compute) Configure(ctx context.Context, config json.RawMessage) error {
	return c.call(ctx, request{http.MethodPost, "/configure", c.claims, config}, nil)
}

// Terminate stops PostgreSQL and the compute, within about 0.3 s. It returns the durable end
// of the WAL, or nil for a compute that only reads. It is an error (412) unless the compute is
// empty or running.
func (c *Compute) Terminate(ctx context.Context) (*LSN, error) {
	var answer struct {
		LSN *LSN `json:"lsn"`
	}
	err := c.call(ctx, request{http.MethodPost, "/terminate?mode=immediate", c.claims, nil}, &answer)
	return answer.LSN, err
}
