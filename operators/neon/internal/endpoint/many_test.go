package endpoint

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestMany makes many endpoints at once, each on a branch of its own, on simulated nodes. All become
// ready, cost no write at rest, and go.
func TestMany(t *testing.T) {
	t.Parallel()
	testMany(t, 25)
}

// TestSoakMany is TestMany with the number that is promised.
func TestSoakMany(t *testing.T) { testMany(t, 200) }

func testMany(t *testing.T, many int) {
	t.Helper()
	w := newWorld(t)
	seen := new(writeCount)
	w.requests = seen.wrap
	w.operate()
	w.manyReady(many)
	for n, settled := 0, 0; settled < 3; n++ { // the last of the changes that others see
		seen.n.Store(0)
		time.Sleep(10 * time.Second) // their writes are counted
		if settled++; seen.n.Load() > 0 {
			settled = 0
		}
		if n > 20 {
			t.Fatalf("endpoints at rest cost %d writes in 10 s, the last was %s", seen.n.Load(), seen.last.Load())
		}
	}
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			if err := w.endpoints.Delete(w.Context(), fmt.Sprintf("e%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(w.Context(), patience+time.Duration(many)*time.Second)
	defer cancel()
	for i := range many {
		w.ok(w.endpoints.UntilGone(ctx, fmt.Sprintf("e%d", i)))
	}
}

// writeCount counts the operator's writes to the API server.
type writeCount struct {
	n    atomic.Int64
	last atomic.Value
}

func (s *writeCount) wrap(config *rest.Config) {
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				s.n.Add(1)
				s.last.Store(r.Method + " " + r.URL.Path)
			}
			return to.RoundTrip(r)
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// manyReady makes endpoints, and waits until they are ready.
func (w *world) manyReady(many int) {
	w.Helper()
	begin := time.Now()
	var all sync.WaitGroup
	limit := make(chan struct{}, 8)
	for i := range many {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			w.branchOf(fmt.Sprintf("b%d", i), fmt.Sprintf("%032x", i+1))
			w.create(endpointOf(fmt.Sprintf("e%d", i), fmt.Sprintf("b%d", i)))
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(w.Context(), patience+time.Duration(many)*time.Second)
	defer cancel()
	for i := range many {
		name := fmt.Sprintf("e%d", i)
		if _, err := w.endpoints.Until(ctx, name, func(e *api.NeonEndpoint) bool { return holds(e) }); err != nil {
			w.ready(name) // shows why not
		}
	}
	w.Logf("%d endpoints were ready after %s", many, time.Since(begin).Round(time.Second))
}
