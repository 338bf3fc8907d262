package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/apitest"
	"github.com/pintle-go/pintle/kube"
)

// server plays an API server for Events.
type server struct {
	mu       sync.Mutex
	events   map[string]*eventsv1.Event
	requests int
	// fault answers a request in place of the server, unless it returns neither an answer
	// nor an error. If late is set, the request is executed first.
	fault func(*http.Request) (*http.Response, error)
	late  bool
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests++
	fault, late := s.fault, s.late
	s.mu.Unlock()
	if fault != nil && !late {
		if resp, err := fault(r); resp != nil || err != nil {
			return resp, err
		}
	}
	resp := s.answer(r, body)
	if fault != nil && late {
		return fault(r)
	}
	return resp, nil
}

func (s *server) answer(r *http.Request, body []byte) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	if r.Method == http.MethodPost {
		o := new(eventsv1.Event)
		apitest.Decode(body, o)
		if s.events[o.Name] != nil {
			return apitest.Refuse(r, apierrors.NewAlreadyExists(resource, o.Name))
		}
		s.events[o.Name] = o
		return apitest.Respond(r, http.StatusCreated, o)
	}
	o := s.events[path.Base(r.URL.Path)]
	if o == nil {
		return apitest.Refuse(r, apierrors.NewNotFound(resource, "gone"))
	}
	if err := json.Unmarshal(body, o); err != nil {
		panic(err)
	}
	return apitest.Respond(r, http.StatusOK, o)
}

func (s *server) set(fault func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// all returns the Events as reason×count.
func (s *server) all() map[string]int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]int32{}
	for _, e := range s.events {
		n := int32(1)
		if e.Series != nil {
			n = e.Series.Count
		}
		found[e.Reason+" "+e.Regarding.Name] += n
	}
	return found
}

// recording runs a test in virtual time beside a running recorder. The function stop ends
// the recorder.
func recording(t *testing.T, test func(t *testing.T, s *server, r *Recorder, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{events: map[string]*eventsv1.Event{}}
		client, err := kube.Config{Rest: &rest.Config{Host: "http://server", Transport: s}}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		r := &Recorder{Client: client, Controller: "example.com/echo", Logger: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
			t.Log(log.String())
		})
		defer stop()
		test(t, s, r, stop)
	})
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid"},
	}
}

func expect(t *testing.T, s *server, want map[string]int32) {
	t.Helper()
	if got := s.all(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the server has %v, want %v", got, want)
	}
}

func TestEventsAreWrittenAndCounted(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		r.Normal(pod("a"), "Started", "once")
		time.Sleep(time.Millisecond)
		expect(t, s, map[string]int32{"Started a": 1})
		for range 99 {
			r.Normal(pod("a"), "Started", "once")
		}
		time.Sleep(21 * time.Second)
		expect(t, s, map[string]int32{"Started a": 100})
		if n := s.count(); n != 2 {
			t.Errorf("%d requests", n)
		}
		r.Normal(pod("a"), "Started", "once")
		r.Warning(pod("b"), "Failed", "why: %d", 5)
		stop()
		expect(t, s, map[string]int32{"Started a": 101, "Failed b": 1})
	})
}

func TestServerIsAway(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		s.set(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
		for i := range 10 {
			for range 10 {
				r.Normal(pod(fmt.Sprint(i)), "Started", "x")
			}
		}
		time.Sleep(3 * time.Minute)
		if n := s.count(); n > 20 {
			t.Errorf("%d requests to a server that is away", n)
		}
		s.set(nil)
		time.Sleep(2 * time.Minute)
		for name, n := range s.all() {
			if n != 10 {
				t.Errorf("%s: %d", name, n)
			}
		}
		if len(s.all()) != 10 {
			t.Errorf("%d events", len(s.all()))
		}
	})
}

func TestAnswersAreLost(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		s.mu.Lock()
		s.late = true
		s.mu.Unlock()
		s.set(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") })
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(100 * time.Millisecond)
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(100 * time.Millisecond)
		s.set(nil)
		time.Sleep(time.Minute)
		expect(t, s, map[string]int32{"Started a": 2})
	})
}

