package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// programVariable makes the test's own program the stand-in.
const programVariable = "PINTLE_NEON_STANDIN"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "1" {
		os.Exit(run(os.Args, os.Stderr))
	}
	os.Exit(leak.Run(m))
}

// copyProgram puts the stand-in where PostgreSQL's user can run it.
func copyProgram(t *testing.T, dir string) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "standin")
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

func command(program string, environment []string, args ...string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Args = args // the stand-in acts by its name
	cmd.Env = append(append(os.Environ(), programVariable+"=1"), environment...)
	return cmd
}

// TestRefusals checks that each program refuses the command lines and files that the real one
// refuses.
//
// The tests do not run in parallel: a process that is started while the program is written keeps it
// open, and it cannot be run then.
func TestRefusals(t *testing.T) {
	program := copyProgram(t, t.TempDir())
	some := []string{
		"PUBLIC_KEY=" + string(token.New().Public().PEM()), "PAGESERVER_JWT_TOKEN=a", "CONTROL_PLANE_JWT_TOKEN=b",
	}
	secrets := append(slices.Clone(some), "SAFEKEEPER_JWT_TOKEN=c")
	database := "DATABASE_URL=postgresql://nobody@127.0.0.1:1/none"
	for name, c := range map[string]struct {
		environment []string
		args        []string
		code        int
		says        string
	}{
		"unknown name":            {nil, []string{"proxy"}, 2, "no program"},
		"broker, unknown flag":    {nil, []string{"storage_broker", "--bogus"}, 2, "bogus"},
		"broker, long flag":       {nil, []string{"storage_broker", "-listen-addr=127.0.0.1:0"}, 2, "unexpected argument"},
		"broker, by argument":     {nil, []string{"standin", "storage_broker", "extra"}, 2, "extra"},
		"broker, no listen":       {nil, []string{"storage_broker"}, 2, "--listen-addr"},
		"controller, no listen":   {nil, []string{"storage_controller"}, 2, "--listen"},
		"controller, no database": {nil, []string{"storage_controller", "-l", "127.0.0.1:0"}, 1, "Database URL"},
		"controller, no secrets":  {[]string{database}, []string{"storage_controller", "-l", "127.0.0.1:0"}, 1, "Insecure config"},
		"controller, no token for safekeepers": {
			append([]string{database}, some...), []string{"storage_controller", "-l", "127.0.0.1:0", "--control-plane-url=http://x"}, 1,
			"Insecure config",
		},
		"controller, no hooks": {
			append([]string{database}, secrets...), []string{"storage_controller", "-l", "127.0.0.1:0"}, 1, "--control-plane-url",
		},
		"controller, no answer of the database": {
			append([]string{database}, secrets...),
			[]string{"storage_controller", "-l", "127.0.0.1:0", "--control-plane-url=http://x", "--db-connect-timeout=100ms"}, 1,
			"connect to database",
		},
		"pageserver, no such flag": {nil, []string{"pageserver", "-D", ".", "--dev"}, 2, "--dev"},
		"safekeeper, no ID":        {nil, []string{"safekeeper", "-D", "."}, 1, "id is not specified"},
		"safekeeper, bad storage":  {nil, []string{"safekeeper", "-D", ".", "--id=1", "--remote-storage={x"}, 2, "remote-storage"},
		"safekeeper, no directory": {nil, []string{"safekeeper", "-D", "missing", "--id=1"}, 1, "workdir"},
		"pageserver, no identity":  {nil, []string{"pageserver", "-D", "."}, 1, "identity.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := command(program, c.environment, c.args...)
			cmd.Dir = t.TempDir()
			output, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(output), c.says) {
				t.Errorf("exit code %d, want %d (%v)\n%s\nwant %q", code, c.code, err, output, c.says)
			}
		})
	}
}

// world is all programs as processes.
type world struct {
	*testing.T
	dir, program string
	key          token.Key
	ports        map[string]int
	controller   *upstream.Controller
}

const (
	tenant = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"
	root   = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1"
	branch = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2"
)

// start starts a program and ends it with the test.
func (w *world) start(environment []string, args ...string) *exec.Cmd {
	w.Helper()
	cmd := command(w.program, environment, args...)
	cmd.Dir = w.dir
	if args[0] == computeName {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Account(w.T)}
	}
	log, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("%s-%d.log", args[0], time.Now().UnixNano())))
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be over
		_ = cmd.Wait()                          // the same
		text, err := os.ReadFile(log.Name())
		if w.Failed() && err == nil {
			w.Logf("%v:\n%s", args, text)
		}
		log.Close()
	})
	return cmd
}

func (w *world) port(name string) int {
	if w.ports[name] == 0 {
		w.ports[name] = testport.Port(w.T)
	}
	return w.ports[name]
}

