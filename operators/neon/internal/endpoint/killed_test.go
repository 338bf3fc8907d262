package endpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/assassin"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// life is that of a branch's endpoints.
type life struct {
	phases []phase
	// made has the number of objects of a name that are there one after another.
	made map[string]int
	// writers are the names of the endpoints that write, one after another.
	writers []string
	change  func(*Operator)
}

// phase is a part of a life.
type phase struct {
	name string
	do   func(w *mortal)
	// holds waits for the end of the phase.
	holds func(w *mortal)
}

// writing is the life of endpoints that write, and of one that reads beside them.
var writing = life{writers: []string{"first", "second"}, made: map[string]int{
	"Pod first-compute-0": 3, "Pod second-compute-0": 1, "Pod past-compute-0": 1,
	"StatefulSet first-compute": 1, "StatefulSet second-compute": 1, "StatefulSet past-compute": 1,
	"Secret app-password": 1, "Secret first-app": 1, "Secret second-app": 1,
}, phases: []phase{
	{"create", func(w *mortal) {
		w.contents()
		past := endpointOf("past", "trunk")
		past.Spec.Type, past.Spec.LSN = api.Static, "0/1800"
		w.create(past)
		w.create(endpointOf("first", "trunk"))
	}, func(w *mortal) {
		w.runs("first", nil)
		w.ready("past")
		w.note("first")
	}},
	{"change", func(w *mortal) {
		w.set("first", "work_mem", "8MB")
	}, func(w *mortal) {
		w.runs("first", map[string]string{"work_mem": "8MB"})
		w.same("first", "restarted for a change that it takes while it runs")
	}},
	{"roll", func(w *mortal) {
		w.set("first", "max_connections", "50")
	}, func(w *mortal) {
		w.pod("first", w.noted["first"])
		w.runs("first", map[string]string{"work_mem": "8MB", "max_connections": "50"})
	}},
	{"suspend", func(w *mortal) {
		w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Suspended = true })
	}, func(w *mortal) {
		w.suspended("first")
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
	deleted("second", "past"),
}}

// deleted is the phase in which endpoints are deleted, and all else with them.
func deleted(names ...string) phase {
	return phase{"delete", func(w *mortal) {
		for _, name := range names {
			w.ok(w.endpoints.Delete(w.soon(), name))
		}
	}, func(w *mortal) {
		for _, name := range names {
			w.ok(w.endpoints.UntilGone(w.soon(), name))
		}
		w.ok(w.roles.Delete(w.soon(), "app"))
		w.ok(w.databases.Delete(w.soon(), "shop"))
		w.eventually("nothing is left", func() bool { return slices.Equal(w.history.left(), []string{"Secret main-keys"}) })
	}}
}

// contents makes a role and a database of the branch.
func (w *mortal) contents() {
	w.Helper()
	r, d := new(api.NeonRole), new(api.NeonBranchDatabase)
	r.Name, r.Spec.Branch = "app", "trunk"
	d.Name, d.Spec.Branch, d.Spec.Owner = "shop", "trunk", "app"
	_, err := w.roles.Create(w.soon(), r)
	w.ok(err)
	_, err = w.databases.Create(w.soon(), d)
	w.ok(err)
}

// TestKilled kills the operator at some of its requests while it makes, changes, suspends, resumes and
// deletes endpoints. KILLED_SEED repeats a run's choices.
func TestKilled(t *testing.T) {
	t.Parallel()
	killed(t, writing, func(int) int { return 4 })
}

// TestSoakKilled kills the operator at each of its requests.
func TestSoakKilled(t *testing.T) {
	killed(t, writing, func(most int) int { return most })
}

// killed has several lives of endpoints. In each one, and in each phase of it, the operator is killed at
// one request, and another process takes over. lives is the number of lives, for the number of requests
// in the longest phase. They kill at requests that are as far from each other. Each life is there twice:
// with the effect of the requests, and without it.
func killed(t *testing.T, l life, lives func(most int) int) {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("KILLED_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("KILLED_SEED=%d", seed)
	offset := rand.New(rand.NewPCG(seed, 0)).Float64() // #nosec G404 -- a test's choice
	phases := len(l.phases)
	counts := newMortal(t).live(l, make([]int, phases), false)
	t.Logf("requests of the phases: %v", counts)
	n := lives(slices.Max(counts))
	var kills atomic.Int64
	t.Run("at", func(t *testing.T) {
		for i := range n {
			at := make([]int, phases)
			for p, all := range counts {
				at[p] = 1 + int((float64(i)+offset)*float64(all)/float64(n))
			}
			for _, effect := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d-%t", i, effect), func(t *testing.T) {
					t.Parallel()
					w := newMortal(t)
					w.live(l, at, effect)
					kills.Add(int64(w.kills))
				})
			}
		}
	})
	// A life can have fewer requests than the first one.
	if most := int64(2 * n * phases); kills.Load() < most*2/3 {
		t.Errorf("of %d processes, %d were killed", most, kills.Load())
	}
}

