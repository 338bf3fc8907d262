package event

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/apitest"
)

var eventsResource = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}

// refusals are ways in which a server refuses the events of one namespace.
var refusals = map[string]answers{
	"forbidden": func(r *http.Request) (*http.Response, error) {
		return apitest.Refuse(r, apierrors.NewForbidden(eventsResource, "", errors.New("no"))), nil
	},
	"terminating": func(r *http.Request) (*http.Response, error) {
		err := apierrors.NewForbidden(eventsResource, "", errors.New("the namespace is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
		return apitest.Refuse(r, err), nil
	},
	"gone": func(r *http.Request) (*http.Response, error) {
		return apitest.Refuse(r, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "bad")), nil
	},
	"broken webhook": func(r *http.Request) (*http.Response, error) {
		return apitest.Refuse(r, apierrors.NewInternalError(errors.New("failed calling webhook"))), nil
	},
	"too many": func(r *http.Request) (*http.Response, error) {
		return apitest.Refuse(r, apierrors.NewTooManyRequestsError("later")), nil
	},
	"hangs": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
}

// answers answers requests.
type answers func(*http.Request) (*http.Response, error)

// in answers the requests of one namespace with answer, and counts them.
func in(namespace string, answer answers, count *atomic.Int32) answers {
	return func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/") {
			return nil, nil
		}
		count.Add(1)
		return answer(r)
	}
}

// Namespaces that refuse events do not delay others, cost few requests, and get their
// latest events once they accept them.
func TestNamespaceRefuses(t *testing.T) {
	for name, answer := range refusals {
		t.Run(name, func(t *testing.T) {
			recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
				var asked atomic.Int32
				s.set(in("bad", answer, &asked))
				for i := range 100 {
					bad := pod(fmt.Sprint("bad", i))
					bad.Namespace = "bad"
					r.Normal(bad, "Started", "x")
				}
				for i := range 20 {
					good := pod(fmt.Sprint("good", i))
					r.Normal(good, "Started", "x")
					time.Sleep(time.Second)
					if got := s.all()["Started "+good.Name]; got != 1 {
						t.Fatalf("an event of another namespace is not written after %d s", i+1)
					}
				}
				time.Sleep(30 * time.Minute)
				most := int32(60) // one a minute, and the first ones
				if name == "too many" {
					most *= 10 // the client repeats each request
				}
				if asked := asked.Load(); asked > most {
					t.Errorf("%d requests for a namespace that takes none", asked)
				}
				bad := pod("later")
				bad.Namespace = "bad"
				r.Normal(bad, "Started", "x")
				s.set(nil)
				time.Sleep(5 * time.Minute)
				if got := s.all()["Started later"]; got != 1 {
					t.Errorf("the namespace has %d of 1 event, though it takes them", got)
				}
			})
		})
	}
}

// The log says once that events cannot be written and once that they are written again,
// not for each namespace and try.
func TestRefusalsAreSaidOnce(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		log := new(bytes.Buffer)
		r.Logger = slog.New(slog.NewTextHandler(log, nil))
		s.set(refusals["broken webhook"])
		for i := range 100 {
			one := pod("a")
			one.Namespace = fmt.Sprint("ns-", i)
			r.Normal(one, "Started", "x")
		}
		time.Sleep(3 * time.Minute)
		s.set(nil)
		time.Sleep(10 * time.Minute)
		stop()
		warned, again := strings.Count(log.String(), "cannot write events"), strings.Count(log.String(), "succeeds again")
		if warned < 1 || warned > 4 || again != warned {
			t.Errorf("%d warnings, and %d times that it works again:\n%s", warned, again, log)
		}
		if n := len(s.all()); n != 1 || s.all()["Started a"] != 100 {
			t.Errorf("the server has %v", s.all())
		}
	})
}

// A stop does not wait for namespaces that refuse.
func TestStopWithRefusals(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		var asked atomic.Int32
		s.set(in("bad", refusals["forbidden"], &asked))
		for i := range 100 {
			bad := pod(fmt.Sprint("bad", i))
			bad.Namespace = "bad"
			r.Normal(bad, "Started", "x")
		}
		time.Sleep(10 * time.Second)
		for i := range 50 {
			r.Normal(pod(fmt.Sprint("good", i)), "Started", "x")
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %s", took)
		}
		if n := len(s.all()); n != 50 {
			t.Errorf("%d of 50 events of another namespace are written", n)
		}
	})
}

