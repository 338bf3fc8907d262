package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/plan/page"
	"github.com/pintle-go/pintle/ready"
)

// A Menu has a ConfigMap for its drinks, and another one that needs it for its food.
type Menu struct {
	kube.Object
	Spec struct {
		Broken string `json:"broken,omitempty"`
	} `json:"spec,omitzero"`
	Status plan.Status `json:"status,omitzero"`
}

func (Menu) GVK() kube.GVK { return kube.GVK{Group: "page.example.com", Version: "v1", Kind: "Menu"} }

// kitchen is an operator of menus that runs with a page.
type kitchen struct {
	*testing.T
	menus    kube.Resource[Menu]
	configs  kube.Resource[corev1.ConfigMap]
	address  string
	requests atomic.Int32 // of the operator
	stop     func()
}

func newKitchen(t *testing.T, open bool) *kitchen {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := kubetest.Start(t, kubetest.Options{})
	k := &kitchen{T: t}
	observe := func(r kube.RequestInfo) {
		if !strings.HasSuffix(r.Kind, "Review") {
			k.requests.Add(1)
		}
	}
	namespace := cluster.Namespace(t)
	client, err := kube.Config{Rest: cluster.Config(), FieldManager: "kitchen", Observe: observe}.Connect()
	k.ok(err)
	t.Cleanup(client.Close)
	k.menus, k.configs = kube.For[Menu](client).In(namespace), kube.For[corev1.ConfigMap](client).In(namespace)
	definition := crd.Of[Menu](crd.Options{})
	k.ok(crd.Install(t.Context(), client, definition))
	k.run(open)
	return k
}

func (k *kitchen) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// run runs the operator until stop is called.
func (k *kitchen) run(open bool) {
	k.address = testport.Address(k.T)
	shown := page.New(k.menus, func(m *Menu) *plan.Status { return &m.Status })
	shown.Open = open
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- controller.Run(ctx, controller.Options{Address: k.address, Routes: shown.Routes("/plans/")},
			controller.Controller[Menu]{
				For: k.menus, Owns: []kube.AnyHandle{k.configs},
				Reconcile: shown.Remember(k.reconcile), Backoff: controller.Backoff{Min: time.Minute, Max: time.Minute},
			})
	}()
	stopped := false
	k.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			k.ok(<-ended)
		}
	}
	k.Cleanup(k.stop)
}

func (k *kitchen) reconcile(ctx context.Context, m *Menu) (controller.Action, error) {
	switch m.Spec.Broken {
	case "":
	case "panic":
		panic("boom")
	default:
		return controller.Done, errors.New(m.Spec.Broken)
	}
	p := plan.New(k.menus, m, &m.Status)
	node := func(name string) *plan.Node[corev1.ConfigMap] {
		return plan.Object(p, name, k.configs, func(plan.Inputs) (*corev1.ConfigMap, error) {
			labels := map[string]string{"menu": m.Name}
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.Name + "-" + name, Labels: labels}}, nil
		}).ReadyWhen(func(c *corev1.ConfigMap) ready.State {
			if c.Annotations["served"] == "" {
				return ready.State{Phase: ready.Waiting, Message: "<b>not served</b>"}
			}
			return ready.State{Phase: ready.Ready}
		})
	}
	food, drinks := node("food"), node("drinks")
	food.Needs(drinks)
	return p.Run(ctx)
}

// seenNode is a node as the page gets it.
type seenNode struct {
	Name, State, Message, Object string
	Needs                        []string
}

// seen is the JSON of the page, as a browser reads it.
type seen struct {
	Kind   string
	Owners []struct{ Key, State, Ready, Summary, Since string }
	Owner  *struct {
		Key, State    string
		Nodes         []seenNode
		Turns, Failed []struct {
			At     time.Time
			Causes []string
			Error  string
		}
	}
}

