package spec

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	id  = regexp.MustCompile(`^[0-9a-f]{32}$`)
	lsn = regexp.MustCompile(`^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$`)
	// settingName is that of a setting of Postgres, or of an extension.
	settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)
	optionName  = regexp.MustCompile(`^[A-Z]+( [A-Z]+)*$`)
	// bareValue is one that is no longer a value if it holds anything else: it is not quoted.
	bareValue = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)
)

// kept are the settings on which the storage of Neon depends. Nobody else sets them.
var kept = []string{
	"synchronous_standby_names", "wal_level", "wal_log_hints", "port", "listen_addresses", "primary_conninfo",
	"primary_slot_name", "hot_standby", "recovery_prefetch", "restart_after_crash", "unix_socket_directories",
	"archive_mode", "data_directory", "config_file", "hba_file", "recovery_target", "recovery_target_lsn",
	"recovery_target_timeline", "restore_command", "full_page_writes", "max_replication_write_lag",
	"max_replication_flush_lag", "neon.tenant_id", "neon.timeline_id", "neon.safekeepers",
	"neon.pageserver_connstring", "neon.safekeeper_token_env", "neon.safekeeper_conninfo_options",
}

// ErrInvalid is in all errors of Validate.
var ErrInvalid = errors.New("the configuration of a compute is invalid")

type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p problems) joined() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(p...))
}

