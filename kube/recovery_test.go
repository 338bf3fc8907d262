package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *apiServer) setIntercept(f func(int, *http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// silent returns an answer whose body sends start and then nothing.
func silent(r *http.Request, contentType string, start []byte) *http.Response {
	reader, writer := io.Pipe()
	go func() {
		_, _ = writer.Write(start)
		<-r.Context().Done()
		writer.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}}, Body: reader, Request: r}
}

// piped returns an answer whose body the test writes. It ends with the request.
func piped(r *http.Request, contentType string) (*http.Response, *io.PipeWriter) {
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}}, Body: reader, Request: r},
		writer
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

func TestSilentConnectionsAreDropped(t *testing.T) {
	for _, tc := range []struct {
		name string
		// quiet answers the request that goes silent.
		quiet func(s *apiServer, n int, r *http.Request) *http.Response
		// within is how long it may take until the watch works again.
		within time.Duration
	}{
		{"list without an answer", func(s *apiServer, n int, r *http.Request) *http.Response {
			if n > 1 {
				return nil
			}
			<-r.Context().Done()
			return nil
		}, silence + time.Second},
		{"list", func(s *apiServer, n int, r *http.Request) *http.Response {
			if n > 1 {
				return nil
			}
			return silent(r, typeJSON, []byte(`{"kind":"List","items":[`))
		}, silence + time.Second},
		{"watch without an answer", func(s *apiServer, n int, r *http.Request) *http.Response {
			if n != 2 {
				return nil
			}
			<-r.Context().Done()
			return nil
		}, silence + time.Second},
		{"watch without bookmarks", func(s *apiServer, n int, r *http.Request) *http.Response {
			if n != 2 {
				return nil
			}
			return silent(r, typeJSON, jsonEvent(eventAdded, modelObject{key: key("x"), uid: "x", rv: 101}.json(r)))
		}, watchTimeout*6/5 + time.Minute},
		{"watch with bookmarks", func(s *apiServer, n int, r *http.Request) *http.Response {
			if n != 2 {
				return nil
			}
			mark := jsonEvent(eventBookmark, modelObject{rv: 101}.json(r))
			return silent(r, typeJSON, append(mark, mark...))
		}, silence + time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.intercept = func(n int, r *http.Request) (*http.Response, error) {
					if resp := tc.quiet(s, n, r); resp != nil {
						return resp, nil
					}
					return nil, r.Context().Err()
				}
				f := watch(nil)
				synctest.Wait()
				s.put(key("a"), "one") // rv 101, listed or watched from 100
				time.Sleep(tc.within)
				s.put(key("b"), "one")
				lines := names(f.taken())
				if len(lines) == 0 || lines[len(lines)-1] != "ADDED default/b" {
					t.Fatalf("after %s: %q, requests %q", tc.within, lines, s.paths())
				}
				r := f.reports()
				if n := f.recoveries(); len(r) != 1 || !errors.Is(r[0], errSilent) || n != 1 {
					t.Fatalf("reports: %v, %d recoveries", r, n)
				}
			})
		})
	}
}

func TestHealthyWatchIsNotCut(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		for range 4 {
			time.Sleep(time.Hour)
		}
		if r := f.reports(); len(r) > 0 {
			t.Fatalf("reports: %v", r)
		}
	})
}

func TestSlowConsumerIsNotTakenForSilence(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		f.taken()
		f.setSlow(4 * time.Minute) // longer than any allowed silence
		for _, n := range []string{"a", "b", "c"} {
			s.put(key(n), "one")
		}
		time.Sleep(15 * time.Minute)
		f.setSlow(0)
		time.Sleep(5 * time.Minute)
		wantLines(t, "events", names(f.taken()), "ADDED default/a", "ADDED default/b", "ADDED default/c")
		if r := f.reports(); len(r) > 0 {
			t.Fatalf("reports: %v", r)
		}
	})
}

// refused returns the error that a client gets while the server is down.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func TestBackOffGrowsWithJitterAndIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		c := s.client(t)
		var at []time.Time
		s.intercept = func(int, *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			return nil, refused()
		}
		f := follow(t, configMaps(c).Watch, noteOfConfigMap)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		distinct := make(map[time.Duration]bool)
		for i := 1; i < len(at); i++ {
			gap := at[i].Sub(at[i-1])
			most := min(cheap.most(), minDelay<<min(i-1, 10))
			if gap < most/2 || gap > most+time.Millisecond {
				t.Errorf("try %d after %s, want %s to %s", i, gap, most/2, most)
			}
			distinct[gap] = true
		}
		if len(at) < 600 || len(at) > 1300 || len(distinct) < len(at)/2 {
			t.Fatalf("%d tries in 30 minutes, %d distances", len(at), len(distinct))
		}
		reports := f.reports()
		if len(reports) < 5 || len(reports) > 7 {
			t.Fatalf("%d reports in 30 minutes: %v", len(reports), reports)
		}
		for i, r := range reports {
			if !errors.Is(r, ErrUnreachable) || !errors.Is(r, syscall.ECONNREFUSED) {
				t.Errorf("report %d: %v", i, r)
			}
		}
		s.setIntercept(nil)
		time.Sleep(time.Minute) // healthy again
		if r, n := f.reports(), f.recoveries(); len(r) != 0 || n != 1 {
			t.Fatalf("at the end: %v, %d recoveries", r, n)
		}
		at = nil
		s.setIntercept(func(int, *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			return nil, refused()
		})
		start := time.Now()
		s.cutWatches()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(at) == 0 || at[0].Sub(start) > minDelay {
			t.Fatalf("after a healthy stretch the next try comes %v after %s", at, start)
		}
	})
}

