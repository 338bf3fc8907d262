package compute

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pintle-go/pintle/kubetest"
	lag "github.com/pintle-go/pintle/operators/neon/internal/replica"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// lsn returns where the WAL of a compute ends.
func (p *process) lsn() wal.LSN {
	p.t.Helper()
	at, err := wal.ParseLSN(p.must("select pg_current_wal_flush_lsn()::text"))
	if err != nil {
		p.t.Fatal(err)
	}
	return at
}

// A compute that is killed at any moment, with its disk, comes back with every row whose
// commit was acknowledged.
func TestAcknowledgedRowsSurviveKills(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t (n int primary key)")
	next := 0
	for round := range 3 {
		done, first := make(chan int, 1), make(chan struct{})
		go func() {
			acknowledged := next
			begin := sync.OnceFunc(func() { close(first) })
			defer func() { done <- acknowledged; begin() }()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			conn, err := pgx.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=appdb", p.in.Port))
			if err != nil {
				return
			}
			defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was cut off
			for {
				if _, err := conn.Exec(ctx, "insert into t values ($1)", acknowledged); err != nil {
					return
				}
				acknowledged++
				begin()
			}
		}()
		<-first
		time.Sleep(time.Duration(200+100*round) * time.Millisecond) // it is killed in the middle of its work
		p.kill()
		acknowledged := <-done
		if acknowledged == next {
			t.Errorf("round %d wrote nothing", round)
		}
		config, err := spec.Render(p.in)
		if err != nil {
			t.Fatal(err)
		}
		p.run(config)
		p.wait("running")
		if got := p.must(fmt.Sprintf("select count(*)::text from t where n < %d", acknowledged)); got != fmt.Sprint(acknowledged) {
			t.Fatalf("round %d: %s rows of %d that were acknowledged", round, got, acknowledged)
		}
		// The last insert may have been committed without an answer.
		next = acknowledged + 1
		p.must(fmt.Sprintf("insert into t values (%d) on conflict do nothing", acknowledged))
	}
	t.Logf("%d rows", next)
}

func TestTheSecondPrimaryEndsTheFirst(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	first := s.compute(s.input(mainID, spec.Primary()))
	first.wait("running")
	first.must("create table t (n int)")
	second := s.compute(s.input(mainID, spec.Primary()))
	if code := first.ended(time.Minute); code != 1 {
		t.Errorf("the first ends with %d", code)
	}
	if said := first.output.String(); !strings.Contains(said, "meaning another compute is running at the same time") {
		t.Errorf("the first does not say why:\n%s", said)
	}
	second.wait("running")
	second.must("insert into t values (1)")
}

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select generate_series(1, 1000) n")
	for range 2 {
		status, said := p.call(http.MethodPost, "/terminate?mode=immediate", "")
		if status != http.StatusOK || !strings.HasPrefix(said, `{"lsn":"0/`) {
			t.Errorf("terminate: %d %s", status, said)
		}
		// The process ends a moment later.
		_, said, err := p.try(http.MethodGet, "/status", "", "Bearer "+p.token, 20*time.Second)
		if err == nil && !strings.Contains(said, `"status":"terminated"`) {
			t.Errorf("after terminate the status is %s", said)
		}
		if code := p.ended(30 * time.Second); code != 0 {
			t.Errorf("the exit code is %d", code)
		}
		config, err := spec.Render(p.in)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p.run(config)
		p.wait("running")
		t.Logf("running after %s", time.Since(began).Round(time.Millisecond))
		if got := p.must("select count(*)::text from t"); got != "1000" {
			t.Fatalf("%s rows of 1000", got)
		}
	}
}

func TestBranchShowsThePast(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select generate_series(1, 100) n")
	at := p.lsn()
	p.must("delete from t where n > 10")
	s.has(p)
	for i, lsn := range []wal.LSN{at, at - 3} { // the second is inside of a record
		id := strings.Repeat(fmt.Sprint(i+1), 32)
		s.create(id, parent{mainID, lsn})
		branch := s.compute(s.input(id, spec.Primary()))
		branch.wait("running")
		if i == 0 {
			if got := branch.must("select count(*)::text from t"); got != "100" {
				t.Errorf("the branch has %s rows, want 100", got)
			}
		}
		branch.must("create table own as select 1")
		branch.kill()
		config, err := spec.Render(branch.in)
		if err != nil {
			t.Fatal(err)
		}
		branch.run(config)
		branch.wait("running")
		if got := branch.must("select count(*)::text from own"); got != "1" {
			t.Errorf("after a restart the branch has lost its own row: %s", got)
		}
	}
	if got := p.must("select count(*)::text from t"); got != "10" {
		t.Errorf("the parent has %s rows, want 10", got)
	}
}

