package endpoint

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/assassin"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// phase is a part of the life of a branch's endpoints.
type phase struct {
	name string
	do   func(w *mortal)
	// holds waits for the end of the phase.
	holds func(w *mortal)
}

var phases = []phase{
	{"create", func(w *mortal) {
		r, d := new(api.NeonRole), new(api.NeonBranchDatabase)
		r.Name, r.Spec.Branch = "app", "trunk"
		d.Name, d.Spec.Branch, d.Spec.Owner = "shop", "trunk", "app"
		_, err := w.roles.Create(w.soon(), r)
		w.ok(err)
		_, err = w.databases.Create(w.soon(), d)
		w.ok(err)
		past := endpointOf("past", "trunk")
		past.Spec.Type, past.Spec.LSN = api.Static, "0/1800"
		w.create(past)
		w.create(endpointOf("first", "trunk"))
	}, func(w *mortal) {
		w.runs("first", nil)
		w.ready("past")
		w.first = w.pod("first", "").UID
	}},
	{"change", func(w *mortal) {
		w.set("work_mem", "8MB")
	}, func(w *mortal) {
		w.runs("first", map[string]string{"work_mem": "8MB"})
		if w.pod("first", "").UID != w.first {
			w.Error("the compute was restarted for a change that it takes while it runs")
		}
	}},
	{"roll", func(w *mortal) {
		w.set("max_connections", "50")
	}, func(w *mortal) {
		w.pod("first", w.first)
		w.runs("first", map[string]string{"work_mem": "8MB", "max_connections": "50"})
	}},
	{"suspend", func(w *mortal) {
		w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Suspended = true })
	}, func(w *mortal) {
		w.until("first", "is suspended", func(e *api.NeonEndpoint) bool { return e.Status.Phase == suspended && holds(e) })
	}},
	{"resume", func(w *mortal) {
		w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Suspended = false })
	}, func(w *mortal) {
		w.runs("first", map[string]string{"work_mem": "8MB", "max_connections": "50"})
	}},
	{"rival", func(w *mortal) {
		w.create(endpointOf("second", "trunk"))
	}, func(w *mortal) {
		w.says("second", "NeonEndpoint first writes to branch trunk")
		w.ready("first")
	}},
	{"takeover", func(w *mortal) {
		w.ok(w.endpoints.Delete(w.soon(), "first"))
	}, func(w *mortal) {
		w.ok(w.endpoints.UntilGone(w.soon(), "first"))
		w.runs("second", nil)
	}},
	{"delete", func(w *mortal) {
		w.ok(w.endpoints.Delete(w.soon(), "second"))
		w.ok(w.endpoints.Delete(w.soon(), "past"))
	}, func(w *mortal) {
		w.ok(w.endpoints.UntilGone(w.soon(), "second"))
		w.ok(w.endpoints.UntilGone(w.soon(), "past"))
		w.ok(w.roles.Delete(w.soon(), "app"))
		w.ok(w.databases.Delete(w.soon(), "shop"))
		w.eventually("nothing is left", func() bool { return slices.Equal(w.history.left(), []string{"Secret main-keys"}) })
	}},
}

// TestKilled kills the operator at some of its requests while it makes, changes, suspends, resumes and
// deletes endpoints. KILLED_SEED repeats a run's choices.
func TestKilled(t *testing.T) {
	t.Parallel()
	killed(t, func(int) int { return 4 })
}

// TestSoakKilled kills the operator at each of its requests.
func TestSoakKilled(t *testing.T) {
	killed(t, func(most int) int { return most })
}

// killed has several lives of endpoints. In each one, and in each phase of it, the operator is killed at
// one request, and another process takes over. lives is the number of lives, for the number of requests
// in the longest phase. They kill at requests that are as far from each other. Each life is there twice:
// with the effect of the requests, and without it.
func killed(t *testing.T, lives func(most int) int) {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("KILLED_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("KILLED_SEED=%d", seed)
	offset := rand.New(rand.NewPCG(seed, 0)).Float64() // #nosec G404 -- a test's choice
	counts := newMortal(t).live(make([]int, len(phases)), false)
	t.Logf("requests of the phases: %v", counts)
	n := lives(slices.Max(counts))
	var kills atomic.Int64
	t.Run("at", func(t *testing.T) {
		for i := range n {
			at := make([]int, len(phases))
			for p, all := range counts {
				at[p] = 1 + int((float64(i)+offset)*float64(all)/float64(n))
			}
			for _, effect := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d-%t", i, effect), func(t *testing.T) {
					t.Parallel()
					w := newMortal(t)
					w.live(at, effect)
					kills.Add(int64(w.kills))
				})
			}
		}
	})
	// A life can have fewer requests than the first one.
	if most := int64(2 * n * len(phases)); kills.Load() < most*2/3 {
		t.Errorf("of %d processes, %d were killed", most, kills.Load())
	}
}

