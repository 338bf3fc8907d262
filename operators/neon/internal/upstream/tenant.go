package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// TenantConfig is the configuration of a tenant by upstream's names, such as
// "pitr_interval": "7 days". In [Controller.PatchTenantConfig] a nil unsets.
type TenantConfig map[string]any

// Placement says how many pageservers hold a tenant's shards. Its zero value is unset.
type Placement struct {
	// Kind is "Attached", "Secondary" or "Detached".
	Kind string
	// Secondaries is the number of warm copies of an attached tenant.
	Secondaries int
}

// Attached is the placement on one pageserver, with this number of secondaries.
func Attached(secondaries int) Placement {
	return Placement{Kind: "Attached", Secondaries: secondaries}
}

// IsZero reports whether the placement is unset.
func (p Placement) IsZero() bool { return p == Placement{} }

// MarshalJSON returns upstream's form: {"Attached":1}, "Secondary" or "Detached".
func (p Placement) MarshalJSON() ([]byte, error) {
	if p.Kind == "Attached" {
		return json.Marshal(map[string]int{p.Kind: p.Secondaries})
	}
	return json.Marshal(p.Kind)
}

// UnmarshalJSON reads upstream's form.
func (p *Placement) UnmarshalJSON(text []byte) error {
	var attached map[string]int
	if err := json.Unmarshal(text, &attached); err == nil {
		*p = Attached(attached["Attached"])
		return nil
	}
	*p = Placement{}
	return json.Unmarshal(text, &p.Kind)
}

// NewTenant is a tenant to create.
type NewTenant struct {
	ID        string
	Placement Placement
	// Shards is the number of shards. 0 means one shard that may be split later.
	Shards int
	// StripeSize is the number of pages in a stripe, for more than one shard.
	StripeSize int
	Config     TenantConfig
}

// MarshalJSON returns upstream's form, in which the configuration is flat.
func (t NewTenant) MarshalJSON() ([]byte, error) {
	body := map[string]any{}
	maps.Copy(body, t.Config)
	body["new_tenant_id"] = t.ID
	if !t.Placement.IsZero() {
		body["placement_policy"] = t.Placement
	}
	if t.Shards > 0 {
		parameters := map[string]int{"count": t.Shards}
		if t.StripeSize > 0 {
			parameters["stripe_size"] = t.StripeSize
		}
		body["shard_parameters"] = parameters
	}
	return json.Marshal(body)
}

// CreateTenant creates a tenant. A repeat succeeds and changes nothing, even if it asks for
// something else: read the tenant with [Controller.DescribeTenant], then set the differences.
// Success says neither that the tenant can be used nor that its computes have been told.
func (c *Controller) CreateTenant(ctx context.Context, t NewTenant) error {
	return c.tenantCall(ctx, t.ID, request{http.MethodPost, "/v1/tenant", scope(token.Pageserver), t}, nil)
}

// Tenant is a tenant as the storage controller knows it.
type Tenant struct {
	ID         string       `json:"tenant_id"`
	Shards     []Shard      `json:"shards"`
	StripeSize int          `json:"stripe_size"`
	Placement  Placement    `json:"policy"`
	Config     TenantConfig `json:"config"`
}

// Shard is a part of a tenant. Its ID is that of the tenant for the only shard, otherwise
// with a suffix: shard number and shard count, two hexadecimal digits each.
type Shard struct {
	ID string `json:"tenant_shard_id"`
	// Attached is the pageserver that serves the shard, or nil.
	Attached    *int64  `json:"node_attached"`
	Secondaries []int64 `json:"node_secondary"`
	LastError   string  `json:"last_error"`
	Reconciling bool    `json:"is_reconciling"`
	// PendingNotification says that the hook notify-attach has not succeeded yet.
	PendingNotification bool   `json:"is_pending_compute_notification"`
	Splitting           bool   `json:"is_splitting"`
	Policy              string `json:"scheduling_policy"`
	PreferredZone       string `json:"preferred_az_id"`
}

// DescribeTenant returns a tenant. The error is [IsNotFound] when there is none.
func (c *Controller) DescribeTenant(ctx context.Context, id string) (Tenant, error) {
	var t Tenant
	err := c.tenantCall(ctx, id, request{http.MethodGet, "/control/v1/tenant/" + id, scope(token.Admin), nil}, &t)
	return t, err
}

