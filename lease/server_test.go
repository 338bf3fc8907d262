package lease

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/apitest"
	"github.com/pintle-go/pintle/kube"
)

// server plays an API server with one Lease and a log of the created ConfigMaps, in
// virtual time.
type server struct {
	mu      sync.Mutex
	rv      int
	lease   *coordinationv1.Lease
	changed chan struct{} // closed and replaced at every change
	puts    int           // executed updates of the lease
	writes  []write
	// onWrite is called with the writer when a request leaves the process.
	onWrite func(who string)
}

func (s *server) watchWrites(f func(who string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onWrite = f
}

type write struct {
	who  string
	name string
	at   time.Time
}

func newServer() *server { return &server{rv: 100, changed: make(chan struct{})} }

// faults are the faults of one process's requests.
type faults struct {
	mu sync.Mutex
	// before is the time until a request is executed; after is the time that its answer
	// then takes.
	before, after time.Duration
	// cut reports that no request arrives. lose is the number of executed requests whose
	// answers are lost.
	cut  bool
	lose int
	// refuse is the number of updates of the lease that are refused with 409 Conflict.
	refuse int
}

func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// refuses reports whether an update is refused.
func (f *faults) refuses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse--
	return f.refuse >= 0
}

func (f *faults) take(r *http.Request) (before, after time.Duration, cut, lose bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lose = f.lose > 0 && r.Method != http.MethodGet; lose {
		f.lose--
	}
	return f.before, f.after, f.cut, lose
}

// connection connects one process with the server.
type connection struct {
	*server
	who    string
	faults faults
}

func (s *server) connect(t testing.TB, who string) (*kube.Client, *connection) {
	t.Helper()
	c := &connection{server: s, who: who}
	client, err := kube.Config{
		Rest:   &rest.Config{Host: "http://server", Transport: c},
		Logger: testLogger(t, who),
	}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return client, c
}

func testLogger(t testing.TB, who string) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, nil)).With("process", who)
}

type testWriter struct{ testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// RoundTrip sends a request. As on a real network, its execution goes on when its caller
// has stopped waiting for its answer.
func (c *connection) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	before, after, cut, lose := c.faults.take(r)
	c.mu.Lock()
	onWrite := c.onWrite
	c.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/configmaps") && onWrite != nil {
		onWrite(c.who)
	}
	answers := make(chan *http.Response, 1)
	go func() {
		time.Sleep(before)
		if cut {
			return
		}
		answer := c.answer(r, body)
		time.Sleep(after)
		if !lose {
			answers <- answer
		}
	}()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout.C:
		return nil, errors.New("connection timed out")
	}
}

func (c *connection) answer(r *http.Request, body []byte) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	switch {
	case strings.HasSuffix(r.URL.Path, "/configmaps"):
		var o metav1.PartialObjectMetadata
		apitest.Decode(body, &o)
		c.writes = append(c.writes, write{c.who, o.Name, time.Now()})
		c.rv++
		o.Kind, o.APIVersion, o.UID, o.ResourceVersion = "ConfigMap", "v1", types.UID(o.Name), strconv.Itoa(c.rv)
		return apitest.Respond(r, http.StatusCreated, &o)
	case r.URL.Query().Get("watch") == "true":
		return c.watch(r)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases"):
		list := &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
		list.ResourceVersion = strconv.Itoa(c.rv)
		if c.lease != nil {
			list.Items = append(list.Items, *c.lease)
		}
		return apitest.Respond(r, http.StatusOK, list)
	case r.Method == http.MethodPost && c.lease != nil:
		return apitest.Refuse(r, apierrors.NewAlreadyExists(resource, c.lease.Name))
	case r.Method == http.MethodPost:
		var o coordinationv1.Lease
		apitest.Decode(body, &o)
		o.UID = types.UID("uid-" + strconv.Itoa(c.rv))
		c.put(&o)
		return apitest.Respond(r, http.StatusCreated, c.lease)
	case c.lease == nil:
		return apitest.Refuse(r, apierrors.NewNotFound(resource, "one"))
	case r.Method == http.MethodPut:
		var o coordinationv1.Lease
		apitest.Decode(body, &o)
		if o.ResourceVersion != c.lease.ResourceVersion || o.UID != c.lease.UID || c.faults.refuses() {
			return apitest.Refuse(r, apierrors.NewConflict(resource, o.Name, errors.New("it was changed")))
		}
		c.puts++
		c.put(&o)
		return apitest.Respond(r, http.StatusOK, c.lease)
	case r.Method == http.MethodGet:
		return apitest.Respond(r, http.StatusOK, c.lease)
	}
	return apitest.Refuse(r, apierrors.NewMethodNotSupported(resource, r.Method))
}

// put is called with mu held.
func (s *server) put(o *coordinationv1.Lease) {
	if o != nil {
		s.rv++
		o = o.DeepCopy()
		o.Kind, o.APIVersion, o.ResourceVersion = "Lease", "coordination.k8s.io/v1", strconv.Itoa(s.rv)
	}
	s.lease = o
	close(s.changed)
	s.changed = make(chan struct{})
}

// edit changes the lease as kubectl edit would.
func (s *server) edit(change func(*coordinationv1.Lease) *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(change(s.lease.DeepCopy()))
}

// current returns the current lease.
func (s *server) current() *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// watch sends the states of the lease, merged, with a bookmark every minute.
func (s *server) watch(r *http.Request) *http.Response {
	was, changed := s.lease, s.changed
	if r.URL.Query().Get("resourceVersion") != strconv.Itoa(s.rv) {
		was = nil
	}
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
	send := func(kind string, o any) bool {
		line, _ := json.Marshal(map[string]any{"type": kind, "object": o})
		_, err := writer.Write(line)
		return err == nil
	}
	go func() {
		for {
			s.mu.Lock()
			now, rv := s.lease, s.rv
			changed = s.changed
			s.mu.Unlock()
			ok := true
			switch {
			case was != nil && (now == nil || now.UID != was.UID):
				gone := was.DeepCopy()
				gone.ResourceVersion = strconv.Itoa(rv)
				ok = send("DELETED", gone)
				was = nil
				if now != nil {
					continue
				}
			case now != nil && was == nil:
				ok = send("ADDED", now)
			case now != nil && now.ResourceVersion != was.ResourceVersion:
				ok = send("MODIFIED", now)
			}
			was = now
			if !ok {
				return
			}
			select {
			case <-changed:
			case <-time.After(time.Minute):
				mark := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}}
				mark.ResourceVersion = strconv.Itoa(rv)
				if !send("BOOKMARK", mark) {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}()
	return apitest.Stream(r, http.StatusOK, reader)
}