func (w *world) url(name string) string { return fmt.Sprintf("http://127.0.0.1:%d", w.port(name)) }

func (w *world) token(s token.Scope) string { return w.key.Sign(token.Claims{Scope: s}) }

func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// storage starts a broker, a storage controller, three safekeepers and a pageserver.
func (w *world) storage() {
	w.write("public.pem", string(w.key.Public().PEM()))
	w.start(nil, "storage_broker", fmt.Sprintf("--listen-addr=127.0.0.1:%d", w.port("broker")))
	w.start([]string{
		"DATABASE_URL=" + lab.StartPostgres(w.T).URL, "PUBLIC_KEY=" + string(w.key.Public().PEM()),
		"PAGESERVER_JWT_TOKEN=" + w.token(token.Pageserver), "SAFEKEEPER_JWT_TOKEN=" + w.token(token.Safekeeper),
		"CONTROL_PLANE_JWT_TOKEN=hooks",
	}, "storage_controller", "-l", fmt.Sprintf("127.0.0.1:%d", w.port("controller")), "--control-plane-url=http://127.0.0.1:1",
		"--timelines-onto-safekeepers", "--heartbeat-interval=200ms")
	for id := 1; id <= 3; id++ {
		name := fmt.Sprintf("safekeeper-%d", id)
		w.write(name+"/x", "")
		w.start(nil, "safekeeper", "-D", name, fmt.Sprintf("--id=%d", id), fmt.Sprintf("--listen-pg=127.0.0.1:%d", w.port(name+"-pg")),
			fmt.Sprintf("--listen-http=127.0.0.1:%d", w.port(name)), "--broker-endpoint="+w.url("broker"),
			fmt.Sprintf("--availability-zone=zone-%d", id), "--remote-storage={local_path='"+filepath.Join(w.dir, "bucket")+"/safekeeper'}",
			"--pg-auth-public-key-path=public.pem", "--http-auth-public-key-path=public.pem")
	}
	w.write("pageserver/identity.toml", "id=1\n")
	w.write("pageserver/metadata.json", fmt.Sprintf(`{"host":"127.0.0.1","port":%d,"http_host":"127.0.0.1","http_port":%d}`,
		w.port("pageserver-pg"), w.port("pageserver")))
	w.write("pageserver/pageserver.toml", fmt.Sprintf(`
listen_pg_addr='127.0.0.1:%d'
listen_http_addr='127.0.0.1:%d'
broker_endpoint='%s'
pg_distrib_dir='%s'
control_plane_api='%s/upcall/v1/'
control_plane_api_token='%s'
http_auth_type='NeonJWT'
pg_auth_type='NeonJWT'
auth_validation_public_key_path='../public.pem'
availability_zone='zone-1'
remote_storage={local_path='../bucket/pageserver'}
`, w.port("pageserver-pg"), w.port("pageserver"), w.url("broker"), filepath.Join(w.dir, "distribution"), w.url("controller"),
		w.token(token.Generations)))
	w.write("distribution/x", "")
	if err := os.Symlink(filepath.Dir(pgtest.Bin(w.T)), filepath.Join(w.dir, "distribution", "v17")); err != nil {
		w.Fatal(err)
	}
	w.start([]string{"NEON_AUTH_TOKEN=" + w.token(token.Safekeeper)}, "pageserver", "-D", "pageserver")
}

