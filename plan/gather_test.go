package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Things whose calls take different times are recorded together: their number of status
// writes grows with the time that all take, and not with their number. Nothing waits long
// for others: a chain of nodes beside a call without end goes on.
func TestRecordsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things := s.shed.things()
		things.Outcome = func(is *tool) map[string]string { return map[string]string{"id": is.ID} }
		observe, create := things.Observe, things.Create
		takes := func(name string) time.Duration {
			var n int
			_, _ = fmt.Sscan(name, &n)
			return time.Duration(3*n) * time.Millisecond
		}
		things.Observe = func(ctx context.Context, r Ref) (*tool, error) {
			time.Sleep(takes(r.Name))
			return observe(ctx, r)
		}
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			time.Sleep(takes(r.Name))
			return create(ctx, r, want)
		}
		var keys []string
		for i := range 100 {
			keys = append(keys, fmt.Sprint(i+1))
		}
		describe := func(p *Plan) {
			p.Concurrency = len(keys)
			EachStep(p, "tool", keys, things, func(_ Inputs, key string) (*tool, error) { return &tool{Name: key}, nil })
		}
		things.Target = &Target{Concurrency: len(keys)}
		begun := time.Now()
		s.must(s.run(describe))
		took := time.Since(begun)
		for _, n := range s.garden().Status.Nodes {
			if n.State != Ready || n.Thing.Outcome["id"] == "" {
				t.Errorf("node %s is %+v", n.Name, n)
			}
		}
		// The slowest takes 300 ms to be observed and 300 ms to be created.
		if n := s.statusWrites(); n > 20 || took > time.Second {
			t.Errorf("%d status writes for %d things, in %s", n, len(keys), took)
		}
		s.kill()
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		things, stuck := s.shed.things(), s.shed.things()
		things.Outcome = func(is *tool) map[string]string { return map[string]string{"id": is.ID} }
		stuck.Kind = "Stuck"
		stuck.Observe = func(ctx context.Context, _ Ref) (*tool, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		last := time.Now()
		begun := last
		create := things.Create
		things.Create = func(ctx context.Context, r Ref, want *tool) (*tool, error) {
			last = time.Now()
			return create(ctx, r, want)
		}
		err := s.run(func(p *Plan) {
			s.step(p, stuck, "stuck")
			var before []Need
			for _, name := range strings.Split("abcdefghij", "") {
				before = []Need{s.step(p, things, name, before...)}
			}
		})
		if err == nil {
			t.Error("the call without end has succeeded")
		}
		if took := last.Sub(begun); took > 2*time.Second {
			t.Errorf("the tenth of a chain was created after %s", took)
		}
		s.kill()
	})
}
