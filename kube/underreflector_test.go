package kube

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
					_, _ = cms.In("default").Cached().Get(context.Background(), "a")
				}}
				c, err := Config{Rest: restTo(s), Logger: slog.New(handler)}.Connect()
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cms = For[corev1.ConfigMap](c).In("default")
				store := StoreOf(ctx, cms)
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
			_, err := cms.In("default").Cached().Get(context.Background(), "b")
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

// An observer of requests reads a store before the store is filled. The read fails, and
// the store is filled. It makes no difference who asks for the kind first.
func TestObserverReadsTheStore(t *testing.T) {
	for name, asksFirst := range map[string]bool{"the store asks for the kind": false,
		"a caller asks for the kind": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/apis/example.com/v1" {
						return nil, nil
					}
					time.Sleep(time.Second)
					return jsonAnswer(200, &metav1.APIResourceList{APIResources: []metav1.APIResource{
						{Name: "widgets", Kind: "Widget", Namespaced: true},
					}}), nil
				}
				var all Resource[unplaced]
				var failed atomic.Int64 // several goroutines make requests
				c, err := Config{Rest: restTo(s), Logger: slog.New(slog.DiscardHandler), Observe: func(RequestInfo) {
					if _, err := all.In("default").Cached().Get(context.Background(), "a"); err != nil {
						failed.Add(1)
					}
				}}.Connect()
				if err != nil {
					t.Fatal(err)
				}
				all = For[unplaced](c).In("default")
				if asksFirst {
					go func() { _, _ = all.Scope(t.Context()) }()
					synctest.Wait()
				}
				store, _ := startStore(t, all.ReadOnly())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := store.Sync(ctx); err != nil {
					t.Fatal(err)
				}
				if failed.Load() == 0 {
					t.Error("no read of the observer has failed")
				}
			})
		})
	}
}

// The function of an index reads an index that waits for that function. The store runs
// already, so the first use of an index builds it.
func TestIndexesThatWaitForEachOther(t *testing.T) {
	for name, other := range map[string]bool{"an index reads itself": false, "two indexes read each other": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAPIServer()
				s.put(key("a"), "one")
				s.put(key("b"), "two")
				cms := For[corev1.ConfigMap](s.client(t)).In("default")
				store, _ := startStore(t, cms.ReadOnly())
				if err := store.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				var indexes [2]*Index[corev1.ConfigMap, string]
				for i := range indexes {
					reads := indexes[:][i:]
					if other {
						reads = indexes[:][1-i:]
					}
					indexes[i] = IndexBy(cms, func(o *corev1.ConfigMap) []string {
						time.Sleep(time.Millisecond)
						for _, err := range reads[0].Get(context.Background(), "one") {
							if err == nil && !other { // one of two is built first
								t.Error("a read that would wait for itself finds an object")
							}
						}
						return []string{noteOfConfigMap(o)}
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var readers sync.WaitGroup
				for _, index := range indexes {
					readers.Go(func() {
						if keys, err := index.Keys(ctx); err != nil || len(keys) != 2 {
							t.Errorf("the index has %q: %v", keys, err)
						}
					})
				}
				readers.Wait()
			})
		})
	}
}

// A stack may be of any depth, and some of its frames may be inlined.
func TestUnderReflectorAtAnyDepth(t *testing.T) {
	inlined := func(f func() bool) bool { return f() }
	var at func(depth int) bool
	at = func(depth int) bool {
		if depth == 0 {
			return underReflector()
		}
		return inlined(func() bool { return at(depth - 1) })
	}
	for depth := range 200 {
		if at(depth) {
			t.Fatalf("a stack of depth %d counts as one below asReflector", depth)
		}
		below := false
		asReflector(func() { below = at(depth) })
		if !below {
			t.Fatalf("a stack of depth %d below asReflector does not count as such", depth)
		}
	}
}
