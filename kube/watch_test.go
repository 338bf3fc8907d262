package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// names cuts off the notes, which metadata-only watches do not show.
func names(lines []string) []string {
	var cut []string
	for _, l := range lines {
		fields := strings.Fields(l)
		cut = append(cut, strings.Join(fields[:min(2, len(fields))], " "))
	}
	return cut
}

func TestWatchTellsWhatHappens(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(key("a"), "one")
		f := watch(nil)
		wantLines(t, "at first", names(f.taken()), "ADDED default/a", "SYNCED")
		s.put(key("b"), "two")
		s.put(key("a"), "three")
		s.remove(key("a"))
		wantLines(t, "then", names(f.taken()), "ADDED default/b", "MODIFIED default/a", "DELETED default/a")
		wantLines(t, "requests", s.paths(), "list", "watch 101")
		if r := f.reports(); len(r) > 0 {
			t.Fatalf("troubles without trouble: %v", r)
		}
	})
}

func TestWatchResumesFromTheLastVersion(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(key("a"), "one")
		f := watch(nil)
		f.taken()
		s.put(key("b"), "two")
		f.taken()
		s.cutWatches()
		s.put(key("c"), "three")
		time.Sleep(time.Minute)
		wantLines(t, "after the cut", names(f.taken()), "ADDED default/c")
		wantLines(t, "requests", s.paths(), "list", "watch 101", "watch 102")
		if r, n := f.reports(), f.recoveries(); len(r) != 1 || n != 1 {
			t.Fatalf("reports of one cut: %v, %d recoveries", r, n)
		}
	})
}

func TestBookmarksMoveTheResumePoint(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(func(n narrow) { n.Labeled("app=web") })
		f.taken()
		for i := range 50 {
			s.put(key("other"), strconv.Itoa(i)) // not selected
		}
		time.Sleep(90 * time.Second) // a bookmark comes
		s.cutWatches()
		time.Sleep(time.Minute)
		wantLines(t, "requests", s.paths(), "list", "watch 100", "watch 150")
		wantLines(t, "events", f.taken())
	})
}

func TestWatchThatEndsInTimeIsResumedWithoutReport(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		f.taken()
		time.Sleep(20 * time.Minute)
		s.put(key("a"), "one")
		wantLines(t, "events", names(f.taken()), "ADDED default/a")
		if r := f.reports(); len(r) > 0 {
			t.Fatalf("reports: %v", r)
		}
		if n := len(s.paths()); n < 4 || n > 6 {
			t.Fatalf("%d requests in 20 minutes: %v", n, s.paths())
		}
	})
}

// expiries holds ways in which a server says that history is gone.
var expiries = map[string]func(*apiServer, int, *http.Request) (*http.Response, error){
	"at the start of a watch": func(*apiServer, int, *http.Request) (*http.Response, error) {
		return status(http.StatusGone, metav1.StatusReasonExpired, "too old"), nil
	},
	"at the start with the old reason": func(*apiServer, int, *http.Request) (*http.Response, error) {
		return status(http.StatusGone, metav1.StatusReasonGone, "too old"), nil
	},
	"as an event": func(s *apiServer, _ int, r *http.Request) (*http.Response, error) {
		proto := s.contentType(r) == typeProtobuf
		return answer(200, s.contentType(r), errorEvent(proto,
			metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"})), nil
	},
	"as an event without a reason": func(s *apiServer, _ int, r *http.Request) (*http.Response, error) {
		proto := s.contentType(r) == typeProtobuf
		return answer(200, s.contentType(r), errorEvent(proto,
			metav1.Status{Status: "Failure", Code: 410, Message: "too old"})), nil
	},
}

func TestExpiredHistoryIsListedAgain(t *testing.T) {
	for name, expire := range expiries {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.put(key("stays"), "one")
				s.put(key("goes"), "one")
				was := s.put(key("anew"), "one")
				f := watch(nil)
				f.taken()
				s.hold() // the watch does not learn of the later changes
				s.put(key("changes"), "one")
				s.remove(key("goes"))
				s.remove(key("anew"))
				is := s.put(key("anew"), "two")
				s.put(key("comes"), "one")
				s.remove(key("changes"))
				expired := false
				s.mu.Lock()
				s.intercept = func(n int, r *http.Request) (*http.Response, error) {
					if !expired && r.URL.Query().Get("watch") == "true" {
						expired = true
						return expire(s, n, r)
					}
					return nil, nil
				}
				s.mu.Unlock()
				s.cutWatches()
				synctest.Wait()
				s.release()
				time.Sleep(time.Second)
				if was.uid == is.uid {
					t.Fatal("the server reuses uids")
				}
				wantLines(t, "events", names(f.taken()), "DELETED default/anew", "ADDED default/anew", "ADDED default/comes",
					"DELETED default/goes", "SYNCED")
			})
		})
	}
}

