package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// gizmo is a kind of the played server.
type gizmo struct {
	kube.Object
	Spec struct {
		Size int `json:"size"`
	} `json:"spec"`
	Status gizmoStatus `json:"status,omitzero"`
}

type gizmoStatus struct {
	Seen       int                `json:"seen"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (gizmo) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Gizmo"} }

// played plays an API server that has gizmos, as an http.RoundTripper, so that tests run
// in virtual time. It is no more exact than its tests need: tests that depend on a
// server's answers use a real server.
type played struct {
	mu      sync.Mutex
	rv      int
	gizmos  map[string]*gizmo
	history []playedEvent
	changed chan struct{} // closed, and replaced, at every change
	// requests are the requests so far, as "PATCH /path".
	requests []string
	// arrive, if it is set, is called with every request before it is answered.
	arrive func(*http.Request)
}

// playedEvent is a change of a gizmo. One of was and is is nil for a gizmo that came or went.
type playedEvent struct {
	rv      int
	was, is *gizmo
}

// line returns the event as a watch of the gizmos that a selector picks sends it, nothing
// if the watch has no such event.
func (ev playedEvent) line(picks labels.Selector) []byte {
	picked := func(g *gizmo) bool { return g != nil && picks.Matches(labels.Set(g.Labels)) }
	kind, g := kube.Modified, ev.is
	switch was, is := picked(ev.was), picked(ev.is); {
	case is && !was:
		kind = kube.Added
	case was && !is:
		gone := *ev.was
		gone.ResourceVersion = strconv.Itoa(ev.rv)
		kind, g = kube.Deleted, &gone
	case !is:
		return nil
	}
	line, _ := json.Marshal(map[string]any{"type": kind, "object": onWire(g)})
	return append(line, '\n')
}

func newPlayed() *played {
	return &played{gizmos: make(map[string]*gizmo), changed: make(chan struct{}), rv: 10}
}

const playedPath = "/apis/example.com/v1/namespaces/default/gizmos"

// put creates a gizmo or changes it.
func (s *played) put(name string, change func(*gizmo)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, known := s.gizmos[name]
	if !known {
		g = new(gizmo)
		g.APIVersion, g.Kind = "example.com/v1", "Gizmo"
		g.Namespace, g.Name, g.UID = "default", name, types.UID(fmt.Sprint("uid-", s.rv))
		g.Generation = 1
	}
	s.store(g, !known, change)
}

func (s *played) gizmo(name string) *gizmo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gizmos[name]
}

// store applies a change and sends it to the watches. It is called with mu held.
func (s *played) store(was *gizmo, added bool, change func(*gizmo)) *gizmo {
	now := *was
	now.Status.Conditions = slices.Clone(was.Status.Conditions)
	change(&now)
	before, _ := json.Marshal(was)
	after, _ := json.Marshal(&now)
	if !added && bytes.Equal(before, after) {
		return was
	}
	if now.Spec != was.Spec && !added {
		now.Generation++
	}
	s.rv++
	now.ResourceVersion = strconv.Itoa(s.rv)
	s.gizmos[now.Name] = &now
	if added {
		was = nil
	}
	s.tell(was, &now)
	return &now
}

func (s *played) delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name)
}

// erase deletes a gizmo as a user does: its finalizers keep it.
func (s *played) erase(name string) {
	if len(s.gizmo(name).Finalizers) == 0 {
		s.delete(name)
		return
	}
	now := metav1.Now()
	s.put(name, func(g *gizmo) { g.DeletionTimestamp = &now })
}

// remove deletes a gizmo. It is called with mu held.
func (s *played) remove(name string) {
	g := s.gizmos[name]
	delete(s.gizmos, name)
	s.rv++
	s.tell(g, nil)
}

func (s *played) tell(was, is *gizmo) {
	s.history = append(s.history, playedEvent{s.rv, was, is})
	close(s.changed)
	s.changed = make(chan struct{})
}

// count returns the number of requests that begin with a text.
func (s *played) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (s *played) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if s.arrive != nil {
		s.arrive(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	path := r.URL.Path
	if path == "/apis/example.com/v1/gizmos" {
		path = playedPath // all gizmos are in one namespace
	}
	picks, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(strings.TrimPrefix(path, playedPath), "/")
	name, sub, _ := strings.Cut(name, "/")
	g := s.gizmos[name]
	switch {
	case r.URL.Path == "/apis/example.com/v1":
		return s.answer(200, map[string]any{"kind": "APIResourceList",
			"resources": []any{map[string]any{"name": "gizmos", "kind": "Gizmo", "namespaced": true}}})
	case r.URL.Query().Get("watch") == "true":
		from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		body, w := io.Pipe()
		go s.watch(r.Context(), w, from, picks)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
	case r.Method == http.MethodGet && name == "":
		items := []any{}
		for _, name := range slices.Sorted(maps.Keys(s.gizmos)) {
			if picks.Matches(labels.Set(s.gizmos[name].Labels)) {
				items = append(items, onWire(s.gizmos[name]))
			}
		}
		return s.answer(200, map[string]any{
			"apiVersion": "example.com/v1", "kind": "GizmoList",
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.rv)}, "items": items,
		})
	case r.Method == http.MethodPost, r.Method == http.MethodPatch && sub == "" && r.Header.Get("Content-Type") == applied:
		body, _ := io.ReadAll(r.Body)
		return s.write(r.URL.Query().Get("fieldManager"), r.Method == http.MethodPost, body)
	case g == nil:
		return s.answer(404, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 404,
			Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Name: name, Kind: "gizmos"}})
	case r.Method == http.MethodGet:
		return s.answer(200, onWire(g))
	case r.Method == http.MethodDelete:
		s.remove(name)
		return s.answer(200, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: name, UID: g.UID}})
	case r.Method == http.MethodPatch && sub == "status":
		body, _ := io.ReadAll(r.Body)
		var patch gizmo
		if err := json.Unmarshal(body, &patch); err != nil {
			return nil, err
		}
		managed, err := managedBy(r.URL.Query().Get("fieldManager"), body)
		if err != nil {
			return nil, err
		}
		return s.answer(200, onWire(s.store(g, false, func(g *gizmo) { g.Status, g.ManagedFields = patch.Status, managed })))
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.JSONPatchType):
		body, _ := io.ReadAll(r.Body)
		return s.finalize(g, body)
	}
	return s.answer(405, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 405,
		Reason: metav1.StatusReasonMethodNotAllowed})
}

const applied = "application/apply-patch+yaml"

// write answers a create, or an apply of a gizmo without its status. It is called with mu held.
func (s *played) write(manager string, create bool, body []byte) (*http.Response, error) {
	var sent gizmo
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	g, known := s.gizmos[sent.Name]
	if known && create {
		return s.answer(409, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 409,
			Reason: metav1.StatusReasonAlreadyExists})
	}
	if !known {
		g = new(gizmo)
		g.APIVersion, g.Kind, g.Generation = "example.com/v1", "Gizmo", 1
		g.Namespace, g.Name, g.UID = "default", sent.Name, types.UID(fmt.Sprint("uid-", s.rv))
	}
	return s.answer(200, onWire(s.store(g, !known, func(g *gizmo) {
		g.Spec, g.OwnerReferences = sent.Spec, sent.OwnerReferences
		g.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:size":{}}}`),
		}}
	})))
}

