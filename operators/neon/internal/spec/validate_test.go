package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*Config){
		`tenant_id "AB"`:                           func(c *Config) { c.Spec.TenantID = "AB" },
		`timeline_id ""`:                           func(c *Config) { c.Spec.TimelineID = "" },
		"storage_auth_token: missing":              func(c *Config) { c.Spec.StorageAuthToken = "" },
		`LSN "16B3748"`:                            func(c *Config) { c.Spec.Mode = Static("16B3748") },
		`LSN "0/0"`:                                func(c *Config) { c.Spec.Mode = Static("0/0") },
		"shards: want 1, have 0":                   func(c *Config) { c.Spec.Pageservers.Shards = nil },
		"stripe_size: missing with 4 shards":       func(c *Config) { c.Spec.Pageservers.ShardCount = 4 },
		"shard 0000: no pageserver":                func(c *Config) { c.Spec.Pageservers.Shards["0000"] = Shard{} },
		`"http://x" is no URL like`:                func(c *Config) { c.Spec.Pageservers.Shards["0000"].Pageservers[0].URL = "http://x" },
		`prefer_protocol "grpc"`:                   func(c *Config) { c.Spec.Pageservers.PreferProtocol = "grpc" },
		"safekeepers: none":                        func(c *Config) { c.Spec.Safekeepers = nil },
		`safekeeper "sk": want host:port`:          func(c *Config) { c.Spec.Safekeepers[0] = "sk" },
		`safekeeper "http://sk:1": want host:port`: func(c *Config) { c.Spec.Safekeepers[0] = "http://sk:1" },
		`safekeeper "127.0.0.1:5452": named twice`: func(c *Config) { c.Spec.Safekeepers[0] = "127.0.0.1:5452" },
		`role "": the name is empty`:               func(c *Config) { c.Spec.Cluster.Roles[0].Name = "" },
		`role "cloud_admin": the name belongs`:     func(c *Config) { c.Spec.Cluster.Roles[0].Name = "cloud_admin" },
		`role "pg_monitor": the name belongs`:      func(c *Config) { c.Spec.Cluster.Roles[0].Name = "pg_monitor" },
		"more than 63 bytes":                       func(c *Config) { c.Spec.Cluster.Roles[0].Name = strings.Repeat("é", 32) },
		`role "a\nb": the name has control`:        func(c *Config) { c.Spec.Cluster.Roles[0].Name = "a\nb" },
		`role "a\xff": the name has control`:       func(c *Config) { c.Spec.Cluster.Roles[0].Name = "a\xff" },
		`role "app": named twice`:                  func(c *Config) { c.Spec.Cluster.Roles = append(c.Spec.Cluster.Roles, Role{Name: "app"}) },
		"neither a SCRAM-SHA-256 verifier nor md5": func(c *Config) { c.Spec.Cluster.Roles[0].EncryptedPassword = new("hunter2") },
		`option "LOGIN; drop": no option`:          func(c *Config) { c.Spec.Cluster.Roles[0].Options = []Option{{Name: "LOGIN; drop"}} },
		`option "CONNECTION LIMIT": no option`: func(c *Config) {
			c.Spec.Cluster.Roles[0].Options = []Option{{"CONNECTION LIMIT", "3; drop", "integer"}}
		},
		`database "postgres": the name belongs`: func(c *Config) { c.Spec.Cluster.Databases[0].Name = "postgres" },
		`database "appdb": named twice`: func(c *Config) {
			c.Spec.Cluster.Databases = append(c.Spec.Cluster.Databases, c.Spec.Cluster.Databases[0])
		},
		`its owner "ghost" is none of the roles`: func(c *Config) { c.Spec.Cluster.Databases[0].Owner = "ghost" },
		`rename_role "app": a compute hangs on it`: func(c *Config) {
			c.Spec.DeltaOperations = []DeltaOperation{{Action: "rename_role", Name: "app", NewName: "b"}}
		},
		`delete_role "app": it is also among`: func(c *Config) { c.Spec.DeltaOperations = []DeltaOperation{{Action: DeleteRole, Name: "app"}} },
		`delete_db "appdb": it is also among`: func(c *Config) { c.Spec.DeltaOperations = []DeltaOperation{{Action: DeleteDatabase, Name: "appdb"}} },
		`rename_db "x": to ""`:                func(c *Config) { c.Spec.DeltaOperations = []DeltaOperation{{Action: RenameDatabase, Name: "x"}} },
		`rename_db "appdb": the old name`: func(c *Config) {
			c.Spec.DeltaOperations = []DeltaOperation{{Action: RenameDatabase, Name: "appdb", NewName: "y"}}
		},
		`delta operation "drop" of "x": unknown`:    func(c *Config) { c.Spec.DeltaOperations = []DeltaOperation{{Action: "drop", Name: "x"}} },
		"setting port: named twice":                 func(c *Config) { set(c, "port", "1") },
		`setting "a b": no name`:                    func(c *Config) { set(c, "a b", "1") },
		"setting a: its value has control":          func(c *Config) { set(c, "a", "x\ny") },
		"without neon a compute has no storage":     func(c *Config) { change(c, "shared_preload_libraries", "neonatal") },
		"without walproposer a commit returns":      func(c *Config) { change(c, "synchronous_standby_names", "") },
		`its value "4 MB" needs the type string`:    func(c *Config) { change(c, "max_connections", "4 MB") },
		`setting port: "0" is no port`:              func(c *Config) { change(c, "port", "0") },
		"neon.file_cache_size_limit: above":         func(c *Config) { change(c, "neon.file_cache_size_limit", "1GB") },
		"jwks: no key":                              func(c *Config) { c.ComputeCtl.JWKS.Keys = nil },
		"jwks: parse JWK":                           func(c *Config) { c.ComputeCtl.JWKS.Keys = []token.JWK{{KeyType: "RSA"}} },
		"a replica without host= never advances":    func(c *Config) { c.Spec.Mode = Replica() },
		"primary_slot_name and hot_standby: a repl": func(c *Config) { c.Spec.Mode = Replica() },
	} {
		c, err := Render(input(Primary()))
		if err != nil {
			t.Fatal(err)
		}
		spoil(&c)
		err = c.Validate()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want %s", err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "<token>") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("the error holds a secret: %v", err)
		}
	}
}

