package webhook

import (
	"context"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// timerV3 has a note, which no other version has.
type timerV3 struct {
	kube.Object
	Spec struct {
		When string `json:"when"`
		Note string `json:"note,omitempty"`
	} `json:"spec"`
}

func (timerV3) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v3", Kind: "Timer"} }

// hooked is a real API server, and the webhook that it calls.
type hooked struct {
	client           *kube.Client
	namespace, group string
	address          string
	calls            atomic.Int64
	failing          atomic.Bool
}

func hookedServer(t *testing.T) *hooked {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client, err := kube.Config{Rest: cluster.Config(), FieldManager: "pintle-test",
		Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	h := &hooked{client: client, namespace: cluster.Namespace(t), address: testport.Address(t)}
	h.group = h.namespace + ".pintle.test"
	return h
}

func kindOf(group, version string) kube.Kind {
	return kube.Kind{GVK: kube.GVK{Group: group, Version: version, Kind: "Timer"}}
}

func optionsOf(group, version string) crd.Options { return crd.Options{Kind: kindOf(group, version)} }

// serve begins to answer the API server for definitions.
func (h *hooked) serve(t *testing.T, definitions ...*crd.Definition) {
	t.Helper()
	handler, err := handleConversions(Options{Logger: slog.New(slog.DiscardHandler)}, definitions...)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		if h.failing.Load() {
			http.Error(w, "failing", http.StatusInternalServerError)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	if server.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", h.address); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
}

// direct makes the API server ask this process for conversions. The certificate is that of every server of
// httptest.
func (h *hooked) direct(t *testing.T, d *crd.Definition) *crd.Definition {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	url := "https://" + h.address + "/convert"
	d.Spec.Conversion.Webhook.ClientConfig = &crd.WebhookClientConfig{URL: &url, CABundle: pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	return d
}

func (h *hooked) install(t *testing.T, d *crd.Definition) {
	t.Helper()
	t.Cleanup(func() { _ = kube.For[crd.Definition](h.client).Delete(context.Background(), "timers."+h.group) })
	if err := crd.Install(briefly(t), h.client, d); err != nil {
		t.Fatal(err)
	}
}

// briefly returns a context for calls that must not take long.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// v1, v2 and v3 return the objects in a version.
func (h *hooked) v1() kube.Resource[timerV1] {
	return kube.For[timerV1](h.client, kindOf(h.group, "v1")).In(h.namespace)
}

func (h *hooked) v2() kube.Resource[timer] {
	return kube.For[timer](h.client, kindOf(h.group, "v2")).In(h.namespace)
}

func (h *hooked) v3() kube.Resource[timerV3] {
	return kube.For[timerV3](h.client, kindOf(h.group, "v3")).In(h.namespace)
}

func fromV1(from *timer, to *timerV1) error {
	to.Spec.Cron = from.Spec.Schedule
	return nil
}

// definition stores timers in v2, and serves the other versions too.
func (h *hooked) definition(t *testing.T, three bool) *crd.Definition {
	t.Helper()
	others := []*crd.Definition{crd.Converts(crd.Of[timerV1](optionsOf(h.group, "v1")), toV2, fromV1)}
	if three {
		others = append(others, crd.Converts(crd.Of[timerV3](optionsOf(h.group, "v3")),
			func(from *timerV3, to *timer) error { to.Spec.Schedule = from.Spec.When; return nil },
			func(from *timer, to *timerV3) error { to.Spec.When = from.Spec.Schedule; return nil }))
	}
	d := crd.Join(crd.Of[timer](optionsOf(h.group, "v2")), others...)
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return h.direct(t, d)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A program installs the definition whose functions it serves itself, later, while objects are stored in
// the old version. Then users of each version see what the others write.
func TestConversionOnServer(t *testing.T) {
	h := hookedServer(t)
	h.install(t, crd.Of[timerV1](optionsOf(h.group, "v1")))
	old := &timerV1{}
	old.Name, old.Spec.Cron = "old", "1"
	_, err := h.v1().Create(briefly(t), old)
	ok(t, err)
	d := h.definition(t, false)
	h.install(t, d)
	h.serve(t, d)

	shown, err := h.v2().Get(briefly(t), "old")
	for apiBusy(err) { // the API server tried in vain before the handler was there
		time.Sleep(100 * time.Millisecond)
		shown, err = h.v2().Get(briefly(t), "old")
	}
	ok(t, err)
	if shown.Spec.Schedule != "1" {
		t.Errorf("stored in v1, read in v2: %+v", shown.Spec)
	}

	// A write through v1 keeps the zone, and the notes stay out of storage.
	made := &timer{}
	made.Name, made.Spec.Schedule, made.Spec.Zone = "a", "2", "UTC"
	_, err = h.v2().Create(briefly(t), made)
	ok(t, err)
	_, err = h.v1().Modify(briefly(t), "a", func(o *timerV1) error { o.Spec.Cron = "3"; return nil })
	ok(t, err)
	shown, err = h.v2().Get(briefly(t), "a")
	ok(t, err)
	if shown.Spec.Schedule != "3" || shown.Spec.Zone != "UTC" || len(shown.Annotations) > 0 {
		t.Errorf("written in v1, read in v2: %+v %v", shown.Spec, shown.Annotations)
	}

	// An apply in v1 beside an apply of another manager in v2.
	zone := `{"apiVersion":"` + h.group + `/v2","kind":"Timer","metadata":{"name":"b"},` +
		`"spec":{"schedule":"4","zone":"CET"}}`
	_, err = h.v2().Patch(briefly(t), "b", types.ApplyYAMLPatchType, []byte(zone))
	ok(t, err)
	applied := &timerV1{}
	applied.Name, applied.Spec.Cron = "b", "5"
	users := h.v1().With(kube.WriteOptions{FieldManager: "user"})
	_, err = users.Apply(briefly(t), applied)
	ok(t, err)
	shown, err = h.v2().Get(briefly(t), "b")
	ok(t, err)
	if shown.Spec.Schedule != "5" || shown.Spec.Zone != "CET" || len(shown.ManagedFields) != 2 {
		t.Errorf("applied in v1, read in v2: %+v %v", shown.Spec, shown.ManagedFields)
	}
	// The first manager gives its zone up, in v2.
	_, err = h.v2().Patch(briefly(t), "b", types.ApplyYAMLPatchType, []byte(strings.Replace(
		strings.Replace(zone, `,"zone":"CET"`, "", 1), `"4"`, `"5"`, 1)))
	ok(t, err)
	shown, err = h.v2().Get(briefly(t), "b")
	ok(t, err)
	if shown.Spec.Zone != "" {
		t.Errorf("the zone stayed: %+v", shown.Spec)
	}

	// Lists and watches in v1.
	crons := map[string]string{}
	for o, err := range h.v1().List(briefly(t)) {
		ok(t, err)
		crons[o.Name] = o.Spec.Cron
	}
	if len(crons) != 3 || crons["old"] != "1" || crons["a"] != "3" || crons["b"] != "5" {
		t.Errorf("list in v1: %v", crons)
	}
	_, err = h.v1().Until(briefly(t), "a", func(o *timerV1) bool {
		if o.Spec.Cron == "3" {
			_, err := h.v2().Modify(briefly(t), "a", func(o *timer) error { o.Spec.Schedule = "6"; return nil })
			ok(t, err)
		}
		return o.Spec.Cron == "6"
	})
	ok(t, err)

	// What a function refuses is the user's error. Nothing is stored.
	refused := &timerV1{}
	refused.Name, refused.Spec.Cron = "refused", "refuse"
	if _, err := h.v1().Create(briefly(t), refused); err == nil || !strings.Contains(err.Error(), "no such schedule") {
		t.Errorf("refused: %v", err)
	}
}

func apiBusy(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "initializing") || strings.Contains(err.Error(), "refused"))
}

// While the hook fails, the storage version works.
func TestConversionFailsOnServer(t *testing.T) {
	h := hookedServer(t)
	d := h.definition(t, false)
	h.serve(t, d)
	h.install(t, d)
	made := &timer{}
	made.Name, made.Spec.Schedule = "a", "1"
	_, err := h.v2().Create(briefly(t), made)
	ok(t, err)
	h.failing.Store(true)
	if _, err := h.v1().Get(briefly(t), "a"); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		t.Errorf("v1 without the hook: %v", err)
	}
	before := h.calls.Load()
	_, err = h.v2().Get(briefly(t), "a")
	ok(t, err)
	for _, err := range h.v2().List(briefly(t)) {
		ok(t, err)
	}
	_, err = h.v2().Modify(briefly(t), "a", func(o *timer) error { o.Spec.Schedule = "2"; return nil })
	ok(t, err)
	ok(t, h.v2().Delete(briefly(t), "a"))
	t.Logf("%d calls", h.calls.Load()-before)
}

// Three versions see each other's objects, and each keeps what is its own.
func TestThreeVersionsOnServer(t *testing.T) {
	h := hookedServer(t)
	d := h.definition(t, true)
	h.serve(t, d)
	h.install(t, d)
	made := &timerV3{}
	made.Name, made.Spec.When, made.Spec.Note = "a", "1", "n"
	_, err := h.v3().Create(briefly(t), made)
	ok(t, err)
	_, err = h.v2().Modify(briefly(t), "a", func(o *timer) error { o.Spec.Zone = "UTC"; return nil })
	ok(t, err)
	_, err = h.v1().Modify(briefly(t), "a", func(o *timerV1) error { o.Spec.Cron = "2"; return nil })
	ok(t, err)
	third, err := h.v3().Get(briefly(t), "a")
	ok(t, err)
	second, err := h.v2().Get(briefly(t), "a")
	ok(t, err)
	if third.Spec.When != "2" || third.Spec.Note != "n" || second.Spec.Schedule != "2" || second.Spec.Zone != "UTC" {
		t.Errorf("%+v %+v", third.Spec, second.Spec)
	}
}