// tenantPage is the number of tenants that are asked for in one request.
const tenantPage = 500

// Tenants returns all tenants, page by page. A tenant that is made meanwhile may be missing.
func (c *Controller) Tenants(ctx context.Context) ([]Tenant, error) {
	var all []Tenant
	query := url.Values{"limit": {strconv.Itoa(tenantPage)}}
	for {
		var page []Tenant
		path := "/control/v1/tenant?" + query.Encode()
		if err := c.call(ctx, request{http.MethodGet, path, scope(token.Admin), nil}, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < tenantPage || page[len(page)-1].ID <= query.Get("start_after") {
			return all, nil
		}
		query.Set("start_after", page[len(page)-1].ID)
	}
}

// TenantConfig returns the values that were set for a tenant.
func (c *Controller) TenantConfig(ctx context.Context, id string) (TenantConfig, error) {
	var answer struct {
		Overrides TenantConfig `json:"tenant_specific_overrides"`
	}
	err := c.tenantCall(ctx, id,
		request{http.MethodGet, "/v1/tenant/" + id + "/config", scope(token.Pageserver), nil}, &answer)
	return answer.Overrides, err
}

// PatchTenantConfig sets the values that the configuration names, unsets those that are nil in it, and
// leaves the rest.
func (c *Controller) PatchTenantConfig(ctx context.Context, id string, config TenantConfig) error {
	return c.setTenantConfig(ctx, http.MethodPatch, id, config)
}

// SetTenantConfig replaces the configuration. An empty one unsets all.
func (c *Controller) SetTenantConfig(ctx context.Context, id string, config TenantConfig) error {
	return c.setTenantConfig(ctx, http.MethodPut, id, config)
}

func (c *Controller) setTenantConfig(ctx context.Context, method, id string, config TenantConfig) error {
	body := TenantConfig{}
	maps.Copy(body, config)
	body["tenant_id"] = id
	return c.tenantCall(ctx, id, request{method, "/v1/tenant/config", scope(token.Pageserver), body}, nil)
}

// SetPlacement sets how many pageservers hold a tenant.
func (c *Controller) SetPlacement(ctx context.Context, id string, p Placement) error {
	body := struct {
		Placement Placement `json:"placement"`
	}{p}
	return c.tenantCall(ctx, id, request{http.MethodPut, "/control/v1/tenant/" + id + "/policy", scope(token.Admin), body}, nil)
}

// MigrateShard moves a shard to a pageserver. Away from its preferred zone it is an error
// (412).
func (c *Controller) MigrateShard(ctx context.Context, shard string, node int64) error {
	body := struct {
		Node int64 `json:"node_id"`
	}{node}
	return c.tenantCall(ctx, tenantOf(shard),
		request{http.MethodPut, "/control/v1/tenant/" + shard + "/migrate", scope(token.Admin), body}, nil)
}

// SplitTenant raises the number of a tenant's shards to a power of two, and returns their
// IDs. The old ones are gone.
func (c *Controller) SplitTenant(ctx context.Context, id string, shards int) ([]string, error) {
	body := struct {
		Count int `json:"new_shard_count"`
	}{shards}
	var answer struct {
		Shards []string `json:"new_shards"`
	}
	err := c.tenantCall(ctx, id,
		request{http.MethodPut, "/control/v1/tenant/" + id + "/shard_split", scope(token.Admin), body}, &answer)
	return answer.Shards, err
}

// DeleteTenant deletes a tenant with all its timelines. Computes on them are not asked.
func (c *Controller) DeleteTenant(ctx context.Context, id string) error {
	return c.tenantCall(ctx, id, request{http.MethodDelete, "/v1/tenant/" + id, scope(token.Pageserver), nil}, nil)
}

const tenantDigits = 32

func tenantOf(shard string) string {
	if len(shard) < tenantDigits {
		return shard
	}
	return shard[:tenantDigits]
}

func timelinePath(tenant, timeline, rest string) string {
	return fmt.Sprintf("/v1/tenant/%s/timeline/%s%s", tenant, timeline, rest)
}