// finalize answers a JSON patch of the finalizers. It is called with mu held.
func (s *played) finalize(g *gizmo, body []byte) (*http.Response, error) {
	var patch []struct{ Path, Value any }
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	if len(patch) != 3 || patch[0].Value != string(g.UID) || patch[1].Value != g.ResourceVersion {
		return s.answer(422, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 422,
			Reason: metav1.StatusReasonInvalid})
	}
	now := s.store(g, false, func(g *gizmo) {
		g.Finalizers = nil
		for _, name := range patch[2].Value.([]any) {
			g.Finalizers = append(g.Finalizers, name.(string))
		}
	})
	if now.DeletionTimestamp != nil && len(now.Finalizers) == 0 {
		s.remove(now.Name)
	}
	return s.answer(200, onWire(now))
}

// onWire returns an object as a server sends it: a status that was applied is present
// even if it is all zero.
func onWire(g *gizmo) any {
	if g.Annotations[unreadableAnnotation] != "" {
		return map[string]any{
			"apiVersion": g.APIVersion, "kind": g.Kind, "metadata": g.ObjectMeta, "spec": map[string]any{"size": "many"},
		}
	}
	if len(g.ManagedFields) == 0 {
		return g
	}
	return struct {
		*gizmo
		Status gizmoStatus `json:"status"`
	}{g, g.Status}
}

