package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller/profile"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// ask sends a request and returns the answer.
func ask(t *testing.T, method, url, token string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// Health, readiness, metrics, profiles and hooks are on one port.
func TestServe(t *testing.T) {
	b := newBench(t)
	address := testport.Address(t)
	b.create("p")
	var hooked, runs atomic.Int32
	parents := kube.For[corev1.ConfigMap](b.connect(nil)).In(b.namespace).Labeled("role=parent")
	stop := b.start(Options{Address: address, Profiles: profile.Handler(),
		Lease: lease.Lease{Name: "served", Namespace: b.namespace}}, Controller[corev1.ConfigMap]{
		Name: "served", For: parents,
		Watches: []Source{Hook("POST /hooks/{name}", func(r *http.Request) ([]kube.Key, error) {
			switch r.PathValue("name") {
			case "none":
				return nil, errors.New("no such hook")
			case "panics":
				panic("secret")
			}
			return []kube.Key{{Namespace: b.namespace, Name: r.PathValue("name")}}, nil
		})},
		Reconcile: func(ctx context.Context, _ *corev1.ConfigMap) (Action, error) {
			if slices.ContainsFunc(Causes(ctx), func(c Cause) bool { return c.Reason == Triggered }) {
				hooked.Add(1)
			}
			if runs.Add(1) == 1 {
				return Done, errBroken
			}
			return Done, nil
		},
	})
	url := "http://" + address
	b.eventually("it is ready", func() bool { code, _ := ask(t, "GET", url+"/readyz", ""); return code == http.StatusOK })
	if code, body := ask(t, "GET", url+"/healthz", ""); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	b.eventually("a hook is taken", func() bool {
		code, _ := ask(t, "POST", url+"/hooks/p", "")
		return code == http.StatusAccepted
	})
	b.eventually("the hook reconciles", func() bool { return hooked.Load() > 0 })
	if code, body := ask(t, "POST", url+"/hooks/none", ""); code != http.StatusBadRequest ||
		!strings.Contains(body, "no such hook") {
		t.Errorf("a wrong hook: %d %q", code, body)
	}
	if code, body := ask(t, "POST", url+"/hooks/panics", ""); code != http.StatusInternalServerError ||
		strings.Contains(body, "secret") {
		t.Errorf("a hook that panics: %d %q", code, body)
	}
	// A worker counts as working for a moment after its reconcile.
	var text string
	b.eventually("the workers rest", func() bool {
		_, text = ask(t, "GET", url+"/metrics", "")
		return strings.Contains(text, `controller_runtime_active_workers{controller="served"} 0`)
	})
	for _, want := range []string{
		`controller_runtime_reconcile_total{controller="served",result="success"}`,
		`controller_runtime_reconcile_errors_total{controller="served"} 1`,
		`controller_runtime_reconcile_panics_total{controller="served"} 0`,
		`controller_runtime_reconcile_time_seconds_count{controller="served"}`,
		`controller_runtime_max_concurrent_reconciles{controller="served"} 16`,
		`controller_runtime_active_workers{controller="served"} 0`,
		`workqueue_depth{controller="served",name="served",priority="0"} 0`,
		`workqueue_depth{controller="served",name="served",priority="-100"} 0`,
		`workqueue_adds_total{controller="served",name="served"}`,
		`workqueue_queue_duration_seconds_count{controller="served",name="served"}`,
		`workqueue_work_duration_seconds_count{controller="served",name="served"}`,
		`workqueue_unfinished_work_seconds{controller="served",name="served"} 0`,
		`workqueue_longest_running_processor_seconds{controller="served",name="served"} 0`,
		`workqueue_retries_total{controller="served",name="served"} 1`,
		`rest_client_requests_total{code="200"`,
		`rest_client_request_duration_seconds_count{`,
		`leader_election_master_status{name="served"} 1`,
		`pintle_store_objects{store="configmap in ` + b.namespace + ` role=parent"} 1`,
		`process_resident_memory_bytes`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s:\n%s", want, text)
		}
	}
	if code, body := ask(t, "GET", url+"/debug/pprof/goroutine?debug=1", ""); code != 200 ||
		!strings.Contains(body, "goroutine profile") {
		t.Errorf("/debug/pprof/goroutine: %d %.100q", code, body)
	}
	stop()
	if code, _ := ask(t, "GET", url+"/healthz", ""); code != 0 {
		t.Error("the port is still open")
	}
}

