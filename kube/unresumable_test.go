package kube

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// watchFaults holds ways in which servers, and proxies in front of them, answer a watch
// that they do not serve.
var watchFaults = map[string]func(*apiServer, *http.Request) (*http.Response, error){
	"invalid resource version": func(*apiServer, *http.Request) (*http.Response, error) {
		return status(400, metav1.StatusReasonBadRequest, "invalid resource version"), nil
	},
	"internal error": func(*apiServer, *http.Request) (*http.Response, error) {
		return status(500, metav1.StatusReasonInternalError, "watch: out of order"), nil
	},
	"error event": func(s *apiServer, r *http.Request) (*http.Response, error) {
		proto := s.contentType(r) == typeProtobuf
		return answer(200, s.contentType(r), errorEvent(proto,
			metav1.Status{Status: "Failure", Code: 500, Message: "decode"})), nil
	},
	"undecodable line": func(s *apiServer, r *http.Request) (*http.Response, error) {
		return answer(200, s.contentType(r), []byte("\xff\xff\xff\xff stream error\n")), nil
	},
	"events without objects": func(_ *apiServer, r *http.Request) (*http.Response, error) {
		return answer(200, typeJSON, bytes.Repeat([]byte(`{"type":"ADDED"}`), 3)), nil
	},
	"page of a proxy": func(*apiServer, *http.Request) (*http.Response, error) {
		return answer(200, "text/html; charset=utf-8", []byte("<html>sign in</html>")), nil
	},
	"end at once": func(s *apiServer, r *http.Request) (*http.Response, error) {
		return answer(200, s.contentType(r), nil), nil
	},
	"method not allowed": func(*apiServer, *http.Request) (*http.Response, error) {
		return status(405, metav1.StatusReasonMethodNotAllowed, "watch is not supported"), nil
	},
	"forbidden": func(*apiServer, *http.Request) (*http.Response, error) {
		return status(403, metav1.StatusReasonForbidden, `User "u" cannot watch`), nil
	},
	"list instead of events": func(s *apiServer, r *http.Request) (*http.Response, error) {
		return s.list(r, "default")
	},
	"broken connection": func(*apiServer, *http.Request) (*http.Response, error) {
		return nil, io.ErrUnexpectedEOF
	},
}

// TestWatchThatCannotBeResumedListsAgain refuses a watch from one resource version for
// good: only a new listing helps.
func TestWatchThatCannotBeResumedListsAgain(t *testing.T) {
	for name, fault := range watchFaults {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.put(key("a"), "one")
				f := watch(nil)
				f.taken()
				s.hold()
				s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.URL.Query().Get("resourceVersion") == "101" {
						return fault(s, r)
					}
					return nil, nil
				})
				s.put(key("b"), "one")
				s.cutWatches()
				time.Sleep(3 * time.Second)
				wantLines(t, "events", names(f.taken()), "ADDED default/b", "SYNCED")
				s.release()
				s.put(key("c"), "one")
				wantLines(t, "then", names(f.taken()), "ADDED default/c")
			})
		})
	}
}

// TestStoreStaysFreshWhileNoWatchWorks refuses every watch: the store lists again and
// again, and reports trouble for the whole time.
func TestStoreStaysFreshWhileNoWatchWorks(t *testing.T) {
	for name, fault := range watchFaults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(key("a"), "one")
				s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if isWatch(r) {
						return fault(s, r)
					}
					return nil, nil
				})
				feed := configMaps(s.client(t)).Open(context.Background())
				defer feed.Close()
				time.Sleep(5 * time.Second)
				untroubled := 0
				for i := range 600 {
					time.Sleep(time.Second)
					synctest.Wait()
					if feed.Trouble() == nil {
						untroubled++
					}
					if i%60 == 0 {
						s.put(key("b"), "again")
						s.put(key("b"), "and again")
						last := s.put(key("c"), time.Now().String())
						time.Sleep(31 * time.Second)
						if e := feed.table.entry(key("c")); e == nil || e.ResourceVersion() != modelVersion(last) {
							t.Fatalf("stale after half a minute: %v", e)
						}
					}
				}
				if untroubled > 0 {
					t.Errorf("without trouble for %d of 600 seconds", untroubled)
				}
				if n := len(s.paths()); n > 200 {
					t.Errorf("%d requests in a quarter of an hour", n)
				}
				s.setIntercept(nil)
				time.Sleep(time.Minute)
				if err := feed.Trouble(); err != nil {
					t.Errorf("trouble with watches that work: %v", err)
				}
			})
		})
	}
}

func modelVersion(o modelObject) string { return wire.NewEntry(o.record()).ResourceVersion() }

// record returns the object as a reflector makes it from protobuf.
func (o modelObject) record() wire.Record {
	raw := wire.Raw{Bytes: o.protobuf(&http.Request{Header: http.Header{}}), Protobuf: true}
	r, err := wire.NewRecorder(metadataCodec()).Record(raw)
	if err != nil {
		panic(err)
	}
	return r
}

