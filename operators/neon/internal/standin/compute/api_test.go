package compute

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// configure sends a configuration that is changed from the compute's own, without a check.
func (p *process) configure(change func(*spec.Config)) (int, string) {
	p.t.Helper()
	config, err := spec.Render(p.in)
	if err != nil {
		p.t.Fatal(err)
	}
	change(&config)
	text, err := json.Marshal(config)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.call(http.MethodPost, "/configure", string(text))
}

func TestCallsNeedATokenOfThisCompute(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	sign := func(c token.Claims) string { return "Bearer " + s.key.Sign(c) }
	for _, of := range []struct {
		name, authorization string
		status              int
		said                string
	}{
		{"its own", sign(token.Claims{ComputeID: "c1"}), 200, `"status":"running"`},
		{"that of all computes", sign(token.Claims{Scope: token.Compute, Audience: []string{"compute"}}), 200, `"status":"running"`},
		{"without the audience", sign(token.Claims{Scope: token.Compute}), 401, `{"error":"invalid claims in authorization token"}`},
		{"another compute's", sign(token.Claims{ComputeID: "c2"}), 401, `{"error":"invalid claims in authorization token"}`},
		{"of another key", "Bearer " + token.New().Sign(token.Claims{ComputeID: "c1"}), 401, `{"error":"failed to verify authorization token"}`},
		{"none", "", 400, `{"error":"invalid authorization token"}`},
	} {
		if status, said := p.callAs(http.MethodGet, "/status", "", of.authorization); status != of.status || !strings.Contains(said, of.said) {
			t.Errorf("%s: %d %s, want %d %s", of.name, status, said, of.status, of.said)
		}
	}
	if status, said := p.callAs(http.MethodGet, "/metrics", "", ""); status != 200 || !strings.Contains(said, `status="running"} 1`) {
		t.Errorf("metrics: %d %s", status, said)
	}
	p.external = p.internal
	if status, _ := p.callAs(http.MethodGet, "/status", "", ""); status != 200 {
		t.Errorf("the internal port without a token: %d", status)
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	s.keepers[0].stop()
	s.keepers[1].stop()
	p := s.compute(s.input(mainID, spec.Primary())) // it can't begin without a majority
	p.wait("init")
	for _, path := range []string{"/terminate?mode=fast", "/terminate?mode=immediate"} {
		if status, said := p.call(http.MethodPost, path, ""); status != 412 || said != `{"error":"invalid compute status: init"}` {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	if status, said := p.configure(func(*spec.Config) {}); status != 412 || said != `{"error":"invalid compute status: init"}` {
		t.Errorf("configure: %d %s", status, said)
	}
	for i := range 2 {
		s.start(s.keepers[i])
		t.Cleanup(s.keepers[i].stop)
	}
	p.wait("running")
	if status, _ := p.call(http.MethodGet, "/promote", ""); status != 405 {
		t.Errorf("GET /promote: %d", status)
	}
	if status, said := p.call(http.MethodPost, "/promote", ""); status != 415 || said != "Expected request with `Content-Type: application/json`" {
		t.Errorf("promote: %d %s", status, said)
	}
	if status, said := p.call(http.MethodPost, "/promote", `{"spec":null,"wal_flush_lsn":"0/0"}`); status != 422 ||
		!strings.HasPrefix(said, "Failed to deserialize the JSON body into the target type: spec: invalid type: null, expected struct ComputeSpec") {
		t.Errorf("promote: %d %s", status, said)
	}
	if status, said := p.call(http.MethodPost, "/check_writability", ""); status != 200 || said != "true" {
		t.Errorf("check_writability: %d %s", status, said)
	}
	if status, said := p.call(http.MethodGet, "/dbs_and_roles", ""); status != 200 || !strings.Contains(said, `"neon_superuser"`) {
		t.Errorf("dbs_and_roles: %d %s", status, said)
	}
	if status, said := p.call(http.MethodPost, "/configure", `{"spec":{"no_such_field":1}}`); status != 422 {
		t.Errorf("configure with an unknown field: %d %s", status, said)
	}
}

func TestConfigureAppliesRolesAndDatabases(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select 1")
	hash, limit := strings.Repeat("0123456789abcdef", 2), []spec.Option{{Name: "CONNECTION LIMIT", Value: "3", Type: "integer"}}
	status, said := p.configure(func(c *spec.Config) {
		c.Spec.Cluster.Roles = append(c.Spec.Cluster.Roles,
			spec.Role{Name: "bob"}, spec.Role{Name: "dora", EncryptedPassword: &hash, Options: limit})
		c.Spec.Cluster.Databases = append(c.Spec.Cluster.Databases, spec.Database{Name: "bobdb", Owner: "bob"})
		c.Spec.Cluster.Settings = append(c.Spec.Cluster.Settings, spec.Option{Name: "work_mem", Value: "7MB", Type: "string"})
		for i, option := range c.Spec.Cluster.Settings {
			if option.Name == "max_connections" {
				c.Spec.Cluster.Settings[i].Value = "77"
			}
		}
	})
	if status != 200 {
		t.Fatalf("configure: %d %s\n%s", status, said, p.output)
	}
	const roles = `select string_agg(format('%s|%s|%s|%s%s%s%s', rolname, rolconnlimit, coalesce(left(rolpassword, 8), 'null'),
		rolcreaterole::int, rolcreatedb::int, rolbypassrls::int, rolreplication::int), ' ' order by rolname)
		from pg_authid where rolname in ('app', 'bob', 'dora')`
	for statement, want := range map[string]string{
		roles: "app|-1|SCRAM-SH|1111 bob|-1|null|1111 dora|3|md501234|1111",
		"select string_agg(datname || '/' || pg_get_userbyid(datdba), ',' order by datname) from pg_database where datname like '%db'": "appdb/app,bobdb/bob",
		"show work_mem": "7MB",
		"select pending_restart::text from pg_settings where name = 'max_connections'": "true",
		"select pg_has_role('app', 'neon_superuser', 'member')::text":                  "true",
	} {
		if got, err := p.query("cloud_admin", "postgres", statement); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", statement, got, err, want)
		}
	}
	// The lists remove nothing; delta operations do.
	if status, said := p.configure(func(*spec.Config) {}); status != 200 {
		t.Fatalf("configure: %d %s", status, said)
	}
	if got, err := p.query("bob", "bobdb", "create table own as select 1; select 'there'"); err != nil {
		t.Errorf("bob's database: %s, %v", got, err)
	}
	status, said = p.configure(func(c *spec.Config) {
		c.Spec.DeltaOperations = []spec.DeltaOperation{
			{Action: spec.RenameDatabase, Name: "bobdb", NewName: "bobdb2"}, {Action: spec.DeleteRole, Name: "bob"},
			{Action: spec.DeleteDatabase, Name: "nonedb"}, {Action: spec.DeleteRole, Name: "none"},
		}
	})
	if status != 200 {
		t.Fatalf("configure: %d %s\n%s", status, said, p.output)
	}
	const left = "select string_agg(datname || '/' || pg_get_userbyid(datdba), ',' order by datname) from pg_database where datname like '%db%'"
	if got, err := p.query("cloud_admin", "postgres", left); err != nil || got != "appdb/app,bobdb2/app" {
		t.Errorf("after rename_db and delete_role: %s, %v", got, err)
	}
	// The verifier of the configuration wins over SQL.
	if _, err := p.query("cloud_admin", "postgres", "alter role app password 'other'"); err != nil {
		t.Fatal(err)
	}
	if status, said := p.configure(func(*spec.Config) {}); status != 200 {
		t.Fatalf("configure: %d %s", status, said)
	}
	if got, err := p.query("cloud_admin", "postgres", "select rolpassword from pg_authid where rolname = 'app'"); err != nil || !spec.Verifies(got, "secret") {
		t.Errorf("app's password is %s, %v", got, err)
	}
}

func TestABadConfigurationFailsForGood(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	status, said := p.configure(func(c *spec.Config) { c.Spec.Cluster.Databases[0].Owner = "nobodyrole" })
	if status != 500 || said != `{"error":"compute configuration failed: \"unknown error\""}` {
		t.Errorf("configure: %d %s", status, said)
	}
	if state := p.state(); state.Status != "failed" || state.Error != nil {
		t.Errorf("status: %+v", state)
	}
	for _, path := range []string{"/configure", "/terminate?mode=fast"} {
		status, said := p.configure(func(*spec.Config) {})
		if path != "/configure" {
			status, said = p.call(http.MethodPost, path, "")
		}
		if status != 412 || said != `{"error":"invalid compute status: failed"}` {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	p.must("select 1") // it goes on serving
}

func TestABadConfigurationAtTheStart(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.prepare(s.input(mainID, spec.Primary()))
	config, err := spec.Render(p.in)
	if err != nil {
		t.Fatal(err)
	}
	config.Spec.Cluster.Databases[0].Owner = "nobodyrole"
	p.run(config)
	p.wait("failed")
	if state := p.state(); state.Error == nil || !strings.Contains(*state.Error, "nobodyrole") {
		t.Errorf("status: %+v", state)
	}
	if _, err := p.query("app", "postgres", "select 1"); err == nil {
		t.Error("PostgreSQL goes on")
	}
}

func TestRenameOfAnUnknownRoleHangs(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	config, err := spec.Render(p.in)
	if err != nil {
		t.Fatal(err)
	}
	config.Spec.DeltaOperations = []spec.DeltaOperation{{Action: "rename_role", Name: "ghost", NewName: "ghost2"}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = p.try(http.MethodPost, "/configure", string(text), "Bearer "+p.token, time.Second)
	if !errors.Is(err, os.ErrDeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), "deadline")) {
		t.Errorf("configure: %v", err)
	}
	p.wait("configuration")
	time.Sleep(time.Second) // nothing may happen
	if state := p.state(); state.Status != "configuration" {
		t.Errorf("status: %+v", state)
	}
}

func TestLastActive(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	if state := p.state(); state.LastActive != nil {
		t.Errorf("before any session it was active at %s", *state.LastActive)
	}
	p.must("select 1 from pg_sleep(5)")
	time.Sleep(2 * time.Second) // until its backend has ended and the compute has looked
	state := p.state()
	if state.LastActive == nil {
		t.Fatal("a session of 5 s was not seen")
	}
	time.Sleep(time.Second) // nothing may happen
	if again := p.state(); *again.LastActive != *state.LastActive {
		t.Errorf("without a session it was active at %s, and then at %s", *state.LastActive, *again.LastActive)
	}
}

func TestFastTerminationKeepsTheProcess(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	if status, said := p.call(http.MethodPost, "/terminate?mode=fast", ""); status != 200 {
		t.Errorf("terminate: %d %s", status, said)
	}
	time.Sleep(time.Second) // the process may not end
	if state := p.state(); state.Status != "terminated" {
		t.Errorf("status: %+v", state)
	}
	if _, err := p.query("app", "appdb", "select 1"); err == nil {
		t.Error("PostgreSQL goes on")
	}
}

func TestFlagsOfUpstream(t *testing.T) {
	t.Parallel()
	valid := []string{"-D", "/d", "-C", "postgresql://u@h/d", "-b", "/bin/postgres", "--compute-id", "c", "-c", "/c.json",
		"--external-http-port", "3080", "--internal-http-port", "3081"}
	want := options{data: "/d", connection: "postgresql://u@h/d", postgres: "/bin/postgres", id: "c", config: "/c.json", external: 3080, internal: 3081}
	if got, err := parse(valid); err != nil || got != want {
		t.Errorf("parse: %+v, %v", got, err)
	}
	for _, bad := range [][]string{{"--no-such-flag"}, {"argument"}, {"--http-port", "1"}, {"-D", "/e"}, {"-config", "/c"}} {
		if _, err := parse(slices.Concat(valid, bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := parse(valid[2:]); err == nil {
		t.Error("-D may be missing")
	}
}