// mortal is a world whose operator can be killed.
type mortal struct {
	*world
	databases kube.Resource[api.NeonBranchDatabase]
	history   *history
	noted     map[string]types.UID // of the pods of endpoints

	life   life
	mu     sync.Mutex
	killer *assassin.Assassin
	op     *Operator // of the process that killer may kill
	stop   func()
	kills  int
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	w := &mortal{world: newWorld(t), noted: map[string]types.UID{}}
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
	w.requests = func(c *rest.Config) {
		c.Wrap(func(to http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) { return a.APIServer(r, to) })
		})
	}
	w.stop = w.operate(func(op *Operator) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.killer, w.op = a, op
		op.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
			return a.Dial(address, func() (net.Conn, error) { return w.outside.login(address) })
		}
		if w.life.change != nil {
			w.life.change(op)
		}
		op.Clients.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return a.Outside(r, w.outside)
		})}
	})
}

// live goes through all phases, and kills the operator at one request of each, if that is not 0. It
// returns the numbers of requests of the last processes.
func (w *mortal) live(l life, at []int, effect bool) (counts []int) {
	w.Helper()
	w.life = l
	w.start()
	for i, p := range l.phases {
		w.killer.Arm(at[i], effect)
		p.do(w)
		w.restarted(p.name, func() { p.holds(w) })
		counts = append(counts, w.killer.Count())
	}
	w.stop()
	w.ok(oneWriter(w.history.all()))
	named := []string{"Lease " + writerPrefix + strings.Repeat("1", 32)}
	for _, name := range l.writers {
		named = append(named, "StatefulSet "+name+"-compute", "Pod "+name+"-compute-0", "NeonEndpoint "+name)
	}
	for _, key := range named {
		if !w.history.hasWritten(key) {
			w.Errorf("the history does not show that %s named a writer", key)
		}
	}
	for key, want := range l.made {
		if n := w.history.made(key); n != want {
			w.Errorf("%s was made %d times, want %d", key, n, want)
		}
	}
	once := func(secret, key string) {
		if all := w.history.secrets(secret, key); len(all) != 1 {
			w.Errorf("Secret %s has had %d values of %s", secret, len(all), key)
		}
	}
	once("app-password", verifierKey)
	for key := range l.made {
		if secret, ok := strings.CutPrefix(key, "Secret "); ok {
			once(secret, passwordKey)
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
	kubetest.Eventually(w, what, func() error {
		if holds() {
			return nil
		}
		seen := "the endpoints are"
		for e, err := range w.endpoints.List(w.Context()) {
			if err != nil {
				return err
			}
			seen += fmt.Sprintf(" %s: %s %s;", e.Name, e.Status.Phase, condition(e).Message)
		}
		return errors.New(seen)
	})
}

// suspended waits until an endpoint is suspended.
func (w *mortal) suspended(endpoint string) {
	w.Helper()
	w.until(endpoint, "is suspended", func(e *api.NeonEndpoint) bool { return e.Status.Phase == suspended && holds(e) })
}

// note remembers which pod an endpoint has.
func (w *mortal) note(endpoint string) { w.noted[endpoint] = w.pod(endpoint, "").UID }

// same sees that an endpoint has the pod that is remembered.
func (w *mortal) same(endpoint, otherwise string) {
	w.Helper()
	if w.pod(endpoint, "").UID != w.noted[endpoint] {
		w.Errorf("the compute of %s was %s", endpoint, otherwise)
	}
}

// set changes a setting of an endpoint.
func (w *mortal) set(endpoint, name, value string) {
	w.Helper()
	w.modify(endpoint, func(e *api.NeonEndpoint) {
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