func TestRefusals(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		s.set(func(req *http.Request) (*http.Response, error) {
			return apitest.Refuse(req, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))), nil
		})
		for i := range 5 {
			r.Normal(pod(fmt.Sprint(i)), "Started", "x")
		}
		time.Sleep(time.Minute)
		if n := s.count(); n != 5 {
			t.Errorf("%d requests: a forbidden request is not retried", n)
		}
		s.set(nil)
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(time.Minute)
		expect(t, s, map[string]int32{"Started a": 1})
	})
}

func TestServerHasForgotten(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(time.Second)
		s.mu.Lock()
		clear(s.events)
		s.mu.Unlock()
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(time.Minute)
		expect(t, s, map[string]int32{"Started a": 2})
	})
}

func TestHungServerDoesNotHoldUp(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		s.set(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		begun := time.Now()
		for i := range 20000 {
			r.Normal(pod(fmt.Sprint(i)), "Started", "x")
		}
		if took := time.Since(begun); took > 0 { // in virtual time: nothing waited
			t.Errorf("recording took %s", took)
		}
		time.Sleep(time.Minute)
		begun = time.Now()
		stop()
		if took := time.Since(begun); took > defaultGrace+time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

func TestBadEvents(t *testing.T) {
	var log bytes.Buffer
	r := &Recorder{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	r.Normal(nil, "Reason", "x")
	r.Normal(pod("a"), "not a word", "x")
	r.Normal(pod("a"), strings.Repeat("R", 129), "x")
	r.Normal(&corev1.Pod{}, "Reason", "x")
	r.Normal((*corev1.Pod)(nil), "Reason", "x")
	r.Failure((*corev1.Pod)(nil), time.Time{}, "Reason", errors.New("x"))
	if n := strings.Count(log.String(), "cannot record an event"); n != 6 {
		t.Errorf("%d of 6 are logged:\n%s", n, log.String())
	}
	r.Record(Event{Regarding: pod("a"), Related: (*corev1.Pod)(nil), Reason: "Reason"})
	if len(r.state.series) != 1 {
		t.Error("an event whose related object is nil is not recorded")
	}
	t.Log(log.String())
	for _, r := range []*Recorder{{}, {Client: new(kube.Client)}, {Client: new(kube.Client), Controller: "a b"}} {
		if err := r.Run(t.Context()); err == nil {
			t.Errorf("a recorder of %+v runs", r.Controller)
		} else {
			t.Log(err)
		}
	}
}

// recordsLines is a log handler that records each line as an event.
type recordsLines struct {
	slog.Handler
	r *Recorder
}

func (recordsLines) Enabled(context.Context, slog.Level) bool { return true }

func (h recordsLines) Handle(_ context.Context, line slog.Record) error {
	h.r.Warning(pod("log"), "Logged", "%s", line.Message)
	return nil
}

// A log handler may record events. The recorder logs to it that events were dropped, that
// writes fail and that writes succeed again.
func TestLogHandlerRecordsEvents(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		r.Logger = slog.New(recordsLines{slog.DiscardHandler, r})
		time.Sleep(reportAfter)
		s.set(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
		for i := range 2 * tokens {
			r.Normal(pod("a"), "Started", "%d", i)
		}
		time.Sleep(10 * time.Minute)
		s.set(nil)
		time.Sleep(10 * time.Minute)
		if found := s.all(); found["Logged log"] < 3 {
			t.Errorf("the server has %v", found)
		}
	})
}

// A recorder may run again after it has ended, as in a program that runs its controllers
// again after it has lost its lease.
func TestRunAgain(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		r.Normal(pod("a"), "Started", "x")
		stop()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second)
		r.Normal(pod("b"), "Started", "x")
		time.Sleep(time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		expect(t, s, map[string]int32{"Started a": 1, "Started b": 1})
	})
}
