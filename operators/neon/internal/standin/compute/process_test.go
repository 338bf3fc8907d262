package compute

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// programVariable makes the test's own program the compute.
const programVariable = "PINTLE_COMPUTE_STANDIN"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "1" {
		os.Exit(Main(os.Args[1:], os.Stderr))
	}
	os.Exit(leak.Run(m))
}

// process is a running compute.
type process struct {
	t        *testing.T
	s        *storage
	dir      string
	cmd      *exec.Cmd
	in       spec.Input
	external int
	internal int
	token    string
	output   *output
	done     chan struct{}
}

// output keeps the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// compute starts a compute with a valid configuration.
func (s *storage) compute(in spec.Input) *process {
	s.t.Helper()
	p := s.prepare(in)
	config, err := spec.Render(p.in)
	if err != nil {
		s.t.Fatal(err)
	}
	p.run(config)
	return p
}

func (s *storage) prepare(in spec.Input) *process {
	p := &process{
		t: s.t, s: s, dir: pgtest.Dir(s.t), in: in, external: testport.Port(s.t), internal: testport.Port(s.t),
		token: s.key.Sign(token.Claims{ComputeID: "c1"}),
	}
	p.in.SocketDirectory = p.dir
	return p
}

// run starts the process.
func (p *process) run(config spec.Config) {
	p.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		p.t.Fatal(err)
	}
	program := filepath.Join(p.dir, "compute_ctl")
	if _, err := os.Stat(program); err != nil {
		own, err := os.Executable()
		if err != nil {
			p.t.Fatal(err)
		}
		content, err := os.ReadFile(own)
		if err == nil {
			err = os.WriteFile(program, content, 0o755)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	file := filepath.Join(p.dir, "config.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(program, "-D", p.data(), "-C", fmt.Sprintf("postgresql://cloud_admin@127.0.0.1:%d/postgres", p.in.Port),
		"-b", filepath.Join(pgtest.Bin(p.t), "postgres"), "--compute-id", "c1", "-c", file,
		"--external-http-port", strconv.Itoa(p.external), "--internal-http-port", strconv.Itoa(p.internal))
	p.cmd.Env = append(os.Environ(), programVariable+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Account(p.t)}
	p.output = &output{}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	p.done = done
	cmd := p.cmd
	go func() {
		defer close(done)
		_ = cmd.Wait() // the tests look at the state
	}()
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			p.t.Logf("output:\n%s", p.output)
		}
	})
}

func (p *process) data() string { return filepath.Join(p.dir, "pgdata") }

// kill kills the process and its PostgreSQL, as the end of a pod does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	p.killPostgres()
}

func (p *process) killPostgres() {
	text, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	kubetest.Eventually(p.t, "the children of PostgreSQL have ended", func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.in.Port))
		if err != nil {
			return nil //nolint:nilerr // nothing listens
		}
		conn.Close()
		return errors.New("they listen")
	})
	// It names a process that is there until its parent looks, and that is not this one here.
	_ = os.Remove(filepath.Join(p.dir, fmt.Sprintf(".s.PGSQL.%d.lock", p.in.Port)))
}

// ended waits for the end of the process and returns its exit code.
func (p *process) ended(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("the process is there after %s", within)
		return 0
	}
}

// call makes a call with the compute's token.
func (p *process) call(method, path, body string) (int, string) {
	p.t.Helper()
	return p.callAs(method, path, body, "Bearer "+p.token)
}

func (p *process) callAs(method, path, body, authorization string) (int, string) {
	p.t.Helper()
	status, said, err := p.try(method, path, body, authorization, time.Minute)
	if err != nil {
		p.t.Fatal(err)
	}
	if same, known := recordedAs(method, path, status, said); known && !same {
		p.t.Errorf("%s %s: real computes answered %d otherwise than with %s", method, path, status, said)
	}
	return status, said
}

func (p *process) try(method, path, body, authorization string, within time.Duration) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", p.external, path), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(said)), err
}

// state returns the answer to /status.
func (p *process) state() state {
	p.t.Helper()
	status, text := p.call(http.MethodGet, "/status", "")
	var s state
	if err := json.Unmarshal([]byte(text), &s); err != nil || status != http.StatusOK {
		p.t.Fatalf("status: %d %s: %v", status, text, err)
	}
	return s
}

// wait waits for a status.
func (p *process) wait(status string) {
	p.t.Helper()
	kubetest.Eventually(p.t, "the compute is "+status, func() error {
		code, text, err := p.try(http.MethodGet, "/status", "", "Bearer "+p.token, 30*time.Second)
		if strings.Contains(text, `"status":"`+status+`"`) {
			return nil
		}
		select {
		case <-p.done:
			p.t.Fatalf("the process ended before it was %s\n%s", status, p.output)
		default:
		}
		return fmt.Errorf("%d %s %s\n%s", code, text, fmt.Sprint(err), p.output)
	})
}

// query runs a statement as a user and returns the first value.
func (p *process) query(name, database, statement string) (string, error) {
	return p.queryWithin(30*time.Second, name, database, statement)
}

func (p *process) queryWithin(within time.Duration, name, database, statement string) (_ string, failed error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=secret dbname=%s default_query_exec_mode=simple_protocol",
		p.in.Port, name, database))
	if err != nil {
		return "", err
	}
	defer func() { failed = errors.Join(failed, conn.Close(context.WithoutCancel(ctx))) }()
	rows, err := conn.Query(ctx, statement)
	if err != nil {
		return "", err
	}
	values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var text *string
		if err := row.Scan(&text); err != nil || text == nil {
			return "", err
		}
		return *text, nil
	})
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[0], nil
}

// must runs a statement of the application.
func (p *process) must(statement string) string {
	p.t.Helper()
	text, err := p.query("app", "appdb", statement)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", statement, err, p.output)
	}
	return text
}
