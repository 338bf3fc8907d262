package upstream

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Registration is a safekeeper as the storage controller knows it.
type Registration struct {
	ID        int64  `json:"id"`
	Region    string `json:"region_id"`
	Version   int64  `json:"version"`
	Host      string `json:"host"`
	Port      int    `json:"port"`
	HTTPPort  int    `json:"http_port"`
	HTTPSPort *int   `json:"https_port,omitempty"`
	Zone      string `json:"availability_zone_id"`
	// Policy is read only: see [Controller.SetSafekeeperPolicy].
	Policy SafekeeperPolicy `json:"scheduling_policy,omitempty"`
}

// SafekeeperPolicy says whether timelines are put on a safekeeper.
type SafekeeperPolicy string

const (
	// SafekeeperActivating was registered and has not answered a heartbeat yet.
	SafekeeperActivating SafekeeperPolicy = "Activating"
	SafekeeperActive     SafekeeperPolicy = "Active"
	// SafekeeperPause gets no more timelines.
	SafekeeperPause SafekeeperPolicy = "Pause"
	// SafekeeperDecommissioned gets no more timelines and no heartbeats. The timelines that it
	// holds do not move.
	SafekeeperDecommissioned SafekeeperPolicy = "Decomissioned" //nolint:misspell // the spelling is upstream's
)

// Registrations returns all safekeepers that are registered.
func (c *Controller) Registrations(ctx context.Context) ([]Registration, error) {
	var all []Registration
	err := c.call(ctx, request{http.MethodGet, "/control/v1/safekeeper", scope(token.Infra), nil}, &all)
	return all, err
}

// Registration returns a safekeeper. The error is [IsNotFound] when it is not registered.
func (c *Controller) Registration(ctx context.Context, id int64) (Registration, error) {
	var r Registration
	err := c.call(ctx, request{http.MethodGet, registrationPath(id, ""), scope(token.Infra), nil}, &r)
	return r, err
}

// Register registers a safekeeper. It overwrites another registration of the ID, except
// the policy, without an error: a wrong address silently misdirects the storage controller.
func (c *Controller) Register(ctx context.Context, r Registration) error {
	r.Policy = ""
	return c.call(ctx, request{http.MethodPost, registrationPath(r.ID, ""), scope(token.Infra), r}, nil)
}

// SetSafekeeperPolicy sets the policy of a safekeeper.
func (c *Controller) SetSafekeeperPolicy(ctx context.Context, id int64, p SafekeeperPolicy) error {
	body := struct {
		Policy SafekeeperPolicy `json:"scheduling_policy"`
	}{p}
	return c.call(ctx, request{http.MethodPost, registrationPath(id, "/scheduling_policy"), scope(token.Admin), body}, nil)
}

func registrationPath(id int64, rest string) string {
	return fmt.Sprintf("/control/v1/safekeeper/%d%s", id, rest)
}
