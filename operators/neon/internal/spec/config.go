// Package spec makes the configuration of a compute: the file that compute_ctl reads at its
// start (-c) and the body of its /configure. [Render] makes it from an [Input], [Config.Validate]
// finds the mistakes that a compute would only report by failing for good, [Hash] names its
// meaning, and [Hot] tells a change that a running compute takes from one that needs a restart.
// [Verifier] makes the form in which a configuration holds a password.
//
// The fields are those of upstream's libs/compute_api/src/spec.rs.
package spec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Config is the whole configuration.
type Config struct {
	Spec       Spec       `json:"spec"`
	ComputeCtl ComputeCtl `json:"compute_ctl_config"`
}

// Decode reads a configuration. Unknown fields are errors, which upstream ignores.
func Decode(data []byte) (Config, error) {
	var c Config
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return c, nil
}

// ComputeCtl configures compute_ctl itself.
type ComputeCtl struct {
	JWKS JWKS `json:"jwks"`
	// TLS is that of compute_ctl and of Postgres. A compute heeds it only with the feature
	// FeatureTLS.
	TLS *TLS `json:"tls,omitempty"`
}

// JWKS holds the keys whose tokens compute_ctl accepts.
type JWKS struct {
	Keys []token.JWK `json:"keys"`
}

// TLS names the files of a certificate.
type TLS struct {
	KeyPath  string `json:"key_path"`
	CertPath string `json:"cert_path"`
}

// FeatureTLS is the feature with which a compute serves TLS.
const FeatureTLS = "tls_experimental"

// Spec describes the compute and the content of its Postgres.
type Spec struct {
	FormatVersion         float64  `json:"format_version"`
	OperationUUID         string   `json:"operation_uuid,omitempty"`
	SuspendTimeoutSeconds int64    `json:"suspend_timeout_seconds"`
	Features              []string `json:"features,omitempty"`
	Cluster               Cluster  `json:"cluster"`
	// DeltaOperations are removals and changes of names, which lists cannot say.
	DeltaOperations []DeltaOperation `json:"delta_operations"`
	TenantID        string           `json:"tenant_id"`
	TimelineID      string           `json:"timeline_id"`
	Pageservers     Pageservers      `json:"pageserver_connection_info"`
	// PageserverURLs and ShardStripeSize say the same to releases of compute_ctl that do not know
	// pageserver_connection_info: the URLs in the order of the shards, separated by commas.
	PageserverURLs  string  `json:"pageserver_connstring,omitempty"`
	ShardStripeSize *uint32 `json:"shard_stripe_size,omitempty"`
	// Safekeepers are host:port, without a scheme.
	Safekeepers []string `json:"safekeeper_connstrings"`
	// SafekeepersGeneration is that of the timeline's set. Zero turns membership off.
	SafekeepersGeneration uint32 `json:"safekeepers_generation"`
	Mode                  Mode   `json:"mode"`
	// StorageAuthToken is of scope tenant. It is secret.
	StorageAuthToken             string `json:"storage_auth_token"`
	ProjectID                    string `json:"project_id"`
	BranchID                     string `json:"branch_id"`
	EndpointID                   string `json:"endpoint_id"`
	DropSubscriptionsBeforeStart bool   `json:"drop_subscriptions_before_start,omitempty"`
	ReconfigureConcurrency       int    `json:"reconfigure_concurrency,omitempty"`
}

// Cluster is the state that the compute brings Postgres to.
type Cluster struct {
	ClusterID string     `json:"cluster_id"`
	Name      string     `json:"name"`
	State     string     `json:"state"`
	Roles     []Role     `json:"roles"`
	Databases []Database `json:"databases"`
	Settings  []Option   `json:"settings"`
}

// Role is a role that can log in. A compute gives it the rights of neon_superuser.
type Role struct {
	Name string `json:"name"`
	// EncryptedPassword is a verifier: see [Verifier]. Without one the role has no password.
	EncryptedPassword *string  `json:"encrypted_password"`
	Options           []Option `json:"options"`
}

// Database is a database and its owner.
type Database struct {
	Name    string   `json:"name"`
	Owner   string   `json:"owner"`
	Options []Option `json:"options"`
}

// Option is a setting of Postgres, or an option of a role or a database.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Type is string, integer, bool or enum. Only values of type string are quoted.
	Type string `json:"vartype"`
}

// DeltaOperation is a change that a compute makes before it looks at the lists.
type DeltaOperation struct {
	Action  string `json:"action"`
	Name    string `json:"name"`
	NewName string `json:"new_name,omitempty"`
}

// The actions of a DeltaOperation. Upstream has also rename_role, which is broken there:
// for a role that is not there the compute hangs for good.
const (
	DeleteDatabase = "delete_db"
	DeleteRole     = "delete_role"
	RenameDatabase = "rename_db"
)

// Pageservers say where the pages of the timeline are.
type Pageservers struct {
	// ShardCount is 0 for a tenant that was made without shards.
	ShardCount int `json:"shard_count"`
	// StripeSize is in pages; nil if ShardCount is 0.
	StripeSize *uint32 `json:"stripe_size"`
	// Shards have the keys of [ShardKey].
	Shards         map[string]Shard `json:"shards"`
	PreferProtocol string           `json:"prefer_protocol"`
}

// ShardKey is the key of a shard: two hexadecimal digits of its number, two of the count.
func ShardKey(number, count int) string { return fmt.Sprintf("%02x%02x", number, count) }

// Shard says where one shard is.
type Shard struct {
	Pageservers []Pageserver `json:"pageservers"`
}

// Pageserver is one place of a shard.
type Pageserver struct {
	ID  uint64 `json:"id"`
	URL string `json:"libpq_url"`
}

// Mode says which role a compute plays on its timeline. The zero value is Primary.
type Mode struct {
	name string
	lsn  string
}

// Primary reads and writes. There must never be two on a timeline.
func Primary() Mode { return Mode{} }

// Replica follows the timeline and reads.
func Replica() Mode { return Mode{name: "Replica"} }

// Static reads the timeline as of an LSN.
func Static(lsn string) Mode { return Mode{name: "Static", lsn: lsn} }

// LSN returns the LSN of a static compute, and "" for the others.
func (m Mode) LSN() string { return m.lsn }

// String returns Primary, Replica or Static.
func (m Mode) String() string {
	if m.name == "" {
		return "Primary"
	}
	return m.name
}

// MarshalJSON writes the mode as upstream does: a name, or an object for Static.
func (m Mode) MarshalJSON() ([]byte, error) {
	if m.name == "Static" {
		return json.Marshal(map[string]string{m.name: m.lsn})
	}
	return json.Marshal(m.String())
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (m *Mode) UnmarshalJSON(data []byte) error {
	var static struct {
		LSN *string `json:"Static"`
	}
	if json.Unmarshal(data, &static) == nil && static.LSN != nil {
		*m = Static(*static.LSN)
		return nil
	}
	var name string
	err := json.Unmarshal(data, &name)
	switch {
	case err == nil && name == "Primary":
		*m = Primary()
	case err == nil && name == "Replica":
		*m = Replica()
	default:
		return fmt.Errorf("read mode: %s is no mode of a compute", data)
	}
	return nil
}