// mortal is a world whose operator can be killed.
type mortal struct {
	*world
	databases kube.Resource[api.NeonBranchDatabase]
	history   *history
	first     types.UID // of the first pod

	killer *assassin.Assassin
	stop   func()
	kills  int
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	w := &mortal{world: newWorld(t)}
	w.databases = kube.For[api.NeonBranchDatabase](w.client).In(w.namespace)
	w.outside.timeline = upstream.Timeline{LastRecordLSN: 0x2000, MinReadableLSN: 0x1000}
	w.branch("trunk", "1")
	w.history = w.record()
	return w
}

// start runs a process of the operator.
func (w *mortal) start() {
	w.Helper()
	a := assassin.New()
	w.killer = a
	w.requests = func(c *rest.Config) {
		c.Wrap(func(to http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) { return a.APIServer(r, to) })
		})
	}
	w.stop = w.operate(func(op *Operator) {
		op.Clients.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return a.Outside(r, w.outside)
		})}
	})
}

// live goes through all phases, and kills the operator at one request of each, if that is not 0. It
// returns the numbers of requests of the last processes.
func (w *mortal) live(at []int, effect bool) (counts []int) {
	w.Helper()
	w.start()
	for i, p := range phases {
		w.killer.Arm(at[i], effect)
		p.do(w)
		w.restarted(p.name, func() { p.holds(w) })
		counts = append(counts, w.killer.Count())
	}
	w.stop()
	w.ok(oneWriter(w.history.all()))
	for _, key := range []string{
		"Lease " + writerPrefix + strings.Repeat("1", 32), "StatefulSet first-compute", "StatefulSet second-compute",
		"Pod first-compute-0", "Pod second-compute-0", "NeonEndpoint first", "NeonEndpoint second",
	} {
		if !w.history.hasWritten(key) {
			w.Errorf("the history does not show that %s named a writer", key)
		}
	}
	for key, want := range map[string]int{
		"Pod first-compute-0": 3, "Pod second-compute-0": 1, "Pod past-compute-0": 1,
		"StatefulSet first-compute": 1, "StatefulSet second-compute": 1, "StatefulSet past-compute": 1,
		"Secret app-password": 1, "Secret first-app": 1, "Secret second-app": 1,
	} {
		if n := w.history.made(key); n != want {
			w.Errorf("%s was made %d times, want %d", key, n, want)
		}
	}
	for _, s := range []struct{ name, key string }{
		{"app-password", passwordKey}, {"app-password", verifierKey}, {"first-app", "password"}, {"second-app", "password"},
	} {
		if all := w.history.secrets(s.name, s.key); len(all) != 1 {
			w.Errorf("Secret %s has had %d values of %s", s.name, len(all), s.key)
		}
	}
	return counts
}

// restarted starts another process when the operator is killed, until a function ends.
func (w *mortal) restarted(phase string, f func()) {
	w.Helper()
	killer, ended := w.killer, make(chan struct{})
	var restart sync.WaitGroup
	restart.Go(func() {
		select {
		case <-killer.Done():
		case <-ended:
			if !killer.Disarm() {
				return // this time there were fewer requests
			}
		}
		w.Logf("killed in phase %s at %s", phase, killer.Where())
		w.stop()
		w.start()
		w.kills++
	})
	defer restart.Wait()
	defer close(ended)
	f()
}

// eventually waits until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for ctx := w.soon(); !holds(); {
		select {
		case <-ctx.Done():
			w.Fatalf("wait until %s: %v", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// set changes a setting of the first endpoint.
func (w *mortal) set(name, value string) {
	w.Helper()
	w.modify("first", func(e *api.NeonEndpoint) {
		if e.Spec.Settings == nil {
			e.Spec.Settings = map[string]string{}
		}
		e.Spec.Settings[name] = value
	})
}

// runs waits until an endpoint is ready and its compute has the role, the database and some settings,
// and checks the Secret of its clients.
func (w *mortal) runs(endpoint string, settings map[string]string) {
	w.Helper()
	var password *corev1.Secret
	w.eventually("the compute of "+endpoint+" has its configuration", func() bool {
		p, err := w.pods.Get(w.Context(), podName(endpointOf(endpoint, "")))
		if err != nil || p.DeletionTimestamp != nil {
			return false
		}
		if password, err = w.secrets.Get(w.Context(), "app-password"); err != nil {
			return false
		}
		is := w.outside.process(p.UID).config.Spec
		has := map[string]string{}
		for _, o := range is.Cluster.Settings {
			has[o.Name] = o.Value
		}
		for name, value := range settings {
			if has[name] != value {
				return false
			}
		}
		roles, databases := is.Cluster.Roles, is.Cluster.Databases
		return is.TimelineID == strings.Repeat("1", 32) && len(databases) == 1 && databases[0].Owner == "app" &&
			len(roles) == 1 && *roles[0].EncryptedPassword == string(password.Data[verifierKey])
	})
	w.ready(endpoint)
	login, err := w.secrets.Until(w.soon(), endpoint+"-app", func(s *corev1.Secret) bool { return true })
	w.ok(err)
	if string(login.Data["password"]) != string(password.Data[passwordKey]) {
		w.Errorf("clients of %s have another password than role app", endpoint)
	}
}
