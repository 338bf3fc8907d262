package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
)

// Programs returns the directory of PostgreSQL's programs. The test is skipped on a machine that
// has none: see pgtest.Bin.
func Programs(t testing.TB) string {
	t.Helper()
	return pgtest.Bin(t)
}

// Postgres is a PostgreSQL server with a database for the storage controller.
type Postgres struct {
	// URL is that of the database.
	URL string

	programs, dir string
	port          int
	command       *exec.Cmd
}

// StartPostgres makes a database cluster and starts it. It ends with the test.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p := &Postgres{programs: Programs(t), dir: pgtest.Dir(t), port: testport.Port(t)}
	p.URL = fmt.Sprintf("postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable", p.port)
	pgtest.Initdb(t, filepath.Join(p.dir, "data"), "--username", "postgres", "--auth", "trust", "--no-sync",
		"--encoding", "utf8", "--locale", "C")
	p.Start(t)
	t.Cleanup(func() { p.Stop(t) })
	return p
}

func (p *Postgres) run(t testing.TB, name string, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.programs, name), arguments...)
	command.Dir = p.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: pgtest.Account(t)}
	dieWithParent(command.SysProcAttr)
	return command
}

// Start starts the server after Stop.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	p.command = p.run(t, "postgres", "-D", filepath.Join(p.dir, "data"), "-p", strconv.Itoa(p.port), "-k", p.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		t.Fatalf("start postgres: %v", err)
	}
	defer func() {
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("postgres at port %d has said:\n%s", p.port, said)
		}
	}()
	kubetest.Eventually(t, "postgres answers", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, p.URL)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Runs reports whether the server runs.
func (p *Postgres) Runs() bool { return p.command != nil }

// Stop ends the server at once, with all connections.
func (p *Postgres) Stop(t testing.TB) {
	t.Helper()
	if p.command == nil {
		return
	}
	if err := p.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Errorf("stop postgres: %v", err)
	}
	_ = p.command.Wait() // its status says nothing
	p.command = nil
}

func remove(t testing.TB, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("clean up: %v", err)
	}
}
