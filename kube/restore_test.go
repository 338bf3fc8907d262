package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restore turns the server's state back to a resource version, as a restore of etcd from
// a backup does. If bumped, all later versions are greater than all versions before, as
// with --bump-revision of etcdutl. Otherwise versions are given out a second time.
func (s *apiServer) restore(rv int64, bumped bool) {
	state := s.at(rv)
	s.mu.Lock()
	s.objects = state
	s.history = slices.DeleteFunc(s.history, func(c modelChange) bool { return c.rv > rv })
	if bumped {
		s.rv += 1000
	} else {
		s.rv = rv
	}
	s.oldest = s.rv
	s.mu.Unlock()
}

func TestRestoredStorageIsTakenAsItIs(t *testing.T) {
	for _, bumped := range []bool{true, false} {
		name := "with the old versions"
		if bumped {
			name = "with bumped versions"
		}
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.put(key("a"), "one")
				s.put(key("b"), "one")
				gone := s.put(key("gone"), "one")
				f := watch(nil)
				f.taken()
				s.put(key("a"), "two")
				s.remove(key("gone"))
				s.put(key("late"), "one")
				f.taken()

				s.restore(gone.rv, bumped)
				if !bumped {
					// The server would keep the watch waiting, so the watch is refused.
					s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
						if isWatch(r) && r.URL.Query().Get("resourceVersion") > "103" {
							return status(410, metav1.StatusReasonExpired, "too old"), nil
						}
						return nil, nil
					})
				}
				s.cutWatches()
				time.Sleep(5 * time.Minute)
				lines := names(f.taken())
				slices.Sort(lines)
				wantLines(t, "events", lines, "ADDED default/gone", "DELETED default/late", "MODIFIED default/a", "SYNCED")

				s.put(key("a"), "three")
				wantLines(t, "a change", names(f.taken()), "MODIFIED default/a")
			})
		})
	}
}

// A server whose storage was restored may accept a watch from a resource version that it
// has not reached again, and sends nothing on the watch until it has. Its lists show the
// restore.
func TestServerThatIsSilentAboutItsFuture(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(key("a"), "one")
		gone := s.put(key("gone"), "one")
		f := watch(nil)
		f.taken()
		s.put(key("a"), "two")
		s.remove(key("gone"))
		for range 50 {
			s.put(key("late"), time.Now().String())
		}
		time.Sleep(time.Hour)
		f.taken()
		s.restore(gone.rv, false)
		s.put(key("new"), "one")
		s.cutWatches()
		time.Sleep(2*watchTimeout*6/5 + time.Minute)
		lines := names(f.taken())
		slices.Sort(lines)
		wantLines(t, "events", lines,
			"ADDED default/gone", "ADDED default/new", "DELETED default/late", "MODIFIED default/a", "SYNCED")
		r := f.reports()
		if !slices.ContainsFunc(r, func(r *Trouble) bool { return errors.Is(r, errMute) }) {
			t.Errorf("reports: %v", r)
		}
		s.put(key("a"), "three")
		wantLines(t, "a change", names(f.taken()), "MODIFIED default/a")
		time.Sleep(10 * time.Hour)
		if r := f.reports(); len(r) > 0 {
			t.Errorf("reports later: %v", r)
		}
	})
}

// stopBookmarks stops the bookmarks of all watches.
func (s *apiServer) stopBookmarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks = 1000 * time.Hour
}

// Objects that do not change are not listed again: neither if the server sends no
// bookmarks, nor if watches are too short for one. If bookmarks stop, one list makes
// sure.
func TestSilenceCostsNoLists(t *testing.T) {
	for _, tc := range []struct {
		name string
		// before changes the server before the first request, then after an hour.
		before, then func(*apiServer)
		lists        int
	}{
		{"bookmarks", nil, nil, 1},
		{"no bookmarks", func(s *apiServer) { s.bookmarks = 1000 * time.Hour }, nil, 1},
		{"few bookmarks", func(s *apiServer) { s.bookmarks = watchTimeout }, nil, 1},
		{"bookmarks that stop", nil, (*apiServer).stopBookmarks, 2},
		{"watches that become short", nil, func(s *apiServer) {
			for range 10 * 60 {
				time.Sleep(50 * time.Second)
				s.cutWatches()
			}
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				if tc.before != nil {
					tc.before(s)
				}
				s.put(key("a"), "one")
				watch(nil)
				time.Sleep(time.Hour)
				if tc.then != nil {
					tc.then(s)
				}
				time.Sleep(10 * time.Hour)
				lists := 0
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, r := range s.requests {
					if !isWatch(r) {
						lists++
					}
				}
				if lists != tc.lists {
					t.Errorf("%d lists in 11 hours, want %d", lists, tc.lists)
				}
			})
		})
	}
}

func TestStoreFollowsRestoredStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		c := s.client(t)
		store := StoreOf(t.Context(), For[corev1.ConfigMap](c))
		cms := For[corev1.ConfigMap](c).In("default")
		put := func(note string) {
			t.Helper()
			if _, err := cms.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Data: map[string]string{"note": note}}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(note string) {
			t.Helper()
			if o, err := store.Get(t.Context(), key("a")); err != nil || o.Data["note"] != note {
				t.Fatalf("got %v, %v, want %q", o, err, note)
			}
		}
		first := s.put(key("a"), "first")
		synctest.Wait() // the store may have listed before
		want("first")
		put("second")
		want("second")
		s.hold() // the watch does not show the write, which is lost with the storage
		put("lost")
		s.restore(first.rv, true)
		s.loseHistory()
		time.Sleep(time.Minute)
		want("first")
	})
}

// A stale list, such as a cache in between may answer, is not shown at all.
func TestStaleListIsNotShown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		f := watch(nil)
		s.put(key("a"), "one")
		old := s.put(key("gone"), "one")
		f.taken()
		s.remove(key("gone"))
		s.put(key("a"), "two")
		f.taken()
		lists := 0
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if isWatch(r) {
				return nil, nil
			}
			if lists++; lists > 3 {
				return nil, nil
			}
			var items []modelObject
			for _, o := range s.at(old.rv) {
				items = append(items, o)
			}
			return s.encodeList(r, old.rv, "", items), nil
		})
		s.forget()
		s.cutWatches()
		time.Sleep(time.Minute)
		wantLines(t, "events", f.taken(), "SYNCED")
		if lists != 4 {
			t.Fatalf("%d lists", lists)
		}
		if r := f.reports(); !slices.ContainsFunc(r, func(r *Trouble) bool { return errors.Is(r, errStale) }) {
			t.Fatalf("reports: %v", r)
		}
	})
}

// A server with rare bookmarks does not end its watches. It is neither listed nor watched
// again without need.
func TestRareBookmarks(t *testing.T) {
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprint("streaming list ", streams), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
				s.bookmarks = 3 * time.Minute
				s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if !isWatch(r) {
						if streams {
							return status(403, metav1.StatusReasonForbidden, "cannot list"), nil
						}
						return nil, nil
					}
					q := r.URL.Query()
					q.Set("timeoutSeconds", "1000000")
					r.URL.RawQuery = q.Encode()
					return nil, nil
				})
				s.put(key("a"), "one")
				f := watch(nil)
				time.Sleep(10 * time.Hour)
				if n := len(s.paths()); n > 10 {
					t.Errorf("%d requests within 10 hours: %q", n, s.paths()[:10])
				}
				if r := f.reports(); len(r) > 0 {
					t.Errorf("%d reports, the first is %v", len(r), r[0])
				}
			})
		})
	}
}

// hanging is the body of an answer that tells nothing more once hang is set.
type hanging struct {
	io.ReadCloser
	request context.Context //nolint:containedctx // it is that of the request
	hang    *atomic.Bool
}

func (h hanging) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if h.hang.Load() {
		<-h.request.Done()
		return 0, context.Cause(h.request)
	}
	return n, err
}

// A loop that was slow once does not make the watch patient with a connection that goes
// silent: the time between two bookmarks was the loop's and not the server's.
func TestSlowConsumerIsNotTakenForRareBookmarks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		var hang atomic.Bool
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !isWatch(r) {
				return nil, nil
			}
			q := r.URL.Query()
			q.Set("timeoutSeconds", "1000000")
			r.URL.RawQuery = q.Encode()
			resp, err := s.serve(r)
			if err == nil {
				resp.Body = hanging{resp.Body, r.Context(), &hang}
			}
			return resp, err
		})
		f := watch(nil)
		time.Sleep(90 * time.Second)
		f.setSlow(3 * time.Minute)
		s.put(key("a"), "one")
		time.Sleep(time.Minute)
		f.setSlow(0)
		time.Sleep(8 * time.Minute)
		wantLines(t, "events", names(f.taken()), "SYNCED", "ADDED default/a")
		hang.Store(true)
		time.Sleep(silence + time.Second)
		r := f.reports()
		if len(r) != 1 || !errors.Is(r[0], errSilent) {
			t.Errorf("reports of a watch that is silent for longer than %s: %v", silence, r)
		}
		hang.Store(false)
	})
}
