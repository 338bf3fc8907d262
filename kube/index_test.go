package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// notes is the function of an index by the note of a ConfigMap.
func notes(o *corev1.ConfigMap) []string { return []string{o.Data["note"]} }

// found lists the objects that an index has for a key, sorted by name.
func found(t *testing.T, x *Index[corev1.ConfigMap, string], note string) (names []string) {
	t.Helper()
	for o, err := range x.Get(t.Context(), note) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

func TestIndexIsBuiltWhenItsStoreOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.put(key("b"), "two")
		maps := configMaps(s.client(t))
		var calls atomic.Int32
		byNote := IndexBy(maps, func(o *corev1.ConfigMap) []string { calls.Add(1); return notes(o) })
		for _, err := range byNote.Get(t.Context(), "one") {
			if !errors.Is(err, ErrNotCached) || !strings.Contains(err.Error(), "or open a store with the handle's Open") {
				t.Errorf("without a store: %v", err)
			}
		}
		if _, err := byNote.Keys(t.Context()); !errors.Is(err, ErrNotCached) {
			t.Errorf("the keys without a store: %v", err)
		}
		other := IndexBy(maps.In("default"), notes) // the index of a narrower handle, which the same store serves
		store, stop := startStore(t, maps)
		if err := store.Sync(t.Context()); err != nil || calls.Load() != 2 || store.reads.table.now().index(byNote) == nil {
			t.Fatalf("after the sync, %v, the index has seen %d objects", err, calls.Load())
		}
		wantLines(t, "by the index", found(t, byNote, "one"), "a")
		if n := len(store.reads.table.now().indexes); n != 1 || calls.Load() != 2 {
			t.Errorf("there are %d indexes, and %d calls after a look-up", n, calls.Load())
		}
		wantLines(t, "by the index of a narrower handle", found(t, other, "one"), "a")
		wantLines(t, "by the index of a handle elsewhere", found(t, IndexBy(maps.In("elsewhere"), notes), "one"))
		late := IndexBy(maps, notes) // the store runs already
		wantLines(t, "by a late index", found(t, late, "two"), "b")
		s.put(key("c"), "two")
		synctest.Wait()
		wantLines(t, "by a late index", found(t, late, "two"), "b", "c")
		keys, err := late.Keys(t.Context())
		if slices.Sort(keys); err != nil || !slices.Equal(keys, []string{"one", "two"}) {
			t.Errorf("the keys are %q, %v", keys, err)
		}
		stop()
		<-store.Done()
		for _, err := range byNote.Get(t.Context(), "one") {
			if !errors.Is(err, ErrNotCached) {
				t.Errorf("after the end of the store: %v", err)
			}
		}
		again, _ := startStore(t, maps)
		if err := again.Sync(t.Context()); err != nil || len(again.reads.table.now().indexes) != 2 {
			t.Errorf("a store that opens again has %d indexes, %v", len(again.reads.table.now().indexes), err)
		}
	})
	for _, err := range IndexBy(Reader[corev1.ConfigMap]{}, notes).Get(t.Context(), "one") {
		if !errors.Is(err, errNoHandle) {
			t.Errorf("of a zero handle: %v", err)
		}
	}
}

// A read of an index is no older than the own writes of this process.
func TestIndexShowsOwnWrites(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		byNote := IndexBy(c.cms.ReadOnly(), notes)
		c.write("b", "new")
		c.write("a", "other")
		wantLines(c.T, "by the index", found(c.T, byNote, "new"), "b")
		wantLines(c.T, "by the index", found(c.T, byNote, "one"))
		wantLines(c.T, "by the index", found(c.T, byNote, "other"), "a")
	})
}

// blocking is the function of an index. It blocks at objects of a certain name.
type blocking struct {
	name  string
	open  chan struct{}
	stood atomic.Bool
}

