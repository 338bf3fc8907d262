package spec

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func TestHotChanges(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		change func(*Input)
		why    string
	}{
		"role":           {change: func(in *Input) { in.Roles = append(in.Roles, Role{Name: "bob"}) }},
		"database":       {change: func(in *Input) { in.Databases = nil }},
		"delta":          {change: func(in *Input) { in.Deltas = []DeltaOperation{{Action: DeleteDatabase, Name: "x"}} }},
		"pageserver":     {change: func(in *Input) { in.Shards[0].Host = "elsewhere" }},
		"safekeepers":    {change: func(in *Input) { in.Safekeepers, in.SafekeepersGeneration = []string{"a:1"}, 2 }},
		"work_mem":       {change: func(in *Input) { in.Settings = map[string]string{"work_mem": "8MB"} }},
		"connections":    {change: func(in *Input) { in.MaxConnections = 7 }, why: "setting max_connections"},
		"case":           {change: func(in *Input) { in.Settings = map[string]string{"Shared_Buffers": "8MB"} }, why: "setting shared_buffers"},
		"port":           {change: func(in *Input) { in.Port = 5432 }, why: "setting port"},
		"removed":        {change: func(in *Input) { in.SocketDirectory = "" }, why: "setting unix_socket_directories"},
		"file cache":     {change: func(in *Input) { in.FileCache = 1 << 30 }, why: "setting neon.max_file_cache_size"},
		"extension":      {change: func(in *Input) { in.Settings = map[string]string{"cron.x": "1"} }, why: "setting cron.x"},
		"mode":           {change: func(in *Input) { in.Mode = Static("0/1") }, why: "mode"},
		"timeline":       {change: func(in *Input) { in.Timeline = in.Tenant }, why: "timeline_id"},
		"token":          {change: func(in *Input) { in.Token = "other" }, why: "storage_auth_token"},
		"key of callers": {change: func(in *Input) { in.Keys = []token.JWK{token.New().Public().JWK()} }, why: "compute_ctl_config"},
		"certificate":    {change: func(in *Input) { in.TLS = &TLS{"a", "b"} }, why: "features"},
	} {
		in := input(Primary())
		in.SocketDirectory = "/data"
		before, err := Render(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Shards = slices.Clone(in.Shards)
		of.change(&in)
		after, err := Render(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if hot, why := Hot(before, after); hot != (of.why == "") || why != of.why {
			t.Errorf("%s: Hot() = %t, %q, want %q", name, hot, why, of.why)
		}
		if Hash(before) == Hash(after) {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}

func TestHashHeedsNoNamesForLogs(t *testing.T) {
	t.Parallel()
	a, err := Render(input(Primary()))
	if err != nil {
		t.Fatal(err)
	}
	b := a
	b.Spec.OperationUUID, b.Spec.Cluster.State = "other", "other"
	b.Spec.Cluster.Settings = slices.Clone(a.Spec.Cluster.Settings)
	slices.Reverse(b.Spec.Cluster.Settings)
	if Hash(a) != Hash(b) {
		t.Error("the hashes differ")
	}
}

func TestSettingsAtStartAreThoseOfPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, server.Local("cloud_admin", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "select name, context from pg_settings")
	if err != nil {
		t.Fatal(err)
	}
	contexts := map[string]string{}
	var name, when string
	if _, err := pgx.ForEachRow(rows, []any{&name, &when}, func() error {
		contexts[name] = when
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, when := range contexts {
		if listed := slices.Contains(atStart, name); listed != (when == "postmaster") {
			t.Errorf("%s: context %s, listed as one of the start: %t", name, when, listed)
		}
	}
}