// get returns an answer, whose body is closed when the test ends.
func (k *kitchen) get(path string, header http.Header) *http.Response {
	k.Helper()
	var resp *http.Response
	kubetest.Eventually(k, "the program answers "+path, func() error {
		req, err := http.NewRequestWithContext(k.Context(), http.MethodGet, "http://"+k.address+path, nil)
		k.ok(err)
		if header != nil {
			req.Header = header
		}
		resp, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
			resp.Body.Close()
			err = errors.New(resp.Status)
		}
		return err
	})
	k.Cleanup(func() { resp.Body.Close() })
	return resp
}

// look asks as the browser does, until the answer is as wanted.
func (k *kitchen) look(owner, find string, want func(s *seen) bool) *seen {
	k.Helper()
	version, deadline := "", time.Now().Add(3*time.Minute)
	var last string
	for time.Now().Before(deadline) {
		q := url.Values{"owner": {owner}, "find": {find}, "version": {version}}
		resp := k.get("/plans/data?"+q.Encode(), nil)
		body, err := io.ReadAll(resp.Body)
		k.ok(err)
		if resp.StatusCode == http.StatusNoContent {
			continue
		}
		last = string(body)
		if resp.StatusCode != http.StatusOK {
			k.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		s := new(seen)
		k.ok(json.Unmarshal(body, s))
		if want(s) {
			return s
		}
		version = strings.Trim(resp.Header.Get("ETag"), `"`)
		if version == "" {
			k.Fatal("the answer has no version")
		}
	}
	k.Fatalf("not within three minutes; last seen: %s", last)
	return nil
}

func (k *kitchen) create(name, broken string) {
	k.Helper()
	m := new(Menu)
	m.Name, m.Spec.Broken = name, broken
	_, err := k.menus.Create(k.Context(), m)
	k.ok(err)
}

func (k *kitchen) serve(config string) {
	k.Helper()
	_, err := k.configs.Modify(k.Context(), config, func(c *corev1.ConfigMap) error {
		c.Annotations = map[string]string{"served": "yes"}
		return nil
	})
	k.ok(err)
}

func (s *seen) state(name string) string { return s.node(name).State }

// node returns a node of the shown owner. It is empty if there is no such node.
func (s *seen) node(name string) (is seenNode) {
	if s.Owner != nil {
		for _, n := range s.Owner.Nodes {
			if n.Name == name {
				is = n
			}
		}
	}
	return is
}

func TestPageFollowsOwners(t *testing.T) {
	k := newKitchen(t, true)
	namespace := k.menus.Namespaces()[0]
	k.look("", "", func(s *seen) bool { return s.Kind == "Menu" && len(s.Owners) == 0 && s.Owner == nil })
	k.create("lunch", "")
	lunch := namespace + "/lunch"
	// The status has the message some seconds after the state.
	s := k.look(lunch, "", func(s *seen) bool {
		return s.state("drinks") == "Waiting" && s.node("drinks").Message != "" && len(s.Owner.Turns) > 0
	})
	if got := s.Owners[0]; got.Key != lunch || got.State != "Waiting" || got.Ready != "0/2" || got.Since == "" {
		t.Errorf("the list has %+v", got)
	}
	nodes := fmt.Sprintf("%+v", s.Owner.Nodes)
	want := "[{Name:food State:Blocked Message:waits for drinks Object: Needs:[drinks]} " +
		"{Name:drinks State:Waiting Message:<b>not served</b> Object:ConfigMap " + namespace + "/lunch-drinks Needs:[]}]"
	if nodes != want {
		t.Errorf("nodes are %s", nodes)
	}

	k.serve("lunch-drinks")
	// A node is Waiting without a message while its object is being created.
	k.look(lunch, "", func(s *seen) bool {
		return s.state("drinks") == "Ready" && s.state("food") == "Waiting" && s.node("food").Message != ""
	})
	k.serve("lunch-food")
	s = k.look(lunch, "", func(s *seen) bool {
		cause := "ConfigMap " + namespace + "/lunch-food modified"
		return s.state("food") == "Ready" && strings.Contains(fmt.Sprint(s.Owner.Turns), cause)
	})
	if len(s.Owner.Failed) != 0 {
		t.Errorf("errors without a failure: %+v", s.Owner.Failed)
	}

	k.create("supper", "the oven is <i>cold</i>")
	supper := namespace + "/supper"
	s = k.look(supper, "", func(s *seen) bool { return s.Owner != nil && len(s.Owner.Failed) > 0 })
	if got := s.Owner.Failed[0].Error; got != "the oven is <i>cold</i>" || len(s.Owners) != 2 {
		t.Errorf("error %q, %d owners", got, len(s.Owners))
	}
	k.create("tea", "panic")
	k.look(namespace+"/tea", "", func(s *seen) bool {
		return s.Owner != nil && len(s.Owner.Failed) > 0 && strings.HasPrefix(s.Owner.Failed[0].Error, "it panicked")
	})
	k.look("", "LUN", func(s *seen) bool { return len(s.Owners) == 1 && s.Owners[0].Key == lunch })

	k.ok(k.menus.Delete(t.Context(), "supper"))
	k.look(supper, "", func(s *seen) bool { return len(s.Owners) == 2 && s.Owner == nil })
}

// A page that is open sends no request to the API server.
func TestPageCostsTheServerNothing(t *testing.T) {
	k := newKitchen(t, true)
	k.create("lunch", "")
	lunch := k.menus.Namespaces()[0] + "/lunch"
	// The operator writes the message last, and comes to rest then.
	k.look(lunch, "", func(s *seen) bool { return s.state("drinks") == "Waiting" && s.node("drinks").Message != "" })
	time.Sleep(2 * time.Second) // requests that are under way
	before := k.requests.Load()
	if before == 0 {
		t.Fatal("requests are not counted")
	}
	for range 20 {
		k.look(lunch, "", func(*seen) bool { return true })
	}
	if n := k.requests.Load() - before; n != 0 {
		t.Errorf("20 looks have cost %d requests", n)
	}
}

// A request that waits for a change ends when the program does.
func TestPageEndsWithTheProgram(t *testing.T) {
	k := newKitchen(t, true)
	resp := k.get("/plans/data", nil)
	version := strings.Trim(resp.Header.Get("ETag"), `"`)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if resp, err := client.Get("http://" + k.address + "/plans/data?version=" + version); err == nil {
			resp.Body.Close()
		}
	}()
	time.Sleep(500 * time.Millisecond) // the request waits
	begun := time.Now()
	k.stop()
	<-ended
	if took := time.Since(begun); took > 10*time.Second { // the request would wait for 20 s
		t.Errorf("the stop took %v", took)
	}
}

func TestPageNeedsAToken(t *testing.T) {
	k := newKitchen(t, false)
	if code := k.get("/plans/data", nil).StatusCode; code != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", code)
	}
	wrong := http.Header{"Authorization": {"Bearer nonsense"}}
	if code := k.get("/plans/data", wrong).StatusCode; code != http.StatusUnauthorized {
		t.Errorf("with a wrong token: status %d", code)
	}
	for _, name := range []string{"", "page.css", "page.js", "layout.js"} {
		resp := k.get("/plans/"+name, nil)
		body, err := io.ReadAll(resp.Body)
		k.ok(err)
		policy := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != http.StatusOK || len(body) == 0 || !strings.HasPrefix(policy, "default-src 'none'") {
			t.Errorf("%q: status %d, %d bytes, policy %q", name, resp.StatusCode, len(body), policy)
		}
		// The name of SVG's namespace is no address that anybody asks.
		text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
		if strings.Contains(text, "://") || strings.Contains(text, "innerHTML") {
			t.Errorf("%q names another host or sets HTML", name)
		}
	}
	if resp := k.get("/plans", nil); resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/plans/" {
		t.Errorf("/plans leads to %s with status %d", resp.Request.URL.Path, resp.StatusCode)
	}
}