// TestWatchThatIsCutWhileEventsFlowIsConnectedAllTheSame resets the connection
// again and again.
func TestWatchThatIsCutWhileEventsFlowIsConnectedAllTheSame(t *testing.T) {
	for _, period := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		t.Run(period.String(), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				const cuts = 40
				f := watch(nil)
				f.taken()
				var away time.Duration
				for range cuts {
					s.put(key("a"), time.Now().String())
					time.Sleep(period)
					f.taken()
					var cut time.Time
					s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
						if away += time.Since(cut); !isWatch(r) {
							t.Error("listed again")
						}
						return nil, nil
					})
					cut = time.Now()
					s.cutWatches()
					s.put(key("a"), time.Now().String())
					time.Sleep(time.Second)
					if lines := names(f.taken()); !slices.Contains(lines, "MODIFIED default/a") &&
						!slices.Contains(lines, "ADDED default/a") {
						t.Fatalf("events within a second of a cut: %q", lines)
					}
					s.setIntercept(nil)
				}
				if away*100 > cuts*period {
					t.Errorf("not connected for %s of %s", away, cuts*period)
				}
			})
		})
	}
}

// TestOutageEndsSoon takes the server away for a while. Each case is a way in which
// servers, or the proxies in front of them, fail.
func TestOutageEndsSoon(t *testing.T) {
	for name, outage := range map[string]func(*http.Request) (*http.Response, error){
		"refused": func(*http.Request) (*http.Response, error) { return nil, refused() },
		"broken":  func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"bad gateway": func(*http.Request) (*http.Response, error) {
			return answer(502, "text/html", []byte("<html>")), nil
		},
		"unavailable": func(*http.Request) (*http.Response, error) {
			return answer(503, "text/html", []byte("<html>")), nil
		},
	} {
		for _, lasts := range []time.Duration{3 * time.Second, 15 * time.Second, 10 * time.Minute} {
			t.Run(name+" for "+lasts.String(), func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
					f := watch(nil)
					f.taken()
					s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) { return outage(r) })
					s.cutWatches()
					time.Sleep(lasts)
					tries := len(s.paths())
					if most := 10 + int(lasts/time.Second); tries > most {
						t.Errorf("%d requests in %s", tries, lasts)
					}
					s.setIntercept(nil)
					s.put(key("a"), "one")
					time.Sleep(4 * time.Second)
					if lines := names(f.taken()); !slices.Contains(lines, "ADDED default/a") {
						t.Fatalf("stale for longer than 4 s after an outage of %s: %q", lasts, lines)
					}
				})
			})
		}
	}
}

// TestOverloadIsAnsweredWithPatience makes the server ask clients to come back later: the
// longer it does, the fewer requests it gets.
func TestOverloadIsAnsweredWithPatience(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		f.taken()
		s.setIntercept(func(int, *http.Request) (*http.Response, error) {
			resp := status(429, metav1.StatusReasonTooManyRequests, "slow down")
			resp.Header.Set("Retry-After", "1")
			return resp, nil
		})
		s.cutWatches()
		time.Sleep(time.Hour)
		if n := len(s.paths()); n > 260 {
			t.Errorf("%d requests in an hour", n)
		}
		s.setIntercept(nil)
		s.put(key("a"), "one")
		time.Sleep(maxDelay)
		if lines := names(f.taken()); !slices.Contains(lines, "ADDED default/a") {
			t.Errorf("events: %q", lines)
		}
	})
}

// TestNegativeWaitsOfServers makes answers ask for waiting times that make no sense.
func TestNegativeWaitsOfServers(t *testing.T) {
	for name, seconds := range map[string]int32{"below zero": -1, "least": -1 << 31, "most": 1<<31 - 1} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.put(key("a"), "one")
				s.intercept = func(n int, _ *http.Request) (*http.Response, error) {
					if n > 3 {
						return nil, nil
					}
					return jsonAnswer(504, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
						Status: "Failure", Code: 504,
						Reason: metav1.StatusReasonServerTimeout, Details: &metav1.StatusDetails{RetryAfterSeconds: seconds}}), nil
				}
				f := watch(nil)
				time.Sleep(10 * time.Minute)
				wantLines(t, "events", names(f.taken()), "ADDED default/a", "SYNCED")
			})
		})
	}
}

// TestWritesAreNotRepeatedWithoutAPause makes a server ask for a repetition at once.
func TestWritesAreNotRepeatedWithoutAPause(t *testing.T) {
	for _, after := range []string{"0", "-5", "Sat, 21 Nov 1998 10:00:00 GMT"} {
		t.Run(after, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				var at []time.Time
				s.intercept = func(int, *http.Request) (*http.Response, error) {
					at = append(at, time.Now())
					resp := answer(429, "text/plain", []byte("busy"))
					resp.Header.Set("Retry-After", after)
					return resp, nil
				}
				r := For[corev1.ConfigMap](s.client(t)).In("default")
				if _, err := r.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err == nil {
					t.Fatal("no error")
				}
				if len(at) != maxTries {
					t.Fatalf("%d requests", len(at))
				}
				for i := 1; i < len(at); i++ {
					if gap := at[i].Sub(at[i-1]); gap < 100*time.Millisecond {
						t.Errorf("request %d after %s", i+1, gap)
					}
				}
			})
		})
	}
}