func TestReplicaWithoutPassword(t *testing.T) {
	t.Parallel()
	c, err := Render(input(Replica()))
	if err != nil {
		t.Fatal(err)
	}
	conninfo := "host=a port=1 options='-c timeline_id=" + c.Spec.TimelineID + " tenant_id=" + c.Spec.TenantID + "'"
	change(&c, "primary_conninfo", conninfo)
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "a replica without password= never advances") {
		t.Errorf("Validate() = %v", err)
	}
}

func TestAllMistakesAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	err := Config{}.Validate()
	for _, want := range []string{"tenant_id", "timeline_id", "storage_auth_token", "safekeepers", "shard 0000", "jwks", "port"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s: %v", want, err)
		}
	}
}

func TestStaticComputeNeedsNoSafekeepers(t *testing.T) {
	t.Parallel()
	in := input(Static("0/25DF6B8"))
	in.Safekeepers, in.SafekeepersGeneration = nil, 0
	c, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(c.Spec.Safekeepers); got != "[]" {
		t.Errorf("safekeepers %s, want []", got)
	}
}

func set(c *Config, name, value string) {
	c.Spec.Cluster.Settings = append(c.Spec.Cluster.Settings, Option{name, value, "string"})
}

func change(c *Config, name, value string) {
	for i, option := range c.Spec.Cluster.Settings {
		if option.Name == name {
			c.Spec.Cluster.Settings[i].Value = value
		}
	}
}