// register registers the safekeepers and waits until all are active.
func (w *world) register(ctx context.Context) {
	kubetest.Eventually(w.T, "the storage controller serves", func() error { return w.controller.Ready(ctx) })
	for id := 1; id <= 3; id++ {
		name := fmt.Sprintf("safekeeper-%d", id)
		err := w.controller.Register(ctx, upstream.Registration{
			ID: int64(id), Region: "r", Version: 1, Host: "127.0.0.1", Port: w.port(name + "-pg"), HTTPPort: w.port(name),
			Zone: fmt.Sprintf("zone-%d", id),
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	kubetest.Eventually(w.T, "all safekeepers and the pageserver are active", func() error {
		all, err := w.controller.Registrations(ctx)
		for _, r := range all {
			if r.Policy != upstream.SafekeeperActive {
				return fmt.Errorf("%+v", r)
			}
		}
		nodes, nodesErr := w.controller.Nodes(ctx)
		if err := errors.Join(err, nodesErr); err != nil {
			return err
		}
		if len(nodes) != 1 || nodes[0].Availability != upstream.NodeActive {
			return fmt.Errorf("%+v", nodes)
		}
		return nil
	})
}

// compute starts a compute on a timeline, and returns its client and a connection.
func (w *world) compute(ctx context.Context, name, timeline string, set upstream.SafekeeperSet) (*upstream.Compute, *pgx.Conn) {
	w.Helper()
	dir := pgtest.Dir(w.T)
	verifier := spec.Verifier("secret")
	input := spec.Input{
		Tenant: tenant, Timeline: timeline, Project: "p", Branch: "b", Endpoint: name, Mode: spec.Primary(), PostgresVersion: 17,
		Shards:                []spec.Place{{Pageserver: 1, Host: "127.0.0.1", Port: w.port("pageserver-pg")}},
		SafekeepersGeneration: uint32(set.Generation), Keys: []token.JWK{w.key.Public().JWK()},
		Token: w.key.Sign(token.Claims{Scope: token.Tenant, TenantID: tenant}),
		Roles: []spec.Role{{Name: "app", EncryptedPassword: &verifier}}, Databases: []spec.Database{{Name: "appdb", Owner: "app"}},
		Port: testport.Port(w.T), Memory: 128 << 20, SocketDirectory: dir,
	}
	for _, s := range set.Safekeepers {
		input.Safekeepers = append(input.Safekeepers, fmt.Sprintf("%s:%d", s.Host, w.port(fmt.Sprintf("safekeeper-%d-pg", s.ID))))
	}
	config, err := spec.Render(input)
	if err != nil {
		w.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		w.Fatal(err)
	}
	external := testport.Port(w.T)
	w.start(nil, computeName, "-D", filepath.Join(dir, "pgdata"), "-C", fmt.Sprintf("postgresql://cloud_admin@127.0.0.1:%d/postgres", input.Port),
		"-b", filepath.Join(pgtest.Bin(w.T), "postgres"), "--compute-id", name, "-c", file,
		"--external-http-port", fmt.Sprint(external), "--internal-http-port", fmt.Sprint(testport.Port(w.T)))
	client := upstream.NewCompute(upstream.Config{
		URL: fmt.Sprintf("http://127.0.0.1:%d", external), Sign: w.key.Sign, Timeout: time.Minute,
	}, name)
	var status upstream.ComputeStatus
	kubetest.Eventually(w.T, "compute "+name+" runs", func() error {
		status, err = client.Status(ctx)
		if err == nil && status.Status != upstream.ComputeRunning && status.Status != upstream.ComputeFailed {
			err = fmt.Errorf("it is %s", status.Status)
		}
		return err
	})
	if status.Status != upstream.ComputeRunning {
		w.Fatalf("compute %s is %s: %s", name, status.Status, *status.Error)
	}
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgresql://app:secret@127.0.0.1:%d/appdb", input.Port))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close(context.Background()) }) // the compute may be over
	return client, conn
}

// TestProcesses runs all programs as processes: data that one compute writes is read by the next
// one, and by one on a branch at a time before.
func TestProcesses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := &world{T: t, dir: pgtest.Dir(t), key: token.New(), ports: map[string]int{}}
	w.program = copyProgram(t, w.dir)
	w.controller = upstream.NewController(upstream.Config{URL: w.url("controller"), Sign: w.key.Sign})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	w.storage()
	w.register(ctx)
	if err := w.controller.CreateTenant(ctx, upstream.NewTenant{ID: tenant}); err != nil {
		t.Fatal(err)
	}
	made, err := w.controller.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: root, PGVersion: 17})
	if err != nil {
		t.Fatal(err)
	}

	execute := func(conn *pgx.Conn, statement string) {
		t.Helper()
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	count := func(conn *pgx.Conn) int {
		t.Helper()
		var n int
		if err := conn.QueryRow(ctx, "select count(*) from t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	client, conn := w.compute(ctx, "first", root, *made.Safekeepers)
	execute(conn, "create table t as select generate_series(1, 1000)")
	time.Sleep(time.Second)
	before := time.Now()
	time.Sleep(time.Second)
	execute(conn, "delete from t where generate_series > 10")
	if lsn, err := client.Terminate(ctx); err != nil || lsn == nil {
		t.Fatalf("terminate: %v, %v", lsn, err)
	}

	_, conn = w.compute(ctx, "second", root, *made.Safekeepers)
	if n := count(conn); n != 10 {
		t.Errorf("the next compute has %d rows, want 10", n)
	}
	at, err := w.controller.LSNByTime(ctx, tenant, root, before)
	if err != nil || at.Kind != upstream.LSNPresent {
		t.Fatalf("LSN by time: %+v, %v, want present", at, err)
	}
	child, err := w.controller.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: branch, Ancestor: root, StartLSN: &at.LSN})
	if err != nil {
		t.Fatal(err)
	}
	_, past := w.compute(ctx, "branch", branch, *child.Safekeepers)
	if n := count(past); n != 1000 {
		t.Errorf("the branch has %d rows, want 1000", n)
	}
	execute(past, "delete from t")
	if n := count(conn); n != 10 {
		t.Errorf("after a write on the branch the root has %d rows, want 10", n)
	}
}