func (g *blocking) notes(o *corev1.ConfigMap) []string {
	if o.Name == g.name {
		g.stood.Store(true)
		<-g.open
	}
	return notes(o)
}

// usable checks that a store with two namespaces can be read, can get events and can be
// followed without a wait.
func usable(t *testing.T, s *apiServer, store *Store[corev1.ConfigMap], f *follower) {
	t.Helper()
	start := time.Now()
	f.taken()
	s.put(Key{"other", "event"}, "event"+start.String(), func(o *modelObject) {
		o.labels, o.owner = map[string]string{"app": "web"}, "owner"
	})
	synctest.Wait()
	if o, err := store.Get(t.Context(), Key{"other", "event"}); err != nil || o.Data["note"] != "event"+start.String() {
		t.Errorf("an event is not seen: %v, %v", o, err)
	}
	count := func(what string, seq func(func(*corev1.ConfigMap, error) bool), want int) {
		t.Helper()
		n := 0
		for _, err := range seq {
			if n++; err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n != want {
			t.Errorf("%s: there are %d, want %d", what, n, want)
		}
	}
	count("by label", store.Labeled(t.Context(), "app=web"), 1)
	count("by owner", store.OwnedBy(t.Context(), "owner"), 1)
	count("all", store.All(t.Context()), store.Stats().Objects)
	if got := f.taken(); len(got) != 1 || !strings.Contains(got[0], "other/event") {
		t.Errorf("a loop over changes gets %q", got)
	}
	if d := time.Since(start); d > 0 {
		t.Errorf("something waited for %s", d)
	}
}

// If the function of an index blocks, it holds up the reads of that index and the events
// of the namespace that it was called for. Nothing else waits.
func TestNothingWaitsForAnIndex(t *testing.T) {
	start := func(t *testing.T, s *apiServer) (Reader[corev1.ConfigMap], *Store[corev1.ConfigMap], *follower) {
		for i := range 20 {
			s.put(Key{"default", fmt.Sprint("o", i)}, "one")
			s.put(Key{"other", fmt.Sprint("o", i)}, "one")
		}
		maps := configMaps(s.client(t)).In("default", "other")
		store, _ := startStore(t, maps)
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return maps, store, follow(t, store.Watch, noteOfConfigMap)
	}
	t.Run("while it is built", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer()
			maps, store, f := start(t, s)
			g := &blocking{name: "o7", open: make(chan struct{})}
			slow, quick := IndexBy(maps, g.notes), IndexBy(maps, notes)
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					if n := len(found(t, slow, "one")); n != 38 {
						t.Errorf("the slow index finds %d", n)
					}
				})
			}
			synctest.Wait()
			if !g.stood.Load() {
				t.Fatal("the index is not being built")
			}
			usable(t, s, store, f)
			if n := len(found(t, quick, "one")); n != 40 {
				t.Errorf("another index finds %d", n)
			}
			s.remove(Key{"default", "o1"})
			s.put(Key{"other", "o1"}, "two")
			synctest.Wait()
			close(g.open)
			readers.Wait()
			usable(t, s, store, f)
		})
	})
	t.Run("at an event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer()
			maps, store, f := start(t, s)
			g := &blocking{name: "slow", open: make(chan struct{})}
			x := IndexBy(maps, g.notes)
			found(t, x, "one")
			s.put(key("slow"), "new")
			synctest.Wait()
			if !g.stood.Load() {
				t.Fatal("the index is not told of the event")
			}
			usable(t, s, store, f)
			close(g.open)
			synctest.Wait()
			f.taken()
			usable(t, s, store, f)
			wantLines(t, "by the index", found(t, x, "new"), "slow")
		})
	})
	t.Run("at a relist", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer()
			maps, store, f := start(t, s)
			g := &blocking{name: "slow", open: make(chan struct{})}
			x := IndexBy(maps, g.notes)
			found(t, x, "one")
			s.hold()
			for i := range 20 {
				s.put(Key{"default", fmt.Sprint("o", i)}, "two")
			}
			s.put(key("slow"), "new")
			s.remove(key("o3"))
			s.loseHistory()
			time.Sleep(time.Minute)
			if !g.stood.Load() {
				t.Fatal("there is no relist")
			}
			if n := len(found(t, x, "two")); n != 0 {
				t.Errorf("%d objects of an unfinished relist are seen", n)
			}
			usable(t, s, store, f)
			usable(t, s, store, f)
			close(g.open)
			synctest.Wait()
			f.taken()
			usable(t, s, store, f)
			if n := len(found(t, x, "two")); n != 19 {
				t.Errorf("after the relist %d objects are found", n)
			}
			if _, err := store.Get(t.Context(), key("o3")); err == nil {
				t.Error("an object that is gone is still there")
			}
		})
	})
	t.Run("while loops stand still", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer()
			_, store, f := start(t, s)
			open := make(chan struct{})
			var loops sync.WaitGroup
			stand := func(seq func(func(*corev1.ConfigMap, error) bool)) {
				loops.Go(func() {
					for _, err := range seq {
						if err != nil {
							t.Error(err)
						}
						<-open
					}
				})
			}
			s.put(Key{"default", "labeled"}, "one", func(o *modelObject) {
				o.labels, o.owner = map[string]string{"is": "so"}, "o"
			})
			synctest.Wait()
			stand(store.All(t.Context()))
			stand(store.Labeled(t.Context(), "is=so"))
			stand(store.OwnedBy(t.Context(), "o"))
			loops.Go(func() {
				for range store.Watch(t.Context()) {
					<-open
					return
				}
			})
			synctest.Wait()
			usable(t, s, store, f)
			close(open)
			loops.Wait()
		})
	})
}

