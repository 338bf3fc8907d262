package branch_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/internal/assassin"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// hire sets the assassin of the process that is started next.
func (w *world) hire() *assassin.Assassin {
	a := assassin.New()
	w.apiServer, w.outside = a.APIServer, a.Outside
	return a
}

// phase is a part of the life of a project with two branches.
type phase struct {
	name string
	do   func(w *world)
	// holds waits for the end of the phase, and checks the storage.
	holds func(w *world, tenant string)
}

var phases = []phase{
	{"create", func(w *world) {
		w.project("app", nil)
		w.branch("trunk", "", nil)
		w.branch("twig", "trunk", nil)
	}, func(w *world, _ string) {
		trunk, twig := w.branchReady("trunk"), w.branchReady("twig")
		tenant := w.projectReady("app").Status.TenantID
		all := w.timelines(tenant)
		is, ok := all[twig.Status.TimelineID]
		if len(all) != 2 || !ok || *is.Ancestor != trunk.Status.TimelineID {
			w.Errorf("the timelines are %+v", all)
		}
	}},
	{"delete", func(w *world) {
		for _, name := range []string{"trunk", "twig"} {
			w.ok(w.branches.Delete(w.soon(), name))
		}
		w.ok(w.projects.Delete(w.soon(), "app"))
	}, func(w *world, tenant string) {
		w.ok(w.branches.UntilGone(w.soon(), "twig"))
		w.ok(w.branches.UntilGone(w.soon(), "trunk"))
		w.ok(w.projects.UntilGone(w.soon(), "app"))
		if _, err := w.storage.DescribeTenant(w.soon(), tenant); !upstream.IsNotFound(err) {
			w.Errorf("the tenant is there: %v", err)
		}
	}},
}

// TestKilled kills the operator at some of its requests while it makes and deletes a project with
// branches.
func TestKilled(t *testing.T) {
	t.Parallel()
	killedAt(t, func(n int) bool { return n%4 == 1 })
}

// TestSoakKilled kills the operator at each of its requests.
func TestSoakKilled(t *testing.T) {
	killedAt(t, func(int) bool { return true })
}

// killedAt kills the operator at some of its requests, with and without their effect, each time in
// another namespace. It converges, and nothing is made twice.
func killedAt(t *testing.T, some func(n int) bool) {
	t.Helper()
	w := newWorld(t)
	counts := make([]int, len(phases))
	whole := w.elsewhere(t)
	a := whole.hire()
	whole.start()
	tenant := ""
	for i, p := range phases {
		a.Arm(0, false)
		p.do(whole)
		p.holds(whole, tenant)
		counts[i] = a.Count()
		if i == 0 {
			tenant = whole.projectReady("app").Status.TenantID
		}
	}
	t.Logf("requests of the phases: %v", counts)
	tenants := 0
	t.Run("at", func(t *testing.T) {
		for i, p := range phases {
			for n := 1; n <= counts[i]; n++ {
				for _, effect := range []bool{false, true} {
					if !some(n) && (!effect || !some(n+2)) {
						continue
					}
					if i == 0 {
						tenants++
					}
					t.Run(fmt.Sprintf("%s-%d-%t", p.name, n, effect), func(t *testing.T) {
						t.Parallel()
						round(w.elsewhere(t), i, n, effect)
					})
				}
			}
		}
	})
	all, err := w.storage.Tenants(w.soon())
	w.ok(err)
	if len(all) != tenants {
		t.Errorf("there are %d tenants for %d projects", len(all), tenants)
	}
	for _, r := range w.lab.Controller.Faults.Requests() {
		if r.Method == http.MethodDelete && r.Status >= 300 {
			t.Errorf("a deletion was sent that could not be done: %+v", r)
		}
	}
}

// round kills the operator at the nth request of a phase.
func round(w *world, i, n int, effect bool) {
	w.Helper()
	a := w.hire()
	w.start()
	tenant := ""
	for _, p := range phases[:i] {
		p.do(w)
		p.holds(w, "")
		tenant = w.projectReady("app").Status.TenantID
	}
	a.Arm(n, effect)
	phases[i].do(w)
	var restart sync.WaitGroup
	ended := make(chan struct{})
	restart.Go(func() {
		select {
		case <-a.Done():
			w.Logf("killed at %s", a.Where())
			w.kill()
			w.hire()
			w.start()
		case <-ended: // this time there were fewer requests
		}
	})
	defer restart.Wait()
	defer close(ended)
	phases[i].holds(w, tenant)
}