// refuse finds mistakes that a configuration does not show: settings that replace those of
// Render.
func refuse(in Input) error {
	var p problems
	for name := range in.Settings {
		if slices.Contains(kept, strings.ToLower(name)) {
			p.add("setting %s: storage depends on it, it can't be set", name)
		}
	}
	slices.SortFunc(p, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if in.StripeSize == 0 && len(in.Shards) > 1 {
		p.add("shards: %d without a stripe size", len(in.Shards))
	}
	return p.joined()
}

// Validate returns all mistakes that a compute would answer with status "failed" for good,
// with a hang, or not at all. They are joined, and errors.Is finds ErrInvalid. No message
// holds a secret.
func (c Config) Validate() error {
	var p problems
	s := c.Spec
	if !id.MatchString(s.TenantID) {
		p.add("tenant_id %q: want 32 hexadecimal digits", s.TenantID)
	}
	if !id.MatchString(s.TimelineID) {
		p.add("timeline_id %q: want 32 hexadecimal digits", s.TimelineID)
	}
	if s.StorageAuthToken == "" {
		p.add("storage_auth_token: missing")
	}
	if s.Mode.name == "Static" && (!lsn.MatchString(s.Mode.lsn) || strings.Trim(s.Mode.lsn, "0") == "/") {
		p.add("mode: LSN %q: want the form 0/16B3748", s.Mode.lsn)
	}
	s.Pageservers.validate(&p)
	s.validateSafekeepers(&p)
	s.Cluster.validateRoles(&p)
	s.Cluster.validateDatabases(&p)
	s.validateDeltas(&p)
	s.validateSettings(&p)
	if len(c.ComputeCtl.JWKS.Keys) == 0 {
		p.add("jwks: no key, so nobody could call the compute")
	}
	for _, key := range c.ComputeCtl.JWKS.Keys {
		if _, err := key.Public(); err != nil {
			p.add("jwks: %w", err)
		}
	}
	return p.joined()
}

func (i Pageservers) validate(p *problems) {
	want := max(i.ShardCount, 1)
	switch {
	case i.ShardCount < 0 || i.ShardCount > 255:
		p.add("shard_count %d: want 0 to 255", i.ShardCount)
		return
	case i.ShardCount == 0 && i.StripeSize != nil:
		p.add("stripe_size %d: want none without shards", *i.StripeSize)
	case i.ShardCount > 0 && (i.StripeSize == nil || *i.StripeSize == 0):
		p.add("stripe_size: missing with %d shards", i.ShardCount)
	}
	if len(i.Shards) != want {
		p.add("shards: want %d, have %d", want, len(i.Shards))
	}
	for number := range want {
		key := ShardKey(number, i.ShardCount)
		shard := i.Shards[key]
		if len(shard.Pageservers) == 0 {
			p.add("shard %s: no pageserver", key)
		}
		for _, server := range shard.Pageservers {
			u, err := url.Parse(server.URL)
			if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Hostname() == "" || !port(u.Port()) {
				p.add("shard %s: pageserver %d: %q is no URL like postgres://no_user@host:6400", key, server.ID, server.URL)
			}
		}
	}
	if i.PreferProtocol != "libpq" {
		p.add("prefer_protocol %q: want libpq", i.PreferProtocol)
	}
}

func (s Spec) validateSafekeepers(p *problems) {
	if len(s.Safekeepers) == 0 && s.Mode.name != "Static" {
		p.add("safekeepers: none, but a compute of mode %s needs them", s.Mode)
	}
	for i, address := range s.Safekeepers {
		host, number, err := net.SplitHostPort(address)
		if err != nil || host == "" || strings.ContainsAny(host, " ,'\\=/@") || !port(number) {
			p.add("safekeeper %q: want host:port", address)
		}
		if slices.Contains(s.Safekeepers[:i], address) {
			p.add("safekeeper %q: named twice", address)
		}
	}
}

func (c Cluster) validateRoles(p *problems) {
	for i, role := range c.Roles {
		if why := BadRole(role.Name); why != "" {
			p.add("role %q: %s", role.Name, why)
		}
		if slices.ContainsFunc(c.Roles[:i], func(r Role) bool { return r.Name == role.Name }) {
			p.add("role %q: named twice", role.Name)
		}
		if role.EncryptedPassword != nil && !storable(*role.EncryptedPassword) {
			p.add("role %q: its password is neither a SCRAM-SHA-256 verifier nor md5", role.Name)
		}
		validateOptions(p, fmt.Sprintf("role %q", role.Name), role.Options)
	}
}

func (c Cluster) validateDatabases(p *problems) {
	for i, database := range c.Databases {
		if why := BadDatabase(database.Name); why != "" {
			p.add("database %q: %s", database.Name, why)
		}
		if slices.ContainsFunc(c.Databases[:i], func(d Database) bool { return d.Name == database.Name }) {
			p.add("database %q: named twice", database.Name)
		}
		if !slices.ContainsFunc(c.Roles, func(r Role) bool { return r.Name == database.Owner }) {
			p.add("database %q: its owner %q is none of the roles", database.Name, database.Owner)
		}
		validateOptions(p, fmt.Sprintf("database %q", database.Name), database.Options)
	}
}

func validateOptions(p *problems, of string, options []Option) {
	for _, option := range options {
		if !optionName.MatchString(option.Name) || (option.Type != "string" && !bareValue.MatchString(option.Value)) {
			p.add("%s: option %q: no option of Postgres", of, option.Name)
		}
	}
}

func (s Spec) validateDeltas(p *problems) {
	isRole := func(name string) bool {
		return slices.ContainsFunc(s.Cluster.Roles, func(r Role) bool { return r.Name == name })
	}
	isDatabase := func(name string) bool {
		return slices.ContainsFunc(s.Cluster.Databases, func(d Database) bool { return d.Name == name })
	}
	for _, delta := range s.DeltaOperations {
		if why := badName(delta.Name); why != "" {
			p.add("%s %q: %s", delta.Action, delta.Name, why)
		}
		switch {
		case delta.Action == "rename_role":
			p.add("rename_role %q: a compute hangs on it, rename the role with SQL", delta.Name)
		case delta.Action == DeleteRole && isRole(delta.Name), delta.Action == DeleteDatabase && isDatabase(delta.Name):
			p.add("%s %q: it is also among those to keep", delta.Action, delta.Name)
		case delta.Action == RenameDatabase && (badName(delta.NewName) != "" || delta.NewName == delta.Name):
			p.add("rename_db %q: to %q", delta.Name, delta.NewName)
		case delta.Action == RenameDatabase && isDatabase(delta.Name):
			p.add("rename_db %q: the old name is among the databases", delta.Name)
		case !slices.Contains([]string{DeleteDatabase, DeleteRole, RenameDatabase}, delta.Action):
			p.add("delta operation %q of %q: unknown", delta.Action, delta.Name)
		}
	}
}

func (s Spec) validateSettings(p *problems) {
	values := map[string]string{}
	for _, option := range s.Cluster.Settings {
		name := strings.ToLower(option.Name)
		if _, twice := values[name]; twice {
			p.add("setting %s: named twice", option.Name)
		}
		values[name] = option.Value
		if !settingName.MatchString(option.Name) {
			p.add("setting %q: no name of a setting", option.Name)
		}
		if strings.ContainsFunc(option.Value, unicode.IsControl) {
			p.add("setting %s: its value has control characters", option.Name)
		}
		if option.Type != "string" && !bareValue.MatchString(option.Value) {
			p.add("setting %s: its value %q needs the type string", option.Name, option.Value)
		}
	}
	libraries := strings.FieldsFunc(values["shared_preload_libraries"], func(r rune) bool { return r == ',' || r == ' ' })
	if !slices.Contains(libraries, "neon") {
		p.add("setting shared_preload_libraries: without neon a compute has no storage")
	}
	if s.Mode == Primary() && values["synchronous_standby_names"] != "walproposer" {
		p.add("setting synchronous_standby_names: without walproposer a commit returns before it is durable")
	}
	most, known := Megabytes(values[FileCache])
	if now, ok := Megabytes(values[fileCacheLimit]); ok && known && now > most {
		p.add("setting %s: above %s, Postgres would not start", fileCacheLimit, FileCache)
	}
	if !port(values["port"]) {
		p.add("setting port: %q is no port", values["port"])
	}
	if s.Mode == Replica() {
		for _, part := range []string{"host=", "timeline_id=" + s.TimelineID, "tenant_id=" + s.TenantID, "password="} {
			if !strings.Contains(values["primary_conninfo"], part) {
				p.add("setting primary_conninfo: a replica without %s never advances", strings.SplitAfter(part, "=")[0])
			}
		}
		if values["primary_slot_name"] == "" || values["hot_standby"] != "on" {
			p.add("settings primary_slot_name and hot_standby: a replica needs them")
		}
	}
}

// BadRole says why a name is none of a role that a configuration can have, or nothing.
func BadRole(name string) string {
	reserved := []string{"cloud_admin", "neon_superuser", "privileged_role_name", "public", "none", "walproposer"}
	if slices.Contains(reserved, name) || strings.HasPrefix(name, "pg_") {
		return "the name belongs to Postgres or to the compute"
	}
	return badName(name)
}

// BadDatabase says why a name is none of a database that a configuration can have, or nothing.
func BadDatabase(name string) string {
	if slices.Contains([]string{"postgres", "template0", "template1"}, name) {
		return "the name belongs to Postgres"
	}
	return badName(name)
}

// badName says why a name is none of a role or a database. Postgres cuts longer names.
func badName(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > 63:
		return "the name has more than 63 bytes"
	case strings.ContainsFunc(name, unicode.IsControl), !utf8.ValidString(name):
		return "the name has control characters or is not UTF-8"
	}
	return ""
}

func port(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
