package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// recordedInitdb is where initdb of the recorded PostgreSQL 17 and 15 ended.
var recordedInitdb = map[int]upstream.LSN{17: 0x14EC330, 15: 0x1511A88}

// replay makes the calls of one log.
type replay struct {
	*testing.T
	log string
	lab *lab.Lab
	translate
	calls []call
	// at are the things that happened beside the calls, by the line of the next call.
	at map[int]func()
	// early are calls that were under way while others were made, by their own line.
	early map[int]chan answer
	// shifts are how much later initdb ends here, by version.
	shifts map[int]upstream.LSN

	mu    sync.Mutex
	hooks map[string][]hook // those that are still to come, by tenant
	made  map[string][]hook
}

type answer struct {
	status int
	body   string
	err    error
}

// run makes all calls. The log of the stand-in's computes is not replayed.
func (r *replay) run() {
	replayed, computes := 0, 0
	for _, c := range r.calls {
		if event := r.at[c.line]; event != nil {
			event()
		}
		if isCompute(c) {
			computes++
			continue
		}
		replayed++
		var got answer
		if early := r.early[c.line]; early != nil {
			got = <-early
		} else {
			got = r.call(c)
		}
		if r.Failed() {
			return
		}
		for _, difference := range r.check(c, got) {
			r.Errorf("%s: %s", c, difference)
		}
	}
	r.Logf("%s: %d calls replayed, %d of computes left out", r.log, replayed, computes)
}

// isCompute tells the calls of computes: the lab has none. They belong to the tests of the stand-in for
// compute_ctl.
func isCompute(c call) bool { return c.scope == "compute" }

const (
	// patience ends the calls that the real programs did not answer.
	patience = time.Second
	// deadline ends all others.
	deadline = time.Minute
)

func (r *replay) call(c call) answer {
	timeout := deadline
	if c.timedOut() {
		timeout = patience
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	body := c.body
	if body != "" {
		translated, err := r.json(body)
		if err != nil {
			return answer{err: err}
		}
		// The order of the fields does not matter, but the length does for a text of an error.
		if len(translated) != len(body) || strings.Contains(body, "/") {
			body = translated
		}
	}
	request, err := http.NewRequestWithContext(ctx, c.method, fmt.Sprintf("http://127.0.0.1:%d%s", r.ports[c.port], c.path),
		strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if c.scope != "none" {
		request.Header.Set("Authorization", "Bearer "+r.lab.Token(token.Scope(c.scope)))
	}
	response, err := r.lab.HTTP.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(content), err}
}

// check returns how an answer differs from the recorded one.
func (r *replay) check(c call, got answer) []string {
	switch {
	case c.timedOut():
		if !errors.Is(got.err, context.DeadlineExceeded) {
			return []string{fmt.Sprintf("want no answer, got %d %s, %v", got.status, got.body, got.err)}
		}
		return nil
	case c.status == 0:
		if !errors.Is(got.err, syscall.ECONNREFUSED) {
			return []string{fmt.Sprintf("want a refused connection, got %d %s, %v", got.status, got.body, got.err)}
		}
		return nil
	case got.err != nil:
		return []string{fmt.Sprintf("want %d %s, got %v", c.status, c.answer, got.err)}
	case got.status != c.status:
		return []string{fmt.Sprintf("got %d %s, want %d %s", got.status, got.body, c.status, c.answer)}
	}
	var want, have any
	if json.Unmarshal([]byte(c.answer), &want) != nil {
		if strings.TrimSpace(got.body) != c.answer {
			return []string{fmt.Sprintf("want %q, got %q", c.answer, got.body)}
		}
		return nil
	}
	if err := json.Unmarshal([]byte(got.body), &have); err != nil {
		return []string{fmt.Sprintf("want %s, got %q", c.answer, got.body)}
	}
	r.learn(want, have)
	strict := comparison{translate: r.translate, loose: loose}
	strict.values("", "", want, have)
	exceptions := looseAt[r.log][c.line]
	if len(exceptions) == 0 {
		return strict.found
	}
	if len(strict.found) == 0 {
		return []string{fmt.Sprintf("the exceptions %v are not needed", exceptions)}
	}
	excepted := comparison{translate: r.translate, loose: maps.Clone(loose)}
	maps.Copy(excepted.loose, exceptions)
	excepted.values("", "", want, have)
	return excepted.found
}

// learn takes from an answer about a timeline where initdb ends here.
func (r *replay) learn(want, have any) {
	recorded, ok := want.(map[string]any)
	if !ok || recorded["initdb_lsn"] == nil {
		return
	}
	made, ok := have.(map[string]any)
	if !ok {
		return
	}
	version := int(recorded["pg_version"].(float64))
	if lsn, err := upstream.ParseLSN(fmt.Sprint(made["initdb_lsn"])); err == nil && r.shifts[version] == 0 {
		r.shifts[version] = lsn - recordedInitdb[version]
	}
	r.initdb, r.shift = recordedInitdb[version], r.shifts[version]
}

// ServeHTTP is the control plane. It answers hooks as they were answered.
func (r *replay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(request.Body); err != nil {
		r.Errorf("read hook: %v", err)
	}
	made := hook{Path: request.URL.Path, Body: body.String(), Answered: http.StatusOK}
	r.mu.Lock()
	defer r.mu.Unlock()
	tenant := made.tenant(r)
	if coming := r.hooks[tenant]; len(coming) > 0 {
		made.Answered = coming[0].Answered
		r.hooks[tenant] = coming[1:]
	}
	r.made[tenant] = append(r.made[tenant], made)
	if request.Header.Get("Authorization") != "Bearer "+r.lab.Token("hooks") {
		r.Errorf("hook %s without the token of the control plane", request.URL.Path)
	}
	w.WriteHeader(made.Answered)
}

// told waits until each tenant has had a number of hooks.
func (r *replay) told(number int, tenants ...string) {
	for _, tenant := range tenants {
		kubetest.Eventually(r, fmt.Sprintf("the control plane has %d hooks of tenant %s", number, tenant), func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if n := len(r.made[tenant]); n < number {
				return fmt.Errorf("it has %d", n)
			}
			return nil
		})
	}
}