// unreadableAnnotation makes the server send a gizmo that does not decode.
const unreadableAnnotation = "example.com/unreadable"

// managedBy returns the managedFields of an object whose status was applied.
func managedBy(manager string, body []byte) ([]metav1.ManagedFieldsEntry, error) {
	var applied struct{ Status map[string]any }
	if err := json.Unmarshal(body, &applied); err != nil {
		return nil, err
	}
	managed := []metav1.ManagedFieldsEntry{{Manager: "user", Operation: metav1.ManagedFieldsOperationUpdate}}
	if len(applied.Status) == 0 {
		return managed, nil
	}
	fields := make(map[string]any)
	for name := range applied.Status {
		fields["f:"+name] = struct{}{}
	}
	raw, err := json.Marshal(map[string]any{"f:status": fields})
	return append(managed, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: "status",
		FieldsV1: metav1.NewFieldsV1(string(raw)),
	}), err
}

func (s *played) answer(code int, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// watch sends the changes after a resourceVersion of the gizmos that a selector picks,
// until ctx ends.
func (s *played) watch(ctx context.Context, w *io.PipeWriter, from int, picks labels.Selector) {
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	for {
		s.mu.Lock()
		var lines []byte
		for _, ev := range s.history {
			if ev.rv > from {
				lines, from = append(lines, ev.line(picks)...), ev.rv
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if _, err := w.Write(lines); err != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Minute):
			w.Close()
			return
		}
	}
}

// stage is a played server with a controller, in virtual time.
type stage struct {
	*testing.T
	*played
	gizmos kube.Resource[gizmo]
	log    *logs
	begun  time.Time

	mu   sync.Mutex
	runs []ran
}

// ran is a reconcile that has run.
type ran struct {
	at     time.Duration
	name   string
	causes []Cause
}

func onStage(t *testing.T, test func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := newPlayed()
		test(newStage(t, server, server))
	})
}

func newStage(t *testing.T, server *played, transport http.RoundTripper) *stage {
	t.Helper()
	s := &stage{T: t, played: server, log: new(logs), begun: time.Now()}
	s.gizmos = s.connect(transport)
	return s
}

// connect returns the gizmos by a client of its own.
func (s *stage) connect(transport http.RoundTripper) kube.Resource[gizmo] {
	s.Helper()
	config := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: transport}, Logger: slog.New(s.log)}
	client, err := config.Connect()
	if err != nil {
		s.Fatal(err)
	}
	return kube.For[gizmo](client).In("default")
}

// start runs a controller and notes its reconciles.
func (s *stage) start(o Options, c Controller[gizmo]) (stop func() error) {
	s.Helper()
	f := c.Reconcile
	c.For, c.Reconcile = s.gizmos, func(ctx context.Context, g *gizmo) (Action, error) {
		s.mu.Lock()
		s.runs = append(s.runs, ran{time.Since(s.begun), g.Name, Causes(ctx)})
		s.mu.Unlock()
		return f(ctx, g)
	}
	return s.run(o, c)
}

// run runs controllers.
func (s *stage) run(o Options, c ...Any) (stop func() error) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	o.Logger = slog.New(s.log)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, c...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.Cleanup(func() {
		if err := stop(); err != nil {
			s.Error(err)
		}
	})
	synctest.Wait()
	return stop
}

// ran returns the reconciles of a gizmo, all of them if the name is empty.
func (s *stage) ran(name string) (runs []ran) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if name == "" || r.name == name {
			runs = append(runs, r)
		}
	}
	return runs
}

// reasons returns the reasons of a reconcile.
func (r ran) reasons() (reasons []Reason) {
	for _, c := range r.causes {
		reasons = append(reasons, c.Reason)
	}
	return reasons
}

// sleep lets time pass.
func (s *stage) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