func TestServerThatEndsWatchesAtOnceIsNotAskedInAHotLoop(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			if isWatch(r) {
				return answer(200, s.contentType(r), nil), nil
			}
			return nil, nil
		}
		f := watch(nil)
		time.Sleep(time.Minute)
		f.taken()
		if n := len(s.paths()); n > 61 || n < 8 {
			t.Fatalf("%d requests in a minute", n)
		}
	})
}

// For any answer of the server, sent at once and again and again, the client asks the
// server no more than a few times in the first seconds.
func TestNoAnswerMakesAHotLoop(t *testing.T) {
	list := func(r *http.Request) *http.Response {
		return (&apiServer{jsonOnly: true}).encodeList(r, 7, "", nil)
	}
	for name, respond := range map[string]func(r *http.Request) *http.Response{
		"empty object":    func(*http.Request) *http.Response { return answer(200, typeJSON, []byte("{}")) },
		"nothing":         func(*http.Request) *http.Response { return answer(200, typeJSON, nil) },
		"html":            func(*http.Request) *http.Response { return answer(200, "text/html", []byte("<html>")) },
		"broken protobuf": func(*http.Request) *http.Response { return answer(200, typeProtobuf, []byte("k8s\x00\xff")) },
		"expired, always": func(*http.Request) *http.Response { return status(410, metav1.StatusReasonExpired, "") },
		"forbidden":       func(*http.Request) *http.Response { return status(403, metav1.StatusReasonForbidden, "") },
		"method not allowed": func(*http.Request) *http.Response {
			return status(405, metav1.StatusReasonMethodNotAllowed, "")
		},
		"unauthorized": func(*http.Request) *http.Response { return status(401, metav1.StatusReasonUnauthorized, "") },
		"not found":    func(*http.Request) *http.Response { return answer(404, "text/plain", []byte("404")) },
		"bad gateway":  func(*http.Request) *http.Response { return answer(502, "text/html", []byte("oops")) },
		"list but expired watch": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return status(410, metav1.StatusReasonExpired, "")
			}
			return list(r)
		},
		"list but forbidden watch": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return status(403, metav1.StatusReasonForbidden, "")
			}
			return list(r)
		},
		"list but an error event": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return answer(200, typeJSON, errorEvent(false, metav1.Status{Code: 500}))
			}
			return list(r)
		},
		"list but an error that is none": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return answer(200, typeJSON, jsonEvent(eventError, []byte("{}")))
			}
			return list(r)
		},
		"list but expired event": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return answer(200, typeJSON, errorEvent(false, metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired}))
			}
			return list(r)
		},
		"a watch that breaks": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return answer(200, typeJSON, []byte(`{"type":`))
			}
			return list(r)
		},
		"an older list every time": func(r *http.Request) *http.Response {
			if isWatch(r) {
				return answer(200, typeJSON, append(jsonEvent(eventAdded, modelObject{key: key("a"), uid: "a", rv: 9}.json(r)),
					errorEvent(false, metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired})...))
			}
			return list(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.intercept = func(_ int, r *http.Request) (*http.Response, error) { return respond(r), nil }
				f := watch(nil)
				time.Sleep(10 * time.Second)
				f.taken()
				if n := len(s.paths()); n > 40 {
					t.Errorf("%d requests in the first 10 seconds", n)
				}
				time.Sleep(time.Hour)
				f.taken()
				if n := len(s.paths()); n > 2000 {
					t.Errorf("%d requests in an hour", n)
				}
				reports := f.reports()
				if len(reports) == 0 || len(reports) > 2*flapsReported+30 {
					t.Errorf("%d reports in an hour, such as %v", len(reports), reports[:min(8, len(reports))])
				}
			})
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		var at []time.Time
		s.intercept = func(n int, r *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			switch n {
			case 1: // by header, with a Status
				resp := status(429, metav1.StatusReasonTooManyRequests, "slow down")
				resp.Header.Set("Retry-After", "20")
				return resp, nil
			case 2: // by header alone
				resp := answer(503, "text/plain", []byte("starting"))
				resp.Header.Set("Retry-After", "40")
				return resp, nil
			}
			return nil, nil
		}
		f := watch(nil)
		time.Sleep(10 * time.Second)
		if r := f.reports(); len(r) > 0 {
			t.Fatalf("reports of a server that says when to ask again: %v", r)
		}
		time.Sleep(3 * time.Minute)
		if r, n := f.reports(), f.recoveries(); len(r) != 1 || !apierrors.IsServiceUnavailable(r[0]) || n != 1 {
			t.Fatalf("reports: %v, %d recoveries", r, n)
		}
		if len(at) < 4 {
			t.Fatalf("%d requests", len(at))
		}
		for i, least := range []time.Duration{20 * time.Second, 40 * time.Second} {
			if gap := at[i+1].Sub(at[i]); gap < least || gap > 2*least {
				t.Errorf("try %d after %s, the server asked for %s", i+1, gap, least)
			}
		}
	})
}