// checkHooks compares the hooks of each tenant.
func (r *replay) checkHooks(recorded map[string][]hook) {
	if r.Failed() {
		return
	}
	plain := func(hooks []hook) []any {
		var list []any
		for _, h := range hooks {
			var body any
			if err := json.Unmarshal([]byte(h.Body), &body); err != nil {
				r.Fatal(err)
			}
			list = append(list, map[string]any{"path": h.Path, "body": body, "answered": h.Answered})
		}
		return list
	}
	for tenant, want := range recorded {
		if diff := cmp.Diff(plain(want), plain(r.made[tenant])); diff != "" {
			r.Errorf("hooks of tenant %s (-recorded +made):\n%s", tenant, diff)
		}
	}
	for tenant, made := range r.made {
		if len(recorded[tenant]) == 0 {
			r.Errorf("hooks of tenant %s, of which none was recorded: %v", tenant, made)
		}
	}
}

// newReplay starts a lab without programs, except the broker and the database.
func newReplay(t *testing.T, log, hooks string) (*replay, map[string][]hook) {
	t.Helper()
	recorded := readHooks(t, "testdata/recordings/"+hooks)
	r := &replay{
		T: t, log: log, calls: readCalls(t, "testdata/recordings/"+log), at: map[int]func(){}, early: map[int]chan answer{},
		shifts: map[int]upstream.LSN{}, hooks: maps.Clone(recorded), made: map[string][]hook{},
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.lab = lab.New(t, lab.Config{Hooks: server.URL, Quiet: true, TenantRate: 10000, DatabaseWait: time.Second})
	r.ports = map[int]int{1234: r.lab.Port(t, "controller"), 50051: r.lab.Port(t, "broker")}
	for id := 1; id <= 4; id++ {
		r.ports[7670+id] = r.lab.Port(t, fmt.Sprintf("safekeeper-%d", id))
		r.ports[5450+id] = r.lab.Port(t, fmt.Sprintf("safekeeper-%d-pg", id))
		r.ports[9890+id] = r.lab.Port(t, fmt.Sprintf("pageserver-%d", id))
		r.ports[6400+id] = r.lab.Port(t, fmt.Sprintf("pageserver-%d-pg", id))
	}
	return r, recorded
}

// begin starts a call that was under way while others were made.
func (r *replay) begin(line int) {
	for _, c := range r.calls {
		if c.line == line {
			answered := make(chan answer, 1)
			r.early[line] = answered
			go func() { answered <- r.call(c) }()
			return
		}
	}
	r.Fatalf("no call at line %d", line)
}

func (r *replay) heartbeat() { r.lab.Controller.Heartbeat(r.Context()) }
func (r *replay) settle()    { r.lab.Controller.Settle(r.Context()) }
func (r *replay) optimise()  { r.lab.Controller.Optimise(r.Context(), 0) }

func (r *replay) keeper(id int)     { r.lab.StartSafekeeper(r, id) }
func (r *replay) stop(name string)  { r.lab.Stop(r, name) }
func (r *replay) pageserver(id int) { r.lab.StartPageserver(r, id); r.lab.WaitPageserver(r, id) }
func (r *replay) restartKeeper(id int) {
	r.stop(fmt.Sprintf("safekeeper-%d", id))
	r.keeper(id)
}

// wipe empties the volume of a safekeeper.
func (r *replay) wipe(id int) {
	r.stop(fmt.Sprintf("safekeeper-%d", id))
	if err := os.RemoveAll(r.lab.KeeperDir(id)); err != nil {
		r.Fatal(err)
	}
	r.keeper(id)
}

// written makes WAL of a compute, up to a recorded place, on all safekeepers that hold the
// timeline.
func (r *replay) written(tenant, timeline, recorded, at string) {
	lsn, err := upstream.ParseLSN(recorded)
	if err != nil {
		r.Fatal(err)
	}
	lsn += r.shifts[17]
	when, err := time.Parse(time.DateTime, "2026-11-22 "+at)
	if err != nil {
		r.Fatal(err)
	}
	holders := 0
	for id, s := range r.lab.Keepers {
		t, err := s.Timeline(tenant, timeline)
		if err != nil {
			continue
		}
		holders++
		if err := write(t, lsn, when); err != nil {
			r.Fatalf("write on safekeeper %d: %v", id, err)
		}
		s.Publish(r.Context())
	}
	if holders < 2 {
		r.Fatalf("timeline %s is on %d safekeepers", timeline, holders)
	}
}

func write(t *safekeeper.Timeline, lsn upstream.LSN, at time.Time) error {
	if err := t.Record(lsn, at); err != nil {
		return err
	}
	log := t.Log()
	s := log.State()
	generation := s.Config.Generation
	if s.Term == 0 {
		election := wal.Election{
			Term: 1, History: []wal.TermStart{{Term: 1, LSN: s.Start}}, Cut: s.Flush, Start: s.Start, System: 1, Generation: generation,
		}
		if _, err := log.Elect(election); err != nil {
			return err
		}
		s = log.State()
	}
	_, err := log.Append(wal.Append{
		Term: s.Term, Generation: generation, At: s.Flush, Commit: wal.LSN(lsn), Data: make([]byte, wal.LSN(lsn)-s.Flush),
	})
	return err
}

// until waits for something that the storage controller does in the background.
func (r *replay) until(name string, condition func(ctx context.Context, c *upstream.Controller) bool) {
	client := upstream.NewController(upstream.Config{URL: r.lab.URL(r, "controller"), HTTP: r.lab.HTTP, Sign: r.lab.Key.Sign})
	kubetest.Eventually(r, name, func() error {
		if !condition(r.Context(), client) {
			return errors.New("it is not so")
		}
		return nil
	})
}

// attached waits until a tenant's first shard is on a node.
func (r *replay) attached(tenant string, node int64) {
	r.until(fmt.Sprintf("tenant %s is on node %d", tenant, node), func(ctx context.Context, c *upstream.Controller) bool {
		t, err := c.DescribeTenant(ctx, tenant)
		return err == nil && *t.Shards[0].Attached == node
	})
}

// scheduling waits until a node has a scheduling.
func (r *replay) scheduling(node int64, want upstream.NodeScheduling) {
	r.until(fmt.Sprintf("node %d is %s", node, want), func(ctx context.Context, c *upstream.Controller) bool {
		n, err := c.Node(ctx, node)
		return err == nil && n.Scheduling == want
	})
}

// gone waits until a node is deleted.
func (r *replay) gone(node int64) {
	r.until(fmt.Sprintf("node %d is gone", node), func(ctx context.Context, c *upstream.Controller) bool {
		_, err := c.Node(ctx, node)
		return upstream.IsNotFound(err)
	})
}
