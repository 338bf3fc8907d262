package spec

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Input is all that a configuration follows from.
type Input struct {
	Tenant, Timeline          string
	Project, Branch, Endpoint string
	Mode                      Mode
	// PostgresVersion is the major version, such as 17.
	PostgresVersion int

	// Shards are the places of the tenant's shards, in the order of their numbers.
	Shards []Place
	// StripeSize is that of a sharded tenant, in pages. Without one there is one shard.
	StripeSize uint32

	// Safekeepers are host:port. Their order and repetitions don't matter.
	Safekeepers           []string
	SafekeepersGeneration uint32

	// Token is of scope tenant.
	Token string
	// Keys verify the tokens of the compute's callers.
	Keys []token.JWK
	// TLS names the files of the compute's certificate, if it has one.
	TLS *TLS

	Roles     []Role
	Databases []Database
	// Deltas come before the lists.
	Deltas []DeltaOperation
	// DropSubscriptions keeps a branch from taking its parent's logical replication.
	DropSubscriptions bool

	// Port is that of Postgres; without one 55433.
	Port int
	// SocketDirectory is one that Postgres can write; without one Postgres takes /tmp.
	SocketDirectory string
	// Memory is that of the compute, in bytes; without one 1 GiB.
	Memory int64
	// MaxConnections is by Memory if it is 0.
	MaxConnections int
	// AtLeast are the least values of some settings. A replica needs its primary's: see [Floor].
	AtLeast map[string]int
	// FileCache is the size of the cache of pages on the compute's disk, in bytes.
	FileCache int64
	// TemporaryFiles is the room that a session has for its temporary files on that disk, in bytes;
	// without one there is no limit.
	TemporaryFiles int64
	// Settings are of Postgres, by their names. They win over those that Render gives,
	// except for those that storage depends on: Validate refuses them.
	Settings map[string]string
}

// Place is where one shard is.
type Place struct {
	// Pageserver is its ID.
	Pageserver uint64
	Host       string
	Port       int
}

// DefaultPort is the port on which Postgres listens if an Input names none.
const DefaultPort = 55433

// Render returns the configuration of an input. Equal inputs give equal configurations. An
// error joins all that Validate finds.
func Render(in Input) (Config, error) {
	c := Config{
		Spec: Spec{
			FormatVersion:         1,
			SuspendTimeoutSeconds: -1, // the operator suspends, not the compute
			Cluster: Cluster{
				ClusterID: in.Endpoint,
				Name:      in.Endpoint,
				State:     "restarted",
				Roles:     sorted(in.Roles, func(r Role) string { return r.Name }),
				Databases: sorted(in.Databases, func(d Database) string { return d.Name }),
				Settings:  settings(in),
			},
			DeltaOperations:              append([]DeltaOperation{}, in.Deltas...),
			TenantID:                     in.Tenant,
			TimelineID:                   in.Timeline,
			Pageservers:                  pageservers(in.Shards, in.StripeSize),
			PageserverURLs:               urls(in.Shards),
			Safekeepers:                  safekeepers(in.Safekeepers),
			SafekeepersGeneration:        in.SafekeepersGeneration,
			Mode:                         in.Mode,
			StorageAuthToken:             in.Token,
			ProjectID:                    in.Project,
			BranchID:                     in.Branch,
			EndpointID:                   in.Endpoint,
			DropSubscriptionsBeforeStart: in.DropSubscriptions,
		},
		ComputeCtl: ComputeCtl{JWKS: JWKS{Keys: append([]token.JWK{}, in.Keys...)}, TLS: in.TLS},
	}
	c.Spec.ShardStripeSize = c.Spec.Pageservers.StripeSize
	if in.TLS != nil {
		c.Spec.Features = []string{FeatureTLS}
	}
	if err := refuse(in); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// sorted returns a sorted copy that is never nil: a list that is null is refused.
func sorted[T any](list []T, name func(T) string) []T {
	list = append([]T{}, list...)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return list
}

func safekeepers(list []string) []string {
	return slices.Compact(sorted(list, func(s string) string { return s }))
}

func pageservers(places []Place, stripe uint32) Pageservers {
	p := Pageservers{Shards: map[string]Shard{}, PreferProtocol: "libpq"}
	if stripe > 0 {
		p.ShardCount, p.StripeSize = len(places), &stripe
	}
	for i, place := range places {
		p.Shards[ShardKey(i, p.ShardCount)] = Shard{Pageservers: []Pageserver{{ID: place.Pageserver, URL: place.url()}}}
	}
	return p
}

// url is the address of a shard as computes write it: they add the token.
func (p Place) url() string {
	return "postgres://no_user@" + net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
}

// urls returns the addresses of all shards in the form that older computes read.
func urls(places []Place) string {
	all := make([]string, len(places))
	for i, p := range places {
		all[i] = p.url()
	}
	return strings.Join(all, ",")
}

// settings returns those of Postgres, in an order of their own: first those that every
// compute has, then those of replicas, then the rest of the input's by their names.
func settings(in Input) []Option {
	list := common(in)
	if in.Mode == Replica() {
		list = append(list, following(in)...)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Settings)) {
		option := Option{Name: name, Value: in.Settings[name], Type: "string"}
		same := func(o Option) bool { return strings.EqualFold(o.Name, name) }
		i := slices.IndexFunc(list, same)
		if i < 0 {
			list = append(list, option)
		} else {
			list[i] = option
		}
	}
	return raise(list, in.AtLeast)
}