func TestCredentialsThatExpireForAWhile(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(key("a"), "one")
		f := watch(nil)
		f.taken()
		s.setIntercept(func(int, *http.Request) (*http.Response, error) {
			return status(401, metav1.StatusReasonUnauthorized, "Unauthorized"), nil
		})
		s.cutWatches()
		time.Sleep(2 * time.Minute)
		s.put(key("b"), "one")
		r := f.reports()
		if len(r) != 2 || !strings.Contains(r[0].Error(), ": the connection broke: unexpected EOF; trying again") {
			t.Fatalf("reports: %v", r)
		}
		if !apierrors.IsUnauthorized(r[1]) || !strings.Contains(r[1].Error(), "credentials") {
			t.Fatalf("the cause became another: %v", r[1])
		}
		time.Sleep(4 * time.Minute)
		if r := f.reports(); len(r) != 1 || !apierrors.IsUnauthorized(r[0]) {
			t.Fatalf("reports: %v", r)
		}
		s.setIntercept(nil)
		time.Sleep(maxDelay + lastsAfter + time.Second) // a watch that tells nothing works after lastsAfter
		wantLines(t, "then", names(f.taken()), "ADDED default/b", "SYNCED")
		if r, n := f.reports(), f.recoveries(); len(r) != 0 || n != 1 {
			t.Fatalf("reports: %v, %d recoveries", r, n)
		}
	})
}

func TestKindThatIsInstalledLater(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.intercept = func(int, *http.Request) (*http.Response, error) {
			return answer(404, "text/plain", []byte("404 page not found")), nil
		}
		f := watch(nil)
		time.Sleep(time.Minute)
		if r := f.reports(); len(r) != 1 || !errors.Is(r[0], ErrNotServed) {
			t.Fatalf("reports: %v", r)
		}
		s.put(key("a"), "one")
		s.setIntercept(nil)
		time.Sleep(maxDelay)
		wantLines(t, "installed", names(f.taken()), "ADDED default/a", "SYNCED")
		// The kind goes again, and comes again, empty.
		s.setIntercept(func(int, *http.Request) (*http.Response, error) {
			return answer(404, "text/plain", []byte("404 page not found")), nil
		})
		s.cutWatches()
		time.Sleep(time.Minute)
		s.mu.Lock()
		clear(s.objects)
		s.rv++
		s.mu.Unlock()
		s.setIntercept(nil)
		time.Sleep(2 * maxDelay)
		wantLines(t, "installed again", names(f.taken()), "DELETED default/a", "SYNCED")
	})
}

// listOnly makes every list return these objects and that version.
func (s *apiServer) listOnly(rv int64, items ...modelObject) {
	s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if isWatch(r) {
			return nil, nil
		}
		return s.encodeList(r, rv, "", items), nil
	})
}

// TestListThatIsNewerThanItSays makes a server list objects that are newer than the
// version that the list names, as a server that lists without a snapshot may do. The
// watcher has already seen the events of the time in between.
func TestListThatIsNewerThanItSays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		first := s.put(key("a"), "one")
		s.put(key("a"), "two")
		last := s.put(key("a"), "three")
		s.listOnly(first.rv, last)
		f := watch(nil)
		time.Sleep(time.Second)
		wantLines(t, "events", names(f.taken()), "ADDED default/a", "SYNCED")
		s.put(key("a"), "four")
		wantLines(t, "events", names(f.taken()), "MODIFIED default/a")
	})
}

// The same happens if the object was recreated in between: the end of the first object is
// no end of the store's object.
func TestStoreOfListThatIsNewerThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		c := s.client(t)
		first := s.put(key("a"), "first")
		s.remove(key("a"))
		last := s.put(key("a"), "second")
		s.listOnly(first.rv, last)
		s.mu.Lock()
		s.held = last.rv - 1 // the watch shows the deletion, and nothing after it
		s.mu.Unlock()
		store := StoreOf(t.Context(), For[corev1.ConfigMap](c))
		time.Sleep(time.Second)
		if o, err := store.Get(t.Context(), key("a")); err != nil || o.Data["note"] != "second" {
			t.Errorf("got %v, %v", o, err)
		}
	})
}

func TestListOlderThanWhatWasSeen(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(key("a"), "one")
		f := watch(nil)
		f.taken()
		s.put(key("b"), "one")
		f.taken()
		old := true
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !isWatch(r) && old {
				old = false
				return s.encodeList(r, 90, "", nil), nil // the version is from before there was anything
			}
			return nil, nil
		})
		s.forget()
		s.cutWatches()
		time.Sleep(time.Minute)
		wantLines(t, "events", f.taken(), "SYNCED")
	})
}