// A namespace that refuses events leaves room for the others.
func TestRoomIsShared(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		var asked atomic.Int32
		s.set(in("bad", refusals["hangs"], &asked))
		for i := range 2 * maxSeries {
			bad := pod(fmt.Sprint("bad", i))
			bad.Namespace = "bad"
			r.Normal(bad, "Started", "x")
		}
		for i := range 1000 {
			r.Normal(pod(fmt.Sprint("good", i)), "Started", "x")
		}
		time.Sleep(time.Second)
		if n := len(s.all()); n != 1000 {
			t.Errorf("%d of 1000 events of another namespace are written", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.state.series); n > maxSeries {
			t.Errorf("%d series are remembered", n)
		}
	})
}

// An event that is already being written is not sent again, in a namespace whose requests
// hang, even when the recorder stops.
func TestHangingRequestsAreNotRepeated(t *testing.T) {
	recording(t, func(t *testing.T, s *server, r *Recorder, stop func()) {
		s.set(refusals["hangs"])
		r.Normal(pod("a"), "Started", "x")
		time.Sleep(5 * time.Minute)
		s.set(nil)
		before := s.count()
		time.Sleep(3 * time.Minute)
		if n := s.count() - before; n != 1 {
			t.Errorf("%d requests for one event", n)
		}
		before = s.count()
		s.set(func(*http.Request) (*http.Response, error) { time.Sleep(time.Second); return nil, nil })
		r.Normal(pod("b"), "Started", "x")
		time.Sleep(time.Millisecond)
		stop()
		if n := s.count() - before; n != 1 {
			t.Errorf("%d requests for one event at the end", n)
		}
		expect(t, s, map[string]int32{"Started a": 1, "Started b": 1})
	})
}

// The lane whose turn it is, the next time and the fullest lane are those that a look at all lanes
// finds, whatever happened to them.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lanes
		now := time.Unix(1000, 0)
		var flying []*series
		namespace := func() string { return string(rune('a' + rapid.IntRange(0, 5).Draw(t, "namespace"))) }
		end := func(how func(*series)) {
			if len(flying) == 0 {
				t.Skip("nothing is under way")
			}
			i := rapid.IntRange(0, len(flying)-1).Draw(t, "request")
			s := flying[i]
			flying = slices.Delete(flying, i, i+1)
			how(s)
		}
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": func(*rapid.T) {
				s := new(series)
				s.regarding.Namespace = namespace()
				l.enqueue(s, now)
			},
			"next": func(t *rapid.T) {
				may := false
				for _, x := range l.byName {
					may = may || !x.busy && len(x.queue) > 0 && !now.Before(x.due)
				}
				s := l.next(now)
				if (s != nil) != may {
					t.Fatalf("next gives %v, and one may make a request: %t", s, may)
				}
				if s != nil {
					flying = append(flying, s)
				}
			},
			"done":  func(*rapid.T) { end(func(s *series) { l.done(l.of(s), now) }) },
			"rest":  func(*rapid.T) { end(func(s *series) { l.rest(l.of(s), now); l.again(s, now) }) },
			"wait":  func(t *rapid.T) { now = now.Add(time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "time"))) },
			"drop":  func(*rapid.T) { s := new(series); s.regarding.Namespace = namespace(); l.drop(l.of(s), now) },
			"sweep": func(*rapid.T) { l.sweep(now) },
			"hurry": func(*rapid.T) { l.hurry(now) },
			"": func(t *rapid.T) {
				var first time.Time
				waiting, most, queued := false, 0, 0
				for _, x := range l.byName {
					most, queued = max(most, len(x.queue)), queued+len(x.queue)
					if !x.busy && len(x.queue) > 0 && (!waiting || x.due.Before(first)) {
						first, waiting = x.due, true
					}
				}
				at, ok := l.due()
				if ok != waiting || ok && at.After(now) && !at.Equal(first) {
					t.Fatalf("due at %v (%t), want %v (%t)", at, ok, first, waiting)
				}
				if x := l.longest(); x == nil && most > 0 || x != nil && len(x.queue) != most {
					t.Fatalf("the fullest lane is %+v, the most is %d", x, most)
				}
				if queued != l.queued {
					t.Fatalf("%d are queued, counted %d", queued, l.queued)
				}
			},
		})
	})
}
