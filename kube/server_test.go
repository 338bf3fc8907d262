package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube/internal/wire/wiretest"
)

// apiServer plays an API server for ConfigMaps and widgets. It is an http.RoundTripper,
// so that tests run in virtual time. It keeps its whole history, and can forget the
// beginning of it.
type apiServer struct {
	mu      sync.Mutex
	rv      int64
	uids    int
	objects map[Key]modelObject
	history []modelChange
	// oldest is the oldest resource version from which a watch can begin.
	oldest  int64
	changed chan struct{} // closed, and replaced, at every change
	cut     chan struct{} // closed, and replaced, to cut all watches
	// repeats counts how often watches were made to repeat their events, from some number
	// of versions back on.
	repeats int
	back    int64
	// held stops watches from showing anything later than a version.
	held int64
	// noStream: the server ignores sendInitialEvents.
	noStream bool
	// jsonOnly: the server does not support protobuf.
	jsonOnly  bool
	bookmarks time.Duration
	requests  []*http.Request
	// intercept answers a request instead of the server, unless it returns neither an
	// answer nor an error.
	intercept func(n int, r *http.Request) (*http.Response, error)
}

type modelObject struct {
	key    Key
	uid    types.UID
	rv     int64
	labels map[string]string
	owner  types.UID
	note   string
	extra  metav1.ObjectMeta // finalizers and deletion
}

// modelChange is a step of history. A deletion has no now.
type modelChange struct {
	rv       int64
	was, now *modelObject
}

func newAPIServer() *apiServer {
	return &apiServer{objects: make(map[Key]modelObject), changed: make(chan struct{}), cut: make(chan struct{}), rv: 100,
		held: 1 << 60, bookmarks: time.Minute}
}

// widget is a kind without protobuf.
type widget struct {
	Object
	Spec struct {
		Note string `json:"note,omitempty"`
		Size int    `json:"size,omitempty"`
	} `json:"spec"`
}

var widgetKind = Kind{GVK: GVK{Group: "example.com", Version: "v1", Kind: "Widget"}, Plural: "widgets",
	Scope: Namespaced}

// noteView is a view of ConfigMaps.
type noteView struct {
	Object
	Data map[string]string `json:"data"`
}

// client returns a client of the server whose log goes to the test.
func (s *apiServer) client(t testing.TB) *Client {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	c, err := Config{Rest: restTo(s), Logger: log}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func restTo(s *apiServer) *rest.Config { return &rest.Config{Host: "http://server", Transport: s} }

type testWriter struct{ testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// put creates or changes an object.
func (s *apiServer) put(key Key, note string, set ...func(*modelObject)) modelObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	var was *modelObject
	if ok {
		before := o
		was = &before
	} else {
		s.uids++
		o = modelObject{key: key, uid: types.UID(fmt.Sprintf("uid-%d", s.uids))}
	}
	o.note = note
	for _, f := range set {
		f(&o)
	}
	s.rv++
	o.rv = s.rv
	s.objects[key] = o
	s.record(modelChange{s.rv, was, &o})
	return o
}

func (s *apiServer) remove(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		return
	}
	delete(s.objects, key)
	s.rv++
	s.record(modelChange{s.rv, &o, nil})
}

func (s *apiServer) record(c modelChange) {
	s.history = append(s.history, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// cutWatches breaks all connections of watches.
func (s *apiServer) cutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// forget drops the history up to now, so that watches from earlier versions get 410.
func (s *apiServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	s.oldest = s.rv
}

// loseHistory ends a hold in such a way that the watches can only list again.
func (s *apiServer) loseHistory() {
	s.forget()
	s.cutWatches()
	synctest.Wait()
	s.release()
}

// hold stops watches from showing anything later than now; release ends the hold.
func (s *apiServer) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = s.rv
}

func (s *apiServer) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = 1 << 60
	close(s.changed)
	s.changed = make(chan struct{})
}

// repeat makes all watches repeat the events of the latest versions.
func (s *apiServer) repeat(versions int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeats++
	s.back = versions
	close(s.changed)
	s.changed = make(chan struct{})
}

// at returns the objects at a resource version.
func (s *apiServer) at(rv int64) map[Key]modelObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := make(map[Key]modelObject)
	for _, c := range s.history {
		switch {
		case c.rv > rv:
			return state
		case c.now == nil:
			delete(state, c.was.key)
		default:
			state[c.now.key] = *c.now
		}
	}
	return state
}

// paths returns the requests so far, as "list /path?query" and "watch …".
func (s *apiServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, r := range s.requests {
		q := r.URL.Query()
		verb := strings.ToLower(r.Method)
		switch {
		case q.Get("watch") == "true" && q.Get("sendInitialEvents") == "true":
			verb = "stream"
		case q.Get("watch") == "true":
			verb = "watch " + q.Get("resourceVersion")
		case r.Method == http.MethodGet:
			verb = "list"
			if q.Get("limit") != "" {
				verb = "page " + q.Get("continue")
			}
		}
		list = append(list, strings.TrimSpace(verb))
	}
	return list
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests = append(s.requests, r)
	n := len(s.requests)
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil {
		resp, err := intercept(n, r)
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
			return nil, err // nothing was sent
		}
		sent(r)
		if resp != nil || err != nil {
			return resp, err
		}
	}
	sent(r)
	return s.serve(r)
}