func TestListingInPagesWalksEveryPageBeforeTheWatch(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		for i := range 2*pageSize + 1 {
			s.put(key(fmt.Sprintf("o%04d", i)), "one")
		}
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("watch") == "" && q.Get("limit") == "" {
				return status(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "too large"), nil
			}
			return nil, nil
		}
		f := watch(nil)
		time.Sleep(time.Second)
		lines := f.taken()
		if n := len(lines); n != 2*pageSize+2 || lines[n-1] != "SYNCED" {
			t.Fatalf("%d events, the last %q", n, lines[n-1])
		}
		wantLines(t, "requests", s.paths(), "list", "page", "page 1101|default/o0499", "page 1101|default/o0999",
			"watch 1101")
		// If one list was too large once, the next listing is in pages too.
		s.forget()
		s.cutWatches()
		time.Sleep(time.Minute)
		if p := s.paths()[5:]; len(p) < 2 || p[1] != "page" {
			t.Fatalf("relisted by %q", p)
		}
		wantLines(t, "after the relist", f.taken(), "SYNCED")
	})
}

func TestContinueTokenThatExpires(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		for i := range pageSize + 1 {
			s.put(key(fmt.Sprintf("o%04d", i)), "one")
		}
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			q := r.URL.Query()
			switch {
			case n == 1:
				return status(http.StatusInternalServerError, metav1.StatusReasonInternalError, "too large for etcd"), nil
			case q.Get("continue") != "":
				s.remove(key("o0000")) // listed already, and gone at the next listing
				return status(http.StatusGone, metav1.StatusReasonExpired, "token expired"), nil
			}
			return nil, nil
		}
		f := watch(nil)
		time.Sleep(time.Minute)
		lines := names(f.taken())
		wantLines(t, "requests", s.paths()[:5], "list", "page", "page 601|default/o0499", "list", "watch 602")
		n := len(lines)
		if n != pageSize+3 || lines[n-2] != "DELETED default/o0000" || lines[n-1] != "SYNCED" {
			t.Fatalf("%d events, the last %q", n, lines[max(0, n-3):])
		}
	})
}

func TestTooLargeResourceVersionIsNotListedAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		f.taken()
		tries := 0
		s.mu.Lock()
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			if tries++; tries > 5 {
				return nil, nil
			}
			st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 504,
				Reason: metav1.StatusReasonTimeout,
				Details: &metav1.StatusDetails{RetryAfterSeconds: 1,
					Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge,
						Message: "Too large resource version"}}}}
			return jsonAnswer(504, &st), nil
		}
		s.mu.Unlock()
		s.cutWatches()
		time.Sleep(2 * time.Minute)
		s.put(key("a"), "one")
		wantLines(t, "events", names(f.taken()), "ADDED default/a")
		for _, p := range s.paths()[1:] {
			if p != "watch 100" {
				t.Fatalf("requests: %q", s.paths())
			}
		}
	})
}

func TestEventsOfUnknownTypesAndNoise(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		var out *io.PipeWriter
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			if n == 2 {
				resp, writer := piped(r, s.contentType(r))
				out = writer
				return resp, nil
			}
			return nil, nil
		}
		f := watch(nil)
		f.taken()
		r := s.requests[1]
		o := s.put(key("a"), "one")
		proto := s.contentType(r) == typeProtobuf
		send := func(frame []byte) {
			if _, err := out.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		send(s.encodeEvent(r, "NOVELTY", o))
		if proto {
			send(protobufEvent("ADDED", []byte("no envelope")))
			send([]byte{0, 0, 0, 2, 0xff, 0xff}) // no message
		} else {
			send([]byte(`{"type":"ADDED"}`))
			send([]byte(`{"type":"ADDED","object":[1,2]}`))
			send([]byte(`[]`))
		}
		send(s.encodeEvent(r, eventAdded, modelObject{rv: 101}))  // no name
		send(s.encodeEvent(r, eventBookmark, modelObject{rv: 0})) // says nothing
		send(s.encodeEvent(r, eventBookmark, modelObject{rv: 1})) // goes back
		send(s.encodeEvent(r, eventAdded, o))                     // this event is received
		send(s.encodeEvent(r, eventModified, modelObject{key: o.key, uid: o.uid, rv: 90, note: "older"}))
		wantLines(t, "events", names(f.taken()), "ADDED default/a")
		if r := f.reports(); len(r) != 1 || !r[0].unread {
			t.Fatalf("reports: %v", r)
		}
		for range 6 {
			time.Sleep(time.Minute)
			send(s.encodeEvent(r, eventAdded, modelObject{rv: 101})) // this event too
		}
		if r := f.reports(); len(r) != 1 || r[0].Tries < 4 {
			t.Fatalf("reports after a while: %v", r)
		}
		out.CloseWithError(io.ErrUnexpectedEOF)
		time.Sleep(time.Minute)
		wantLines(t, "requests", s.paths(), "list", "watch 100", "watch 101")
	})
}

func TestLeavingTheLoopAnywhere(t *testing.T) {
	for leaveAt := range 6 {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer()
			s.put(key("a"), "one")
			s.put(key("b"), "one")
			c := s.client(t)
			n := 0
			for _, err := range configMaps(c).Watch(t.Context()) {
				if err != nil && !errors.As(err, new(*Trouble)) {
					t.Fatal(err)
				}
				if n == 2 {
					s.put(key("c"), "one")
				}
				if n == 3 {
					s.cutWatches()
				}
				if n == leaveAt {
					break
				}
				n++
			}
			if n != leaveAt {
				t.Fatalf("the loop ended after %d events", n)
			}
		})
	}
}