// end is the end of the committed WAL of the main timeline.
func (s *storage) end() wal.LSN {
	_, commit := s.committed(mainID)
	return commit
}

func TestWithoutAQuorumCommitsWait(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t (n int)")
	s.keepers[0].stop()
	p.must("insert into t values (1)")
	s.keepers[1].stop()
	if _, err := p.queryWithin(10*time.Second, "app", "appdb", "insert into t values (2)"); err == nil {
		t.Error("a commit returns with one safekeeper of three")
	}
	s.start(s.keepers[0])
	t.Cleanup(s.keepers[0].stop)
	p.must("insert into t values (3)")
	s.start(s.keepers[1])
	t.Cleanup(s.keepers[1].stop)
	// A write whose client has given up can be committed later.
	if got := p.must("select count(*)::text from t"); got != "3" {
		t.Errorf("%s rows, want 3", got)
	}
}

// follows asks a replica for its position, as the operator does.
func (p *process) follows(end wal.LSN, want bool) {
	p.t.Helper()
	config, err := pgconn.ParseConfig(fmt.Sprintf("host=127.0.0.1 port=%d user=app password=secret dbname=postgres", p.in.Port))
	if err != nil {
		p.t.Fatal(err)
	}
	at, err := lag.Position(p.t.Context(), config)
	if err != nil {
		p.t.Fatal(err)
	}
	now := time.Now()
	said := lag.Lag{}.See(now, at, upstream.LSN(end)).Behind(now, time.Minute)
	if (said == "") != want {
		p.t.Errorf("at %s of %s: %q", at, end, said)
	}
}

// has waits until the storage has all that a primary has written.
func (s *storage) has(p *process) {
	s.t.Helper()
	kubetest.Eventually(s.t, "the storage has all", func() error {
		if end, wrote := s.end(), p.lsn(); end < wrote {
			return fmt.Errorf("it ends at %s, the primary at %s", end, wrote)
		}
		return nil
	})
}

func TestReplicaFollowsOnlyWithAPassword(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select generate_series(1, 10) n")
	s.has(p)
	replica := s.compute(s.input(mainID, spec.Replica()))
	deaf := s.prepare(s.input(mainID, spec.Replica()))
	config, err := spec.Render(deaf.in)
	if err != nil {
		t.Fatal(err)
	}
	for i, option := range config.Spec.Cluster.Settings {
		if option.Name == "primary_conninfo" {
			config.Spec.Cluster.Settings[i].Value = strings.SplitAfter(option.Value, "replication=true")[0]
		}
	}
	deaf.run(config)
	replica.wait("running")
	deaf.wait("running")
	p.must("insert into t values (11)")
	kubetest.Eventually(t, "the replica follows", func() error {
		if n := replica.must("select count(*)::text from t"); n != "11" {
			return fmt.Errorf("it has %s rows, and has said\n%s", n, replica.output)
		}
		return nil
	})
	if got := deaf.must("select count(*)::text from t"); got != "10" {
		t.Errorf("the replica without a password has %s rows, want 10", got)
	}
	s.has(p)
	replica.follows(s.end(), true)
	deaf.follows(s.end(), false)
	if said := deaf.output.String(); !strings.Contains(said, "no password supplied") {
		t.Errorf("the replica without a password does not say so:\n%s", said)
	}
	if _, err := replica.query("app", "appdb", "insert into t values (12)"); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a write on the replica: %v", err)
	}
	if status, said := replica.call(http.MethodPost, "/terminate?mode=immediate", ""); status != http.StatusOK || said != `{"lsn":null}` {
		t.Errorf("terminate of a replica: %d %s", status, said)
	}
}

func TestStaticComputeShowsAnLSN(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select generate_series(1, 100) n")
	at := p.lsn()
	p.must("delete from t")
	in := s.input(mainID, spec.Static(at.String()))
	in.Safekeepers, in.SafekeepersGeneration = nil, 0
	static := s.compute(in)
	static.wait("running")
	if got := static.must("select count(*)::text from t"); got != "100" {
		t.Errorf("%s rows, want 100", got)
	}
	future := s.compute(s.input(mainID, spec.Static((at + 1<<30).String())))
	future.wait("init")
	time.Sleep(time.Second) // nothing may happen
	if state := future.state(); state.Status != "init" || state.Error != nil {
		t.Errorf("at an LSN in the future the status is %+v", state)
	}
}

func TestSIGTERMEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := startStorage(t)
	p := s.compute(s.input(mainID, spec.Primary()))
	p.wait("running")
	p.must("create table t as select 1")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.ended(30 * time.Second); code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
}
