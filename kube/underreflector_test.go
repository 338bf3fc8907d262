package kube

import (
	"context"
	"log/slog"
	"net/http"
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
