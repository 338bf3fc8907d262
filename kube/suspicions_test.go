package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object goes while the answer to its Ensure is noted. The table forgets it.
func TestEnsuredObjectGoesBeforeTheAnswer(t *testing.T) {
	for name, seen := range map[string]bool{"the watch showed it": true, "the watch did not show it": false} {
		t.Run(name, func(t *testing.T) {
			e := newEnsuredTable(t)
			_ = e.sink.synced("9")
			o := e.state(10, "ours", "none")
			ensure := e.begins()
			if seen {
				_ = e.sink.event(eventAdded, e.record(t, o, true))
			}
			e.wrote(e.at, o, true)
			if seen {
				o.ResourceVersion = "11"
				_ = e.sink.event(eventDeleted, e.record(t, o, true))
			} else {
				e.sink.progress("12")
			}
			ensure.done(e.handle.client, e.state(10, "ours", "none"))
			if n := len(e.ensured.by); n > 0 {
				t.Errorf("%d parts of objects that are gone are remembered", n)
			}
		})
	}
}

// A server tells no managedFields on its watches, and its versions are not integers.
func TestEnsureWithoutManagedFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsuredTable(t)
		_ = e.sink.synced("v9")
		state := func(version, note string) *corev1.ConfigMap {
			o := e.state(0, note, "none")
			o.ResourceVersion = version
			return o
		}
		bare := func(o *corev1.ConfigMap) *corev1.ConfigMap {
			o.ManagedFields = nil
			return o
		}
		writes := 0
		ensure := func(o *corev1.ConfigMap) {
			if e.unchanged(t) {
				return
			}
			writes++
			by := e.begins()
			e.wrote(e.at, o, true)
			by.done(e.handle.client, o)
		}
		ensure(state("v10", "one"))
		_ = e.sink.event(eventAdded, e.record(t, bare(state("v10", "one")), true))
		ensure(state("v10", "one"))
		// The intent changes, and so do the fields that the manager owns.
		e.wanted[0]++
		more := func() *corev1.ConfigMap { return shared(state("v11", "two")) }
		ensure(more())
		_ = e.sink.event(eventModified, e.record(t, bare(more()), true))
		for range 5 {
			ensure(more())
		}
		if writes != 2 {
			t.Errorf("%d writes for two intents", writes)
		}
	})
}

// A lagging server answers the question about a write with an older state.
func TestQuestionToALaggingServer(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				old := newAPIServer()
				old.put(key("a"), "one")
				c.write(name, "two")
				lags := true
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet && !isWatch(r) && lags {
						return old.serve(r)
					}
					return nil, nil
				})
				o, err := c.store.Get(c.Context(), key(name))
				if err == nil || o != nil {
					c.Errorf("a reader gets %v, %v, although the process wrote a later state", o, err)
				}
				lags = false
				c.wantNote(name, "two")
			})
		})
	}
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

// readsAtTrouble is a log handler that reads a store.
type readsAtTrouble struct {
	slog.Handler
	read func()
}

func (h readsAtTrouble) Handle(ctx context.Context, r slog.Record) error {
	h.read()
	return h.Handler.Handle(ctx, r)
}

// A log handler may read the store whose trouble it logs, even before the store is filled.
func TestLogHandlerReadsTheStore(t *testing.T) {
	for name, recovers := range map[string]bool{"the server recovers": true, "the server does not recover": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(key("a"), "one")
				start := time.Now()
				s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if recovers && time.Since(start) > time.Minute {
						return nil, nil
					}
					return status(500, metav1.StatusReasonInternalError, "no"), nil
				})
				var cms Resource[corev1.ConfigMap]
				handler := readsAtTrouble{slog.NewTextHandler(testWriter{t}, nil), func() {
					_, _ = cms.Cached().Get(context.Background(), key("a"))
				}}
				c, err := Config{Rest: restTo(s), Logger: slog.New(handler)}.Connect()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cms = For[corev1.ConfigMap](c).In("default")
				store := cms.Store(ctx)
				time.Sleep(10 * time.Minute)
				if store.Synced() != recovers {
					t.Errorf("the store is filled: %t", !recovers)
				}
				if recovers {
					if _, err := store.Get(t.Context(), key("a")); err != nil {
						t.Error(err)
					}
				}
				cancel()
				<-store.Done()
			})
		})
	}
}

// The function of an index reads the store of its own handle before the store is filled.
// The read fails, and the store is filled.
func TestIndexReadsItsOwnStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.put(key("b"), "two")
		cms := For[corev1.ConfigMap](s.client(t)).In("default")
		reads := make(map[bool]int)
		byNote := IndexBy(cms, func(o *corev1.ConfigMap) []string {
			_, err := cms.Cached().Get(context.Background(), key("b"))
			reads[err == nil]++
			return []string{noteOfConfigMap(o)}
		})
		store, _ := startStore(t, cms.ReadOnly())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := store.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		if reads[false] != 2 || reads[true] != 0 {
			t.Errorf("reads that failed and did not fail: %v", reads)
		}
		if keys, err := byNote.Keys(ctx); err != nil || len(keys) != 2 {
			t.Errorf("the index has %q: %v", keys, err)
		}
	})
}

// A program that declares an index again and again is told so once.
func TestIndexesWithoutEnd(t *testing.T) {
	s := newAPIServer()
	lines := new(lineCount)
	c, err := Config{Rest: restTo(s), Logger: slog.New(lines)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	cms := For[corev1.ConfigMap](c).In("default")
	for i := range 3 * manyIndexes {
		if i == manyIndexes-1 && lines.n > 0 {
			t.Errorf("%d lines about %d indexes", lines.n, i)
		}
		IndexBy(cms, func(o *corev1.ConfigMap) []string { return []string{o.Name} })
	}
	if lines.n != 1 {
		t.Errorf("%d lines about %d indexes, want one", lines.n, 3*manyIndexes)
	}
}

// lineCount counts log lines.
type lineCount struct{ n int }

func (*lineCount) Enabled(context.Context, slog.Level) bool { return true }
func (l *lineCount) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *lineCount) WithGroup(string) slog.Handler          { return l }

func (l *lineCount) Handle(context.Context, slog.Record) error {
	l.n++
	return nil
}