// If the function of an index fails for an object, the object is not in the index, and
// everything else goes on. The first failure is logged.
func TestIndexWhoseFunctionPanics(t *testing.T) {
	testFailingIndex(t, "no such note", func() { panic("no such note") })
}

func TestIndexWhoseFunctionEndsItsGoroutine(t *testing.T) {
	testFailingIndex(t, "runtime.Goexit", runtime.Goexit)
}

func testFailingIndex(t *testing.T, logged string, fail func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, name := range []string{"a", "bad", "worse"} {
			s.put(key(name), "one")
		}
		var log bytes.Buffer
		c, err := Config{Rest: restTo(s), Logger: slog.New(slog.NewTextHandler(&log, nil))}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		maps := configMaps(c)
		x := IndexBy(maps, func(o *corev1.ConfigMap) []string {
			if o.Name != "a" && o.Data["note"] == "one" {
				fail()
			}
			return notes(o)
		})
		store, _ := startStore(t, maps)
		wantLines(t, "all", content(t, store), "default/a one", "default/bad one", "default/worse one")
		wantLines(t, "by the index", found(t, x, "one"), "a")
		s.put(key("bad"), "two")
		s.put(key("b"), "one")
		synctest.Wait()
		wantLines(t, "by the index", found(t, x, "one"), "a")
		wantLines(t, "by the index", found(t, x, "two"), "bad")
		s.put(key("bad"), "one")
		s.put(key("a"), "two")
		synctest.Wait()
		wantLines(t, "by the index", found(t, x, "two"), "a")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		for _, want := range []string{logged, "index_test.go", "default/"} {
			if len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("the log has %d lines, want one with %s: %s", len(lines), want, log.String())
			}
		}
	})
}

// The keys of a narrow handle differ from the keys of the wider store that serves it.
func TestKeysOfANarrowHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"one", "a"}, "1")
		s.put(Key{"two", "a"}, "2")
		s.put(Key{"two", "b"}, "1")
		cms := For[corev1.ConfigMap](s.client(t))
		startStore(t, cms.ReadOnly())
		keys, err := IndexBy(cms.In("one"), notes).Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, "the keys", keys, "1")
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
