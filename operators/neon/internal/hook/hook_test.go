package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

const (
	tenantID   = "11111111111111111111111111111111"
	timelineID = "22222222222222222222222222222222"
	otherID    = "33333333333333333333333333333333"
	attachPath = "/notify-attach"
	movePath   = "/notify-safekeepers"
)

// replica is one process of the operator.
type replica struct {
	// patient has a limit that no busy machine exceeds; hasty is for calls that must exceed it.
	patient, hasty http.Handler

	projects  kube.Resource[api.NeonProject]
	branches  kube.Resource[api.NeonBranch]
	endpoints kube.Resource[api.NeonEndpoint]
	secrets   kube.Resource[corev1.Secret]
}

func newReplica(t *testing.T, of *kubetest.Cluster, ns string) *replica {
	t.Helper()
	client := optest.Client(t, of.Config())
	r := &replica{
		projects: kube.For[api.NeonProject](client).In(ns), branches: kube.For[api.NeonBranch](client).In(ns),
		endpoints: kube.For[api.NeonEndpoint](client).In(ns), secrets: kube.For[corev1.Secret](client).In(ns),
	}
	handler := func(limit time.Duration) http.Handler {
		hooks := &Hooks{
			Projects: r.projects, Branches: r.branches, Endpoints: r.endpoints, Secrets: r.secrets,
			Clients: &cluster.Clients{Secrets: r.secrets}, Limit: limit,
		}
		mux := http.NewServeMux()
		for _, route := range hooks.Routes() {
			mux.Handle(route.Pattern, route.Handler)
		}
		return mux
	}
	r.patient, r.hasty = handler(time.Minute), handler(time.Second)
	synced(t, r.projects.Open(t.Context()))
	synced(t, r.branches.Open(t.Context()))
	synced(t, r.endpoints.Open(t.Context()))
	synced(t, r.secrets.Open(t.Context()))
	return r
}

func synced(t *testing.T, store interface{ Sync(context.Context) error }) {
	t.Helper()
	if err := store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// call is a request of a storage controller, and the status of its answer.
type call struct {
	cluster, path, token, body string
}

func (c call) to(t *testing.T, h http.Handler, ns string) (status int, text string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/clusters/"+ns+"/"+c.cluster+c.path,
		strings.NewReader(c.body))
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	return w.Code, w.Body.String()
}

// world has the objects of two clusters, with one project and one branch on the first.
type world struct {
	*testing.T
	ns    string
	a, b  *replica
	token string // of the cluster main
	other string // of the cluster other
	key   token.Key
}