// sent tells the client, as a transport does, that the server may have seen r.
func sent(r *http.Request) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
}

func (s *apiServer) serve(r *http.Request) (*http.Response, error) {
	namespace, name := "", ""
	parts := strings.Split(r.URL.Path, "/")
	for i, part := range parts {
		if part == "namespaces" && i+1 < len(parts) {
			namespace = parts[i+1]
		}
		if part == "configmaps" || part == "widgets" {
			name = strings.Join(parts[i+1:], "/")
		}
	}
	switch q := r.URL.Query(); {
	case r.Method != http.MethodGet || name != "":
		return s.one(r, Key{namespace, name})
	case q.Get("watch") == "true":
		return s.watch(r, namespace)
	}
	return s.list(r, namespace)
}

func (s *apiServer) list(r *http.Request, namespace string) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	matches := matcher(r, namespace)
	rv, after := s.rv, ""
	state := s.objects
	if token := q.Get("continue"); token != "" {
		at, key, _ := strings.Cut(token, "|")
		rv, _ = strconv.ParseInt(at, 10, 64)
		if after = key; rv < s.oldest {
			return status(http.StatusGone, metav1.StatusReasonExpired, "the continue token is too old"), nil
		}
		s.mu.Unlock()
		state = s.at(rv)
		s.mu.Lock()
	}
	keys := slices.SortedFunc(maps.Keys(state), func(a, b Key) int { return cmp.Compare(a.String(), b.String()) })
	limit, _ := strconv.Atoi(q.Get("limit"))
	var items []modelObject
	next := ""
	for _, key := range keys {
		if o := state[key]; key.String() > after && matches(&o) {
			if limit > 0 && len(items) == limit {
				next = fmt.Sprintf("%d|%s", rv, items[limit-1].key)
				break
			}
			items = append(items, o)
		}
	}
	return s.encodeList(r, rv, next, items), nil
}

func matcher(r *http.Request, namespace string) func(*modelObject) bool {
	q := r.URL.Query()
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	field, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		panic(err)
	}
	return func(o *modelObject) bool {
		for _, f := range field.Requirements() {
			is := map[string]string{
				"metadata.name": o.key.Name, "metadata.namespace": o.key.Namespace, "data.note": o.note, "data.shown": o.note,
			}
			if value, known := is[f.Field]; known && (value == f.Value) != (f.Operator != selection.NotEquals) {
				return false
			}
		}
		return (namespace == "" || o.key.Namespace == namespace) && sel.Matches(labels.Set(o.labels))
	}
}

// one serves requests for one object.
func (s *apiServer) one(r *http.Request, key Key) (*http.Response, error) {
	s.mu.Lock()
	o, ok := s.objects[key]
	s.mu.Unlock()
	if r.Method != http.MethodPost && !ok {
		st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 404,
			Reason:  metav1.StatusReasonNotFound,
			Message: key.String() + " not found", Details: &metav1.StatusDetails{Name: key.Name, Kind: "configmaps"}}
		return jsonAnswer(404, &st), nil
	}
	switch r.Method {
	case http.MethodGet:
		return s.encode(r, o), nil
	case http.MethodDelete:
		s.remove(key)
		st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success",
			Details: &metav1.StatusDetails{UID: o.uid}}
		return jsonAnswer(200, &st), nil
	}
	body, _ := io.ReadAll(r.Body)
	cm := new(corev1.ConfigMap)
	if msg, ok := wiretest.Message(body); ok {
		if err := cm.Unmarshal(msg); err != nil {
			return nil, err
		}
	} else {
		var from widget
		if err := errors.Join(json.Unmarshal(body, &from), json.Unmarshal(body, cm)); err != nil {
			return nil, err
		}
		if from.Kind != "ConfigMap" {
			cm.Data = map[string]string{"note": from.Spec.Note}
		}
	}
	key.Name = cm.Name
	o = s.put(key, cm.Data["note"], func(o *modelObject) {
		o.labels = cm.Labels
		o.extra.Finalizers = cm.Finalizers
		for _, ref := range cm.OwnerReferences {
			o.owner = ref.UID
		}
	})
	if o.extra.DeletionTimestamp != nil && len(o.extra.Finalizers) == 0 {
		s.remove(key)
	}
	return s.encode(r, o), nil
}

func status(code int, reason metav1.StatusReason, message string) *http.Response {
	return jsonAnswer(code, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Code: int32(code), Reason: reason, Message: message})
}

func jsonAnswer(code int, v any) *http.Response {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return answer(code, typeJSON, body)
}

func answer(code int, contentType string, body []byte) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}},
		Body: io.NopCloser(bytes.NewReader(body))}
}
