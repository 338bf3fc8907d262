package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Hash names the meaning of a configuration: those that a compute takes alike have the same.
// The order of roles, databases, settings and safekeepers does not matter, nor do the names
// that only logs show.
func Hash(c Config) string {
	text, err := json.Marshal(plain(c))
	if err != nil {
		panic(fmt.Sprintf("encode configuration: %v", err)) // strings and numbers can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// plain returns the configuration in one order and without names for logs.
func plain(c Config) Config {
	s := &c.Spec
	s.OperationUUID, s.Cluster.State = "", ""
	s.Cluster.Roles = sorted(s.Cluster.Roles, func(r Role) string { return r.Name })
	for i, role := range s.Cluster.Roles {
		s.Cluster.Roles[i].Options = sorted(role.Options, func(o Option) string { return o.Name })
	}
	s.Cluster.Databases = sorted(s.Cluster.Databases, func(d Database) string { return d.Name })
	for i, database := range s.Cluster.Databases {
		s.Cluster.Databases[i].Options = sorted(database.Options, func(o Option) string { return o.Name })
	}
	s.Cluster.Settings = sorted(s.Cluster.Settings, func(o Option) string { return o.Name })
	s.DeltaOperations = append([]DeltaOperation{}, s.DeltaOperations...)
	s.Safekeepers = safekeepers(s.Safekeepers)
	return c
}

// Hot tells whether a compute that runs with one configuration takes another through its
// /configure. If it does not, why names the first thing that needs a restart.
func Hot(before, after Config) (hot bool, why string) {
	a, b := before.Spec, after.Spec
	for _, field := range []struct {
		name          string
		before, after any
	}{
		{"tenant_id", a.TenantID, b.TenantID},
		{"timeline_id", a.TimelineID, b.TimelineID},
		{"mode", a.Mode, b.Mode},
		{"project_id", a.ProjectID, b.ProjectID},
		{"branch_id", a.BranchID, b.BranchID},
		{"endpoint_id", a.EndpointID, b.EndpointID},
		// Postgres has it in its environment.
		{"storage_auth_token", a.StorageAuthToken, b.StorageAuthToken},
		{"features", text(a.Features), text(b.Features)},
		// compute_ctl reads them at its start.
		{"compute_ctl_config", text(before.ComputeCtl), text(after.ComputeCtl)},
	} {
		if field.before != field.after {
			return false, field.name
		}
	}
	for _, name := range changed(a.Cluster.Settings, b.Cluster.Settings) {
		if slices.Contains(atStart, name) || strings.Contains(name, ".") && !slices.Contains(reloaded, name) {
			return false, "setting " + name
		}
	}
	return true, ""
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode configuration: %v", err)) // strings and numbers can be encoded
	}
	return string(data)
}

// changed returns the names of the settings that two lists do not share, sorted.
func changed(before, after []Option) []string {
	values := map[string]string{}
	for _, option := range before {
		values[strings.ToLower(option.Name)] = option.Value
	}
	different := map[string]bool{}
	for _, option := range after {
		name := strings.ToLower(option.Name)
		if value, had := values[name]; !had || value != option.Value {
			different[name] = true
		}
		delete(values, name)
	}
	for name := range values {
		different[name] = true
	}
	return slices.Sorted(maps.Keys(different))
}

// reloaded are the settings of extensions that a running Postgres takes. Of others it is not
// known.
var reloaded = []string{
	"neon.file_cache_size_limit", "neon.pageserver_connstring", "neon.safekeepers", "neon.stripe_size",
	"pg_stat_statements.track", "pg_stat_statements.track_utility", "pg_stat_statements.save",
	"auto_explain.log_min_duration", "auto_explain.log_analyze", "auto_explain.log_buffers",
}

// atStart are the settings that Postgres 14 to 17 reads only at its start (context
// postmaster in pg_settings).
var atStart = strings.Fields(`
	allow_alter_system archive_mode autovacuum_freeze_max_age autovacuum_max_workers
	autovacuum_multixact_freeze_max_age bonjour bonjour_name cluster_name commit_timestamp_buffers
	config_file data_directory data_sync_retry dynamic_shared_memory_type event_source external_pid_file
	hba_file hot_standby huge_page_size huge_pages ident_file ignore_invalid_pages io_direct debug_io_direct
	jit_provider listen_addresses logging_collector max_connections max_files_per_process
	max_locks_per_transaction max_logical_replication_workers max_notify_queue_pages
	max_pred_locks_per_transaction max_prepared_transactions max_replication_slots max_wal_senders
	max_worker_processes min_dynamic_shared_memory multixact_member_buffers multixact_offset_buffers
	notify_buffers old_snapshot_threshold port recovery_target recovery_target_action
	recovery_target_inclusive recovery_target_lsn recovery_target_name recovery_target_time
	recovery_target_timeline recovery_target_xid reserved_connections serializable_buffers shared_buffers
	shared_memory_type shared_preload_libraries subtransaction_buffers superuser_reserved_connections
	trace_connection_negotiation track_activity_query_size track_commit_timestamp transaction_buffers
	unix_socket_directories unix_socket_group unix_socket_permissions wal_buffers wal_decode_buffer_size
	wal_level wal_log_hints
`)
