package branch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// commit is a compute that commits on all safekeepers. It returns the end of the history.
func (w *world) commit(tenant, timeline string, term wal.Term) upstream.LSN {
	w.Helper()
	const n = 8192
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var clients []*wal.Client
	var start wal.LSN
	for id := 1; id <= 3; id++ {
		c, err := wal.Dial(ctx, fmt.Sprintf("127.0.0.1:%d", w.lab.Port(w.T, fmt.Sprintf("safekeeper-%d-pg", id))), wal.Timeline{
			Tenant: tenant, Timeline: timeline, Token: w.lab.Key.Sign(token.Claims{Scope: token.Tenant, TenantID: tenant}),
		})
		w.ok(err)
		defer c.Close()
		w.ok(c.Vote(ctx, term))
		clients, start = append(clients, c), max(start, c.State.Flush)
	}
	for _, c := range clients {
		w.ok(c.Elect(ctx, wal.Election{
			Term: term, History: []wal.TermStart{{Term: term, LSN: start}}, Cut: start, Start: start, System: 42,
			Generation: c.State.Config.Generation,
		}))
		w.ok(c.Append(ctx, wal.Append{Term: term, Generation: c.State.Config.Generation, At: start, Data: make([]byte, n)}))
	}
	for _, c := range clients {
		w.ok(c.Append(ctx, wal.Append{Term: term, Generation: c.State.Config.Generation, At: start + n, Commit: start + n}))
	}
	return upstream.LSN(start + n)
}

// TestHead makes copies of a branch whose last commit the pageserver has not read yet: of its head, by a reset, and
// of a moment after the commit. Each has the commit.
func TestHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var end atomic.Uint64
	// The stand-in's pageserver asks the safekeepers for times, and never lags in that.
	w.outside = func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		path := strings.Split(r.URL.Path, "/")
		if path[len(path)-1] != "get_lsn_by_timestamp" {
			return send.RoundTrip(r)
		}
		is, err := w.storage.Timeline(r.Context(), path[3], path[5])
		if err != nil || uint64(is.LastRecordLSN) >= end.Load() {
			return send.RoundTrip(r)
		}
		answer := httptest.NewRecorder()
		if err := json.NewEncoder(answer).Encode(upstream.LSNAt{LSN: is.LastRecordLSN, Kind: upstream.LSNFuture}); err != nil {
			return nil, err
		}
		return answer.Result(), nil
	}
	w.start()
	trunk := w.trunk()
	first := w.commit(trunk.Status.TenantID, trunk.Status.TimelineID, 1)
	w.branch("twig", "trunk", nil)
	twig := w.branchReady("twig")
	if at := lsn(w, twig.Status.StartLSN); at < first {
		t.Errorf("a branch begins at %s, before the commit at %s", at, first)
	}

	w.lab.Stop(t, "broker") // the pageserver finds the safekeepers by it
	second := w.commit(trunk.Status.TenantID, trunk.Status.TimelineID, 2)
	end.Store(uint64(second))
	after := time.Now().Truncate(time.Second).Add(time.Second)
	w.branch("copy", "trunk", nil)
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Reset = "monday" })
	time.Sleep(time.Until(after))
	w.branch("then", "trunk", func(b *api.NeonBranch) { b.Spec.From.Time = &metav1.Time{Time: after} })
	made := map[string]func(*api.NeonBranch) bool{
		"copy": func(b *api.NeonBranch) bool { return b.Status.StartLSN != "" },
		"twig": func(b *api.NeonBranch) bool { return b.Status.TimelineID != twig.Status.TimelineID },
		"then": func(b *api.NeonBranch) bool { return b.Status.StartLSN != "" },
	}
	lags := fmt.Sprintf("the pageserver has read NeonBranch trunk up to %s, and not up to %s", first, second)
	for name, is := range made {
		b := until(w, w.branches, name, "waits for the pageserver", branchStatus, func(b *api.NeonBranch) bool {
			c := meta.FindStatusCondition(b.Status.Conditions, "Ready")
			return is(b) || c != nil && strings.Contains(c.Message, lags)
		})
		if is(b) {
			t.Errorf("%s begins at %s, without the commit at %s", name, b.Status.StartLSN, second)
		}
	}

	w.lab.StartBroker(t)
	for name, is := range made {
		b := until(w, w.branches, name, "is made", branchStatus, func(b *api.NeonBranch) bool {
			return is(b) && isReady(b, b.Status.Conditions)
		})
		if at := lsn(w, b.Status.StartLSN); at != second {
			t.Errorf("%s begins at %s, and the last commit is at %s", name, at, second)
		}
	}

	w.lab.Stop(t, "safekeeper-1")
	w.branch("of-two", "trunk", nil)
	w.branchReady("of-two")
	w.lab.Stop(t, "safekeeper-2")
	w.branch("of-one", "trunk", nil)
	w.says("of-one", "1 of the 3 safekeepers of NeonBranch trunk say what is committed")
}

func lsn(w *world, text api.LSN) upstream.LSN {
	w.Helper()
	at, err := upstream.ParseLSN(string(text))
	w.ok(err)
	return at
}