func newWorld(t *testing.T) *world {
	t.Helper()
	of := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	w := &world{T: t, ns: of.Namespace(t)}
	w.ok(crd.Install(t.Context(), optest.Client(t, of.Config()), api.Definitions...))
	w.a, w.b = newReplica(t, of, w.ns), newReplica(t, of, w.ns)
	w.key = w.keys("main")
	w.token, w.other = w.hookToken(w.key), w.hookToken(w.keys("other"))

	p := new(api.NeonProject)
	p.Name, p.Spec.Cluster, p.Spec.PostgresVersion, p.Spec.Shards = "app", "main", 17, 1
	p.Spec.HistoryRetention, p.Spec.DeletionPolicy = "7 days", api.Delete
	p, err := w.a.projects.Create(t.Context(), p)
	w.ok(err)
	p.Status.TenantID = tenantID
	err = w.a.projects.Status().Update(t.Context(), p)
	w.ok(err)
	// A project and a branch that have no ids yet.
	young := new(api.NeonProject)
	young.Name, young.Spec = "young", p.Spec
	_, err = w.a.projects.Create(t.Context(), young)
	w.ok(err)
	for name, id := range map[string]string{"trunk": timelineID, "bud": ""} {
		b := new(api.NeonBranch)
		b.Name, b.Spec.Project, b.Spec.DeletionPolicy = name, "app", api.Delete
		b, err = w.a.branches.Create(t.Context(), b)
		w.ok(err)
		b.Status.TimelineID = id
		err = w.a.branches.Status().Update(t.Context(), b)
		w.ok(err)
	}
	for _, r := range []*replica{w.a, w.b} {
		kubetest.Eventually(t, "the stores have the project and the branch", func() error {
			p, err := r.projects.In(w.ns).Cached().Get(t.Context(), "app")
			if err != nil {
				return err
			}
			b, err := r.branches.In(w.ns).Cached().Get(t.Context(), "trunk")
			if err == nil && (p.Status.TenantID == "" || b.Status.TimelineID == "") {
				err = fmt.Errorf("tenant %q, timeline %q", p.Status.TenantID, b.Status.TimelineID)
			}
			return err
		})
	}
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// endpoint waits until the store of a replica has the endpoint in a state.
func (w *world) endpoint(r *replica, holds func(*api.NeonEndpoint) bool) {
	w.Helper()
	kubetest.Eventually(w, "the store has the endpoint", func() error {
		e, err := r.endpoints.In(w.ns).Cached().Get(w.Context(), "shop")
		if err == nil && !holds(e) {
			err = fmt.Errorf("its status is %+v", e.Status)
		}
		return err
	})
}

// keys makes the key of a cluster.
func (w *world) keys(name string) token.Key {
	w.Helper()
	key := token.New()
	s := &corev1.Secret{Data: map[string][]byte{"private.pem": key.PEM()}}
	s.Name = cluster.KeysName(name)
	_, err := w.a.secrets.Create(w.Context(), s)
	w.ok(err)
	return key
}

func (w *world) hookToken(key token.Key) string {
	return key.Sign(token.Claims{Scope: cluster.HookScope})
}

// expect makes a call and compares the status.
func (w *world) expect(r *replica, status int, c call) {
	w.Helper()
	handler := r.patient
	if status == http.StatusLocked {
		handler = r.hasty
	}
	got, text := c.to(w.T, handler, w.ns)
	for range 5 {
		if status != http.StatusLocked || got != http.StatusServiceUnavailable {
			break
		}
		// On a busy machine the limit ends before the record is made. A storage controller tries again.
		got, text = c.to(w.T, handler, w.ns)
	}
	if got != status {
		w.Errorf("%s of %s: %d %s, want %d\n%.300s", c.path, c.cluster, got, text, status, c.body)
	}
}

func (w *world) attach(body string) call { return call{"main", attachPath, w.token, body} }
func (w *world) move(body string) call   { return call{"main", movePath, w.token, body} }

func (w *world) shards(name string) place.Shards {
	w.Helper()
	p, err := w.a.projects.Get(w.Context(), name)
	w.ok(err)
	s, _ := place.ToldShards(p)
	return s
}

func (w *world) safekeepers(name string) place.Safekeepers {
	w.Helper()
	b, err := w.a.branches.Get(w.Context(), name)
	w.ok(err)
	s, _ := place.ToldSafekeepers(b)
	return s
}

func attachment(tenant string, nodes ...int64) string {
	type shard struct {
		Node   int64 `json:"node_id"`
		Number int   `json:"shard_number"`
	}
	body := struct {
		Tenant string  `json:"tenant_id"`
		Zone   string  `json:"preferred_az"`
		Stripe *int    `json:"stripe_size"`
		Shards []shard `json:"shards"`
	}{Tenant: tenant, Zone: "a"}
	for i := len(nodes) - 1; i >= 0; i-- { // in no order
		body.Shards = append(body.Shards, shard{nodes[i], i})
	}
	if len(nodes) > 1 {
		stripe := 2048
		body.Stripe = &stripe
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func membership(timeline, generation string, ids ...string) string {
	var all []string
	for _, id := range ids {
		all = append(all, `{"id":`+id+`,"hostname":"safekeeper-`+id+`"}`)
	}
	return `{"tenant_id":"` + tenantID + `","timeline_id":"` + timeline + `","generation":` + generation +
		`,"safekeepers":[` + strings.Join(all, ",") + `]}`
}

func TestHooks(t *testing.T) {
	w := newWorld(t)

	// Only the storage controller of the cluster may call.
	body := attachment(tenantID, 1)
	for _, path := range []string{attachPath, movePath} {
		w.expect(w.a, 401, call{"main", path, "", body})
		w.expect(w.a, 401, call{"main", path, "no.token.atall", body})
		w.expect(w.a, 401, call{"main", path, w.hookToken(token.New()), body})
		w.expect(w.a, 401, call{"main", path, w.other, body})
		w.expect(w.a, 401, call{"nowhere", path, w.token, body})
		for _, scope := range []token.Scope{token.Admin, token.Pageserver, token.Safekeeper} {
			w.expect(w.a, 403, call{"main", path, w.key.Sign(token.Claims{Scope: scope}), body})
		}
	}
	if s := w.shards("app"); s.Nodes != nil {
		t.Errorf("a call that was refused is recorded: %+v", s)
	}

	// Requests that no storage controller makes have no effect.
	for _, bad := range []string{
		"", "null", "{}", "[]", "{", body + "{}", attachment("", 1), attachment("main", 1), attachment(tenantID),
		strings.Replace(body, `"node_id":1`, `"node_id":"1"`, 1), strings.Replace(body, `"shard_number":0`, `"shard_number":1`, 1),
		strings.Replace(body, `"node_id":1`, `"node_id":0`, 1),
		`{"tenant_id":"` + tenantID + `","shards":[{"node_id":1,"shard_number":0},{"node_id":2,"shard_number":0}]}`,
		`{"tenant_id":"` + tenantID + `","shards":[{"node_id":1,"shard_number":-1}]}`,
	} {
		w.expect(w.a, 400, w.attach(bad))
	}
	for _, bad := range []string{
		"", "null", "{}", membership("", "2", "1"), membership(timelineID, "0", "1"), membership(timelineID, "2"),
		membership(timelineID, "2", "1", "1"), membership(timelineID, "2", "0"),
		strings.Replace(membership(timelineID, "2", "1"), tenantID, "", 1), membership(timelineID, `"2"`, "1"),
	} {
		w.expect(w.a, 400, w.move(bad))
	}
	large := strings.Repeat(" ", largestBody) + body
	w.expect(w.a, 413, w.attach(large))
	w.expect(w.a, 413, w.move(large))
	for _, name := range []string{"app", "young"} {
		if s := w.shards(name); s.Nodes != nil {
			t.Errorf("project %s: a malformed call is recorded: %+v", name, s)
		}
	}
	for _, name := range []string{"trunk", "bud"} {
		if s := w.safekeepers(name); s.IDs != nil {
			t.Errorf("branch %s: a malformed call is recorded: %+v", name, s)
		}
	}

	// Nothing runs: nobody has to be told. Unknown fields are ignored, and repeats are harmless.
	w.expect(w.a, 200, w.attach(strings.Replace(body, "{", `{"later":{"x":1},`, 1)))
	w.expect(w.b, 200, w.attach(body))
	if s := w.shards("app"); place.Text(s.Nodes) != "1" || s.StripeSize != 0 {
		t.Errorf("the shards are %+v", s)
	}
	w.expect(w.a, 200, w.attach(attachment(tenantID, 4, 3, 2, 1)))
	if s := w.shards("app"); place.Text(s.Nodes) != "4,3,2,1" || s.StripeSize != 2048 {
		t.Errorf("the shards are %+v", s)
	}

	// Nobody knows the tenant or the timeline.
	w.expect(w.a, 200, w.attach(attachment(otherID, 7)))
	w.expect(w.a, 200, w.move(membership(otherID, "2", "7")))
	// The timeline is another cluster's.
	w.expect(w.a, 200, call{"other", movePath, w.other, membership(timelineID, "9", "7")})
	w.expect(w.a, 200, call{"other", attachPath, w.other, attachment(tenantID, 7)})
	if s := w.safekeepers("trunk"); s.IDs != nil {
		t.Errorf("another cluster has moved the branch: %+v", s)
	}
	if s := w.shards("app"); place.Text(s.Nodes) != "4,3,2,1" {
		t.Errorf("another cluster has moved the project: %+v", s)
	}

	// A call that comes late, at the other replica, does not take back a later one.
	w.expect(w.a, 200, w.move(membership(timelineID, "3", "3", "1", "2")))
	w.expect(w.b, 200, w.move(membership(timelineID, "2", "1", "2", "3", "4")))
	if s := w.safekeepers("trunk"); s.Generation != 3 || place.Text(s.IDs) != "1,2,3" {
		t.Errorf("the safekeepers are %+v", s)
	}
	w.expect(w.b, 200, w.move(membership(timelineID, "3", "3", "1", "2")))

	testBusy(w)
}

// testBusy has a compute that runs: the hooks wait for it, at both replicas.
func testBusy(w *world) {
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = "shop", "trunk", api.ReadWrite
	e, err := w.a.endpoints.Create(w.Context(), e)
	w.ok(err)
	e.Status.Timeline = timelineID
	if err = w.a.endpoints.Status().Update(w.Context(), e); err == nil {
		e, err = w.a.endpoints.Get(w.Context(), e.Name)
	}
	w.ok(err)
	for _, r := range []*replica{w.a, w.b} {
		w.endpoint(r, func(e *api.NeonEndpoint) bool { return e.Status.Timeline != "" })
		w.expect(r, 423, w.attach(attachment(tenantID, 2)))
		w.expect(r, 423, w.move(membership(timelineID, "4", "1", "2", "4")))
	}
	if s := w.shards("app"); place.Text(s.Nodes) != "2" {
		w.Errorf("the compute cannot be told: the shards are %+v", s)
	}
	if s := w.safekeepers("trunk"); s.Generation != 4 {
		w.Errorf("the compute cannot be told: the safekeepers are %+v", s)
	}

	// A configuration that knows the move is not enough: the compute must have applied it.
	secret := new(corev1.Secret)
	secret.Name = place.ComputeName("shop")
	secret.Annotations = map[string]string{
		place.ShardsAnnotation: "2", place.SafekeepersAnnotation: "1,2,4", place.HashAnnotation: "new",
	}
	_, err = w.a.secrets.Create(w.Context(), secret)
	w.ok(err)
	e.Status.Applied = "old@1"
	if err = w.a.endpoints.Status().Update(w.Context(), e); err == nil {
		e, err = w.a.endpoints.Get(w.Context(), e.Name)
	}
	w.ok(err)
	w.expect(w.a, 423, w.attach(attachment(tenantID, 2)))

	// Both replicas are called at once, and the compute applies the configuration meanwhile.
	e.Status.Applied = "new@2"
	err = w.a.endpoints.Status().Update(w.Context(), e)
	w.ok(err)
	w.endpoint(w.b, func(e *api.NeonEndpoint) bool { return e.Status.Applied == "new@2" })
	var both sync.WaitGroup
	for _, r := range []*replica{w.a, w.b} {
		both.Go(func() { w.expect(r, 200, w.attach(attachment(tenantID, 2))) })
		both.Go(func() { w.expect(r, 200, w.move(membership(timelineID, "4", "4", "2", "1"))) })
	}
	both.Wait()
}
