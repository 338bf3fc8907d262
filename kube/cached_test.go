package kube

import (
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func uid(s string) types.UID { return types.UID(s) }

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func namesOf(t *testing.T, list iter.Seq2[*corev1.ConfigMap, error]) (names []string) {
	t.Helper()
	for o, err := range list {
		if err != nil {
			t.Error(err)
			continue
		}
		names = append(names, KeyOf(o).String())
	}
	slices.Sort(names)
	return names
}

// The running store serves cached reads. Without one, their error says how to have one.
func TestCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		web := func(o *modelObject) { o.labels, o.owner = map[string]string{"app": "web"}, "owner" }
		s.put(Key{"one", "a"}, "1", web)
		s.put(Key{"one", "b"}, "2")
		s.put(Key{"two", "a"}, "3", web)
		s.put(Key{"three", "a"}, "4")
		cms := For[corev1.ConfigMap](s.client(t))
		ctx := t.Context()

		_, err := cms.In("one").In("one").Cached().Get(ctx, "a")
		if !errors.Is(err, ErrNotCached) || !strings.Contains(err.Error(), "get ConfigMap one/a") ||
			!strings.Contains(err.Error(), "Owns") {
			t.Errorf("without a store: %v", err)
		}
		for _, err := range cms.Cached().All(ctx) {
			if !errors.Is(err, ErrNotCached) {
				t.Errorf("without a store: %v", err)
			}
		}
		if n := len(s.paths()); n > 0 {
			t.Errorf("%d requests", n)
		}

		_, stop := startStore(t, cms.ReadOnly())
		// The read waits for the first sync.
		wantLines(t, "all", namesOf(t, cms.Cached().All(ctx)), "one/a", "one/b", "three/a", "two/a")
		synctest.Wait()
		requests := len(s.paths())
		one := cms.In("one").Cached()
		for range 50 {
			wantLines(t, "of a namespace", namesOf(t, one.All(ctx)), "one/a", "one/b")
			wantLines(t, "of two", namesOf(t, cms.In("one", "two").Cached().All(ctx)), "one/a", "one/b", "two/a")
			wantLines(t, "labeled", namesOf(t, one.Labeled(ctx, "app=web")), "one/a")
			wantLines(t, "by the handle's selector", namesOf(t, cms.Labeled("app=web").Cached().All(ctx)), "one/a", "two/a")
			wantLines(t, "by both", namesOf(t, cms.Labeled("app=web").In("two").Cached().All(ctx)), "two/a")
			wantLines(t, "of an owner", namesOf(t, one.OwnedBy(ctx, "owner")), "one/a")
		}
		if o, err := one.Get(ctx, "b"); err != nil || o.Data["note"] != "2" {
			t.Errorf("of the handle's namespace: %v, %v", o, err)
		}
		for what, err := range map[string]error{
			"without the label":    second(cms.Labeled("app=web").In("one").Cached().Get(ctx, "b")),
			"of what is not there": second(one.Get(ctx, "x")),
		} {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := len(s.paths()); n != requests {
			t.Errorf("reads made %d requests", n-requests)
		}

		// Reads see own writes.
		s.hold()
		if err := cms.In("one").Delete(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		o := new(corev1.ConfigMap)
		o.Name, o.Data = "c", map[string]string{"note": "own"}
		if _, err := cms.In("one").Create(ctx, o); err != nil {
			t.Fatal(err)
		}
		wantLines(t, "after own writes", namesOf(t, one.All(ctx)), "one/a", "one/c")
		s.release()

		// Cached does not serve reads that no store covers: of another type, or by a
		// selector of fields.
		if _, err := noteViews(cms.handle.client).In("one").Cached().Get(ctx, "a"); !errors.Is(err, ErrNotCached) {
			t.Errorf("of another type: %v", err)
		}
		if _, err := cms.Fielded("data.note=1").In("one").Cached().Get(ctx, "a"); !errors.Is(err, ErrNotCached) {
			t.Errorf("by a field: %v", err)
		}
		stop()
		synctest.Wait()
		if _, err := one.Get(ctx, "a"); !errors.Is(err, ErrNotCached) {
			t.Errorf("after the store has stopped: %v", err)
		}
		narrow, _ := startStore(t, cms.In("one").ReadOnly())
		for _, err := range cms.Cached().All(ctx) {
			if !errors.Is(err, ErrNotCached) {
				t.Errorf("of more than the store has: %v", err)
			}
		}
		if _, err := cms.Cached().Get(ctx, "a"); !errors.Is(err, ErrNotCached) {
			t.Errorf("of more than the store has: %v", err)
		}
		if err := narrow.Sync(ctx); err != nil {
			t.Error(err)
		}
		if _, err := (Reader[corev1.ConfigMap]{}).In("one").Cached().Get(ctx, "a"); !errors.Is(err, errNoHandle) {
			t.Errorf("of no handle: %v", err)
		}
	})
}

func second[A, B any](_ A, b B) B { return b }