// With Authorize, only clients that the cluster allows see metrics. Profiles are served
// only if they are configured.
func TestAuthorize(t *testing.T) {
	b := newBench(t)
	address := testport.Address(t)
	accounts := kube.For[corev1.ServiceAccount](b.client).In(b.namespace)
	token := func(name string) string {
		t.Helper()
		if _, err := accounts.Apply(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		r, err := kube.Sub[authenticationv1.TokenRequest](accounts, "token").Create(t.Context(), name,
			&authenticationv1.TokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	scraper, stranger := token("scraper"), token("stranger")
	role := "metrics-" + b.namespace
	roles, bindings := kube.For[rbacv1.ClusterRole](b.client), kube.For[rbacv1.ClusterRoleBinding](b.client)
	_, err := roles.Apply(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}})
	if err == nil {
		_, err = bindings.Apply(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
				Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.namespace, Name: "scraper"}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(roles.Delete(ctx, role), bindings.Delete(ctx, role)); err != nil {
			t.Error(err)
		}
	})

	requests := new(tally)
	parents := kube.For[corev1.ConfigMap](b.connect(requests.wire)).In(b.namespace).Labeled("role=parent")
	b.start(Options{Address: address, Authorize: true}, Controller[corev1.ConfigMap]{
		For: parents, Reconcile: func(context.Context, *corev1.ConfigMap) (Action, error) { return Done, nil },
	})
	url := "http://" + address + "/metrics"
	b.eventually("who may sees metrics", func() bool {
		code, _ := ask(t, "GET", url, scraper)
		return code == http.StatusOK
	})
	for range 5 {
		for who, want := range map[string]int{"": 401, "nonsense": 401, stranger: 403, scraper: 200} {
			if code, body := ask(t, "GET", url, who); code != want {
				t.Errorf("%d for %.20q, want %d: %s", code, who, want, body)
			}
		}
	}
	if n := requests.of("POST tokenreviews"); n > 5 {
		t.Errorf("the cluster was asked %d times about three tokens", n)
	}
	if code, _ := ask(t, "GET", "http://"+address+"/debug/pprof/", scraper); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/: %d", code)
	}
}

// One of two processes reconciles. When it stops, the other goes on within moments, and
// sees the first one's last writes.
func TestHandover(t *testing.T) {
	b := newBench(t)
	const rounds = 6
	var active, most, runs atomic.Int32
	var lastSeen, lastWritten atomic.Int64
	process := func() (stop func()) {
		parents := kube.For[corev1.ConfigMap](b.connect(nil)).In(b.namespace).Labeled("role=parent")
		return b.start(Options{Lease: lease.Lease{Name: "handover", Namespace: b.namespace, Duration: 5 * time.Minute}},
			Controller[corev1.ConfigMap]{
				For: parents, Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
					if n := active.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer active.Add(-1)
					n := int64(len(p.Annotations["count"]))
					if want := lastWritten.Load(); n < want {
						t.Errorf("a reconcile saw %d writes of %d", n, want)
					}
					lastSeen.Store(n)
					p.Annotations = map[string]string{"count": strings.Repeat("x", int(n)+1)}
					if _, err := parents.Update(ctx, p); err != nil {
						return Done, err
					}
					lastWritten.Store(n + 1)
					runs.Add(1)
					return After(time.Millisecond), nil
				},
			})
	}
	b.create("p")
	stop := process()
	for range rounds {
		next := process()
		before := runs.Load()
		b.eventually("the process reconciles", func() bool { return runs.Load() > before+5 })
		b.eventually("the other waits", func() bool { return b.log.count("another process holds the lease") > 0 })
		stop()
		stopped, at := time.Now(), runs.Load()
		b.eventually("the other goes on", func() bool { return runs.Load() > at })
		if took := time.Since(stopped); took > time.Minute {
			t.Errorf("the next process took %s: it waited for the lease's expiry", took)
		}
		stop = next
	}
	if most.Load() != 1 {
		t.Errorf("%d processes have reconciled at a time", most.Load())
	}
}

// A process that loses the lease stops at once, and Run returns an error about it.
func TestLeaseLost(t *testing.T) {
	b := newBench(t)
	leases := kube.For[coordinationv1.Lease](b.client).In(b.namespace)
	running, ended := make(chan struct{}), make(chan error, 1)
	parents := kube.For[corev1.ConfigMap](b.connect(nil)).In(b.namespace).Labeled("role=parent")
	b.create("p")
	var cause, written error
	var once sync.Once
	go func() {
		ended <- Run(t.Context(), Options{
			Logger: slog.New(b.log), Grace: time.Hour,
			Lease: lease.Lease{Name: "lost", Namespace: b.namespace, Renew: 200 * time.Millisecond},
		}, Controller[corev1.ConfigMap]{For: parents, Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action,
			error) {
			once.Do(func() { close(running) })
			<-ctx.Done()
			cause = context.Cause(ctx)
			_, written = parents.Patch(context.WithoutCancel(ctx), p.Name, types.MergePatchType,
				[]byte(`{"data":{"late":"true"}}`))
			return Done, ctx.Err()
		}})
	}()
	select {
	case <-running:
	case <-time.After(patience):
		t.Fatalf("nothing is reconciled:\n%s", b.log)
	}
	_, err := leases.Modify(t.Context(), "lost", func(l *coordinationv1.Lease) error {
		other := "somebody else"
		l.Spec.HolderIdentity = &other
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("Run returns %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("Run goes on:\n%s", b.log)
	}
	if !errors.Is(cause, lease.ErrLost) || !errors.Is(written, lease.ErrLost) {
		t.Errorf("the context ended with %v, a late write with %v", cause, written)
	}
	if p, err := b.parents.Get(t.Context(), "p"); err != nil || p.Data["late"] != "" {
		t.Errorf("%v, %v", p, err)
	}
}
