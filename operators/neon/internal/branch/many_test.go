package branch_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestMany makes many branches at once. All become ready, the storage controller never gets more
// than ten requests in a second, and branches at rest cost no write and hardly a request, also
// after a restart of the operator.
func TestMany(t *testing.T) {
	t.Parallel()
	testMany(t, 120)
}

// TestSoakMany is TestMany with the number that is promised.
func TestSoakMany(t *testing.T) { testMany(t, 500) }

func testMany(t *testing.T, many int) {
	t.Helper()
	w := newWorld(t)
	var writes atomic.Int64
	var last atomic.Value
	w.apiServer = func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodGet {
			writes.Add(1)
			last.Store(r.Method + " " + r.URL.Path)
		}
		return send.RoundTrip(r)
	}
	w.start()
	trunk := w.trunk()
	before := len(w.lab.Controller.Faults.Requests())
	begin := time.Now()
	for i := range many {
		w.branch(fmt.Sprintf("twig-%d", i), "trunk", nil)
	}
	for i := range many {
		w.branchReady(fmt.Sprintf("twig-%d", i))
	}
	took := time.Since(begin)
	requests := len(w.lab.Controller.Faults.Requests()) - before
	t.Logf("%d branches took %s and %d requests", many, took.Round(time.Second), requests)
	if most := many + many/2 + int(2*took/time.Second); requests > most {
		t.Errorf("%d branches took %d requests, want at most %d", many, requests, most)
	}
	if all := w.timelines(trunk.Status.TenantID); len(all) != many+1 {
		t.Errorf("%d timelines", len(all))
	}
	for name, begin := range map[string]func(){"at rest": func() {}, "after a restart": func() { w.kill(); w.start() }} {
		begin()
		time.Sleep(5*time.Second + time.Duration(many)*20*time.Millisecond) // the last of the changes that others see
		writes.Store(0)
		before := len(w.lab.Controller.Faults.Requests())
		time.Sleep(15 * time.Second)
		if n := writes.Load(); n != 0 {
			t.Errorf("%s: %d writes, the last was %s", name, n, last.Load())
		}
		if n := len(w.lab.Controller.Faults.Requests()) - before; n > 10 {
			t.Errorf("%s: %d requests to the storage controller within 15 s", name, n)
		}
	}
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			if err := w.branches.Delete(w.Context(), fmt.Sprintf("twig-%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(w.Context(), patience+time.Duration(many)*time.Second)
	defer cancel()
	begin = time.Now()
	for i := range many {
		w.ok(w.branches.UntilGone(ctx, fmt.Sprintf("twig-%d", i)))
	}
	t.Logf("their end took %s", time.Since(begin).Round(time.Second))
	if all := w.timelines(trunk.Status.TenantID); len(all) != 1 {
		t.Errorf("%d timelines are left", len(all)-1)
	}
	w.paced(trunk.Status.TenantID)
}

// paced checks that a tenant got at most ten requests in each second, and that none was refused.
func (w *world) paced(tenant string) {
	w.Helper()
	var times []time.Time
	for _, r := range w.lab.Controller.Faults.Requests() {
		if !strings.Contains(r.Path, tenant) {
			continue
		}
		if r.Status == http.StatusTooManyRequests {
			w.Errorf("refused: %s %s", r.Method, r.Path)
		}
		times = append(times, r.Time)
	}
	slices.SortFunc(times, time.Time.Compare) // the record has them in the order in which they ended
	const most = 10
	// Requests that have waited for this machine come together: a short time may have more of them than a long one.
	for n, least := range map[int]time.Duration{3 * most: time.Second, 9 * most: 7500 * time.Millisecond} {
		if len(times) <= n {
			w.Errorf("there were %d requests, too few to judge", len(times))
		}
		for i := n; i < len(times); i++ {
			if took := times[i].Sub(times[i-n]); took < least {
				w.Errorf("more than %d requests within %s", n, took)
				break
			}
		}
	}
}

// TestUnseenChild ends a parent while the operator's cache does not know of its newest branch.
func TestUnseenChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := make(chan struct{})
	var shut atomic.Bool
	w.apiServer = func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		resp, err := send.RoundTrip(r)
		if err == nil && r.URL.Query().Has("watch") && strings.HasSuffix(r.URL.Path, "/neonbranches") {
			resp.Body = &gated{resp.Body, &shut, gate}
		}
		return resp, err
	}
	var open sync.Once
	defer open.Do(func() { close(gate) })
	w.start()
	trunk := w.trunk()
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = "shop", "trunk", api.ReadWrite
	_, err := w.endpoints.Create(w.soon(), e)
	w.ok(err)
	w.ok(w.branches.Delete(w.soon(), "trunk"))
	w.says("trunk", "NeonEndpoints need it: shop")
	time.Sleep(3 * time.Second) // until the cache has the write of that

	shut.Store(true)
	w.branch("child", "trunk", nil)
	w.ok(w.endpoints.Delete(w.soon(), "shop"))
	w.says("trunk", "NeonBranches need it: child")
	if n := w.count(http.MethodDelete, trunk.Status.TimelineID); n != 0 {
		t.Errorf("the parent was deleted %d times", n)
	}
	open.Do(func() { close(gate) })
	w.ok(w.branches.Delete(w.soon(), "child"))
	w.ok(w.branches.UntilGone(w.soon(), "trunk"))
}

// gated is a stream whose reads wait while it is shut.
type gated struct {
	of interface {
		Read(p []byte) (int, error)
		Close() error
	}
	shut *atomic.Bool
	gate <-chan struct{}
}

func (g *gated) Read(p []byte) (int, error) {
	n, err := g.of.Read(p)
	if g.shut.Load() && err == nil {
		<-g.gate
	}
	return n, err
}

func (g *gated) Close() error { return g.of.Close() }
