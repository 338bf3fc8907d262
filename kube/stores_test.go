package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
)

// clientHandler is a slog handler that reads from a store for each record. A handler that
// writes Kubernetes events may do so.
type clientHandler struct {
	slog.Handler
	client *Client
	logged atomic.Int32
}

func (h *clientHandler) Handle(ctx context.Context, _ slog.Record) error {
	h.logged.Add(1)
	_, err := For[corev1.ConfigMap](h.client).In("default").Cached().Get(ctx, "a")
	return err
}

// The logger is called without a lock, so that it can use the client.
func TestLoggerUsesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		handler := &clientHandler{Handler: slog.DiscardHandler}
		c, err := Config{Rest: restTo(s), Logger: slog.New(enabled{handler})}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		handler.client = c
		for range 2 * churnStarts {
			ctx, cancel := context.WithCancel(t.Context())
			store := StoreOf(ctx, For[corev1.ConfigMap](c).In("default"))
			if err := store.Sync(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			<-store.Done()
		}
		if n := handler.logged.Load(); n != 1 {
			t.Errorf("%d records were logged", n)
		}
	})
}

// enabled handles the records of all levels.
type enabled struct{ slog.Handler }

func (enabled) Enabled(context.Context, slog.Level) bool { return true }

// A logger may read by an index while it logs a panic of that index.
func TestLoggerUsesTheIndex(t *testing.T) {
	handler := &indexHandler{Handler: slog.DiscardHandler}
	c, err := Config{Rest: restTo(newAPIServer()), Logger: slog.New(enabled{handler})}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	handler.index = IndexBy(configMaps(c), func(*corev1.ConfigMap) []string { panic("no such note") })
	handler.index.keysOf(key("a"), new(corev1.ConfigMap))
	if !handler.logged {
		t.Error("the panic was not logged")
	}
}

type indexHandler struct {
	slog.Handler
	index  *Index[corev1.ConfigMap, string]
	logged bool
}

func (h *indexHandler) Handle(context.Context, slog.Record) error {
	h.logged = true
	h.index.keysOf(key("b"), new(corev1.ConfigMap))
	return nil
}

// If several stores hold the objects of a handle, the same one always serves the handle.
func TestStoreThatServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"one", "a"}, "1")
		cms := For[corev1.ConfigMap](s.client(t))
		one := cms.In("one", "zero").In("one").handle // no store of both namespaces runs at first
		o := new(corev1.ConfigMap)
		o.Name, o.Namespace = "a", "one"
		stores := &cms.handle.client.stores
		check := func(state string, want, wantShowing Reader[corev1.ConfigMap]) {
			t.Helper()
			synctest.Wait()
			for range 50 {
				if is := stores.serving(one); is == nil || tableOf(is.handle) != tableOf(want.handle) {
					t.Fatalf("%s: cached reads are served by %v", state, is.handle.namespaces)
				}
				if is := stores.showing(one, Key{"one", "a"}, o); is == nil || tableOf(is.handle) != tableOf(wantShowing.handle) {
					t.Fatalf("%s: Ensure looks at %v %s", state, is.handle.namespaces, is.handle.selector.label)
				}
			}
		}
		labeled := cms.Labeled("!app").ReadOnly()
		startStore(t, labeled)
		synctest.Wait()
		if is := stores.serving(one); is != nil {
			t.Errorf("a store with a label selector serves cached reads without one")
		}
		first := cms.In("one", "two").ReadOnly()
		_, stop := startStore(t, first)
		for _, more := range []string{"three", "four", "five"} {
			startStore(t, cms.In("one", more).ReadOnly())
		}
		all := cms.ReadOnly()
		startStore(t, all)
		check("several are filled", first, first)

		_, stopOwn := startStore(t, cms.In("one").ReadOnly())
		check("its own runs", cms.In("one").ReadOnly(), cms.In("one").ReadOnly())
		stopOwn()
		stop()
		check("the first has stopped", cms.In("one", "three").ReadOnly(), cms.In("one", "three").ReadOnly())

		_, _ = startStore(t, first)
		check("it is started again", cms.In("one", "three").ReadOnly(), cms.In("one", "three").ReadOnly())

		both := cms.In("one", "zero").ReadOnly()
		startStore(t, both)
		check("the store of the handle that was narrowed runs", both, both)
	})
}

// A filled store serves before a store that is not filled.
func TestFilledStoreServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"one", "a"}, "1")
		cms := For[corev1.ConfigMap](s.client(t))
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.Path, "/namespaces/two/") {
				return nil, nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		startStore(t, cms.In("one", "two").ReadOnly())
		startStore(t, cms.ReadOnly())
		synctest.Wait()
		if _, err := cms.In("one").In("one").Cached().Get(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}

// A handle that reads JSON cannot be served by a store that keeps protobuf.
func TestStoreOfAnotherEncoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		c := s.client(t)
		store, _ := startStore(t, noteViews(c))
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if o, err := noteViews(c).In("default").Cached().Get(t.Context(), "a"); err != nil || o.Data["note"] != "one" {
			t.Errorf("by the same handle: %v, %v", o, err)
		}
		asJSON := ViewOf[noteView](c, Kind{GVK: GVK{Version: "v1", Kind: "ConfigMap"}})
		if o, err := asJSON.In("default").Cached().Get(t.Context(), "a"); !errors.Is(err, ErrNotCached) {
			t.Errorf("by a handle that reads JSON: %v, %v", o, err)
		}
	})
}