// standby are the settings that a compute must not have below those of the one whose WAL it
// replays, with PostgreSQL's defaults.
var standby = map[string]int{
	"max_connections": 100, "max_worker_processes": 8, "max_wal_senders": 10, "max_prepared_transactions": 0,
	"max_locks_per_transaction": 64,
}

// Floor returns the settings of an input that a replica of its compute must not have below, for the
// replica's AtLeast.
func Floor(in Input) map[string]int {
	least := maps.Clone(standby)
	for _, option := range settings(in) {
		name := strings.ToLower(option.Name)
		if value, err := strconv.Atoi(option.Value); err == nil {
			if _, ok := standby[name]; ok {
				least[name] = value
			}
		}
	}
	return least
}

// raise returns a list with no setting below a least value.
func raise(list []Option, least map[string]int) []Option {
	for _, name := range slices.Sorted(maps.Keys(least)) {
		i := slices.IndexFunc(list, func(o Option) bool { return strings.EqualFold(o.Name, name) })
		if i < 0 {
			if least[name] > standby[name] {
				list = append(list, Option{name, strconv.Itoa(least[name]), "integer"})
			}
			continue
		}
		if value, err := strconv.Atoi(list[i].Value); err == nil && value < least[name] {
			list[i].Value = strconv.Itoa(least[name])
		}
	}
	return list
}

func common(in Input) []Option {
	memory := cmp.Or(in.Memory, 1<<30)
	// Pages come from the pageservers and stay in the file cache, so shared buffers are small.
	buffers := min(max(memory/8, 16<<20), 8<<30)
	connections := in.MaxConnections
	if connections == 0 {
		connections = int(min(max(memory/9_531_392, 25), 4000)) // 112 for 1 GiB, as upstream's service has it
	}
	maintenance := min(max(memory/16, 16<<20), 2<<30)
	list := []Option{
		{"listen_addresses", "*", "string"},
		{"port", strconv.Itoa(cmp.Or(in.Port, DefaultPort)), "integer"},
		{"shared_preload_libraries", "neon", "string"},
		{"synchronous_standby_names", "walproposer", "string"},
		{"wal_level", "logical", "enum"},
		{"max_connections", strconv.Itoa(connections), "integer"},
		{"shared_buffers", megabytes(buffers), "string"},
		{"effective_cache_size", megabytes(max(memory*3/4, 1<<20)), "string"},
		{"maintenance_work_mem", megabytes(maintenance), "string"},
		{"wal_log_hints", "off", "bool"},
		{"max_wal_senders", "10", "integer"},
		{"max_replication_slots", "10", "integer"},
		{"max_replication_write_lag", "500MB", "string"},
		{"max_replication_flush_lag", "10GB", "string"},
		{"restart_after_crash", "off", "bool"}, // compute_ctl ends instead, and its pod starts again
		{"password_encryption", "scram-sha-256", "enum"},
		{"fsync", "off", "bool"}, // the compute's disk holds no data: safekeepers make commits durable
		{FileCache, megabytes(in.FileCache), "string"},
		{fileCacheLimit, megabytes(in.FileCache), "string"},
	}
	if in.TemporaryFiles > 0 {
		list = append(list, Option{"temp_file_limit", megabytes(in.TemporaryFiles), "string"})
	}
	if in.SocketDirectory != "" {
		list = append(list, Option{"unix_socket_directories", in.SocketDirectory, "string"})
	}
	return list
}

// following returns the settings by which a replica reads the WAL from the safekeepers.
// Without the password it starts and never advances, and no status says so.
func following(in Input) []Option {
	var hosts, ports []string
	for _, address := range safekeepers(in.Safekeepers) {
		host, port, _ := net.SplitHostPort(address) // Validate reports a bad address
		hosts, ports = append(hosts, host), append(ports, port)
	}
	conninfo := fmt.Sprintf("host=%s port=%s options='-c timeline_id=%s tenant_id=%s' "+
		"application_name=replica replication=true password=%s",
		strings.Join(hosts, ","), strings.Join(ports, ","), in.Timeline, in.Tenant, in.Token)
	list := []Option{
		{"primary_conninfo", conninfo, "string"},
		{"primary_slot_name", "repl_" + in.Timeline + "_", "string"},
		{"hot_standby", "on", "bool"},
	}
	if in.PostgresVersion >= 15 {
		// Upstream's replicas cannot prefetch during recovery. PostgreSQL 14 has no such setting.
		list = append(list, Option{"recovery_prefetch", "off", "bool"})
	}
	return list
}

// The settings of the cache of pages: its greatest size, and the present one.
const (
	FileCache      = "neon.max_file_cache_size"
	fileCacheLimit = "neon.file_cache_size_limit"
)

var size = regexp.MustCompile(`^\s*(\d{1,12})\s*(B|kB|MB|GB|TB)?\s*$`)

// Megabytes returns the value of a setting that Postgres reads as a number of megabytes unless it has
// a unit, in bytes.
func Megabytes(value string) (bytes int64, ok bool) {
	parts := size.FindStringSubmatch(value)
	if parts == nil {
		return 0, false
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	unit := map[string]int64{"B": 1, "kB": 1 << 10, "": 1 << 20, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}[parts[2]]
	if err != nil || number > math.MaxInt64/unit {
		return 0, false
	}
	return number * unit, true
}

// megabytes returns a size as Postgres reads it. Zero is zero.
func megabytes(bytes int64) string {
	if bytes == 0 {
		return "0"
	}
	return fmt.Sprintf("%dMB", max(bytes>>20, 1))
}
