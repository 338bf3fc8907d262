package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestReadersBeforeTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.intercept = func(int, *http.Request) (*http.Response, error) { return nil, refused() }
		store, _ := startStore(t, configMaps(s.client(t)))
		got := make(chan error)
		go func() {
			_, err := store.Get(t.Context(), key("a"))
			got <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, read := range map[string]func() error{
			"sync": func() error { return store.Sync(ctx) },
			"get":  func() error { _, err := store.Get(ctx, key("a")); return err },
			"all": func() (err error) {
				for _, err = range store.All(ctx) {
				}
				return err
			},
		} {
			if err := read(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if store.Synced() || !store.Stats().LastHeard.IsZero() {
			t.Error("synced with nothing")
		}
		s.setIntercept(nil)
		if err := <-got; err != nil {
			t.Errorf("the reader that waits: %v", err)
		}
		if err := store.Sync(t.Context()); err != nil || !store.Synced() {
			t.Error(err)
		}
	})
}

func TestReadersOfAStoppedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		store, stop := startStore(t, configMaps(s.client(t)))
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		<-store.Done()
		if _, err := store.Get(t.Context(), key("a")); !errors.Is(err, ErrStopped) {
			t.Errorf("get: %v", err)
		}
		if err := store.Sync(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("sync: %v", err)
		}
	})
}

func TestStoreIsSharedByAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		c := s.client(t)
		one, stopOne := startStore(t, configMaps(c))
		two, stopTwo := startStore(t, configMaps(c))
		other, stopOther := startStore(t, configMaps(c).Labeled("app=web"))
		views, stopViews := startStore(t, noteViews(c))
		synctest.Wait()
		if one.reads.table != two.reads.table || one.reads.table == other.reads.table || one.Done() == views.Done() {
			t.Fatal("the wrong stores are shared")
		}
		if n := len(s.paths()); n != 6 {
			t.Fatalf("%d requests: %q", n, s.paths())
		}
		stopOne()
		synctest.Wait()
		if _, err := one.Get(t.Context(), key("a")); err != nil {
			t.Errorf("while another needs it: %v", err)
		}
		stopTwo()
		<-one.Done()
		again, stopAgain := startStore(t, configMaps(c))
		if again.reads.table == one.reads.table {
			t.Error("a stopped store is handed out")
		}
		stopAgain()
		stopOther()
		stopViews()
		for _, done := range []<-chan struct{}{other.Done(), views.Done(), again.Done()} {
			<-done
		}
		if len(c.stores.tables) > 0 {
			t.Errorf("%d tables are left", len(c.stores.tables))
		}
	})
}

func TestStoreWithAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		<-StoreOf(ctx, configMaps(s.client(t))).Done()
	})
}

func TestStoreSwapsAtomicallyAtARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range 20 {
			s.put(key(fmt.Sprint("old", i)), "one")
		}
		store, _ := startStore(t, configMaps(s.client(t)))
		before := content(t, store)
		s.hold()
		for i := range 20 {
			s.remove(key(fmt.Sprint("old", i)))
			s.put(key(fmt.Sprint("new", i)), "one")
		}
		// The list comes in two parts, far apart.
		first := true
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if isWatch(r) || !first {
				return nil, nil
			}
			first = false
			whole, err := s.serve(r)
			if err != nil {
				return nil, err
			}
			resp, out := piped(r, s.contentType(r))
			go func() {
				defer out.Close()
				buf := make([]byte, 1000)
				_, _ = whole.Body.Read(buf)
				_, _ = out.Write(buf)
				time.Sleep(time.Minute)
				rest := make([]byte, 1<<20)
				n, _ := whole.Body.Read(rest)
				_, _ = out.Write(rest[:n])
			}()
			return resp, nil
		})
		s.loseHistory()
		time.Sleep(30 * time.Second)
		if got := content(t, store); !slices.Equal(got, before) {
			t.Errorf("in the middle of a listing: %q", got)
		}
		time.Sleep(time.Minute)
		after := content(t, store)
		if len(after) != 20 || slices.ContainsFunc(after, func(l string) bool { return strings.Contains(l, "old") }) {
			t.Errorf("after the listing: %q", after)
		}
	})
}

func TestStoreFindsByKeyLabelOwnerAndIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for i := range 30 {
			s.put(key(fmt.Sprint("o", i)), fmt.Sprint(i%3), func(o *modelObject) {
				o.labels = map[string]string{"half": fmt.Sprint(i % 2)}
				o.owner = types.UID(fmt.Sprint("owner", i%5))
			})
		}
		s.put(Key{Name: "cluster"}, "scoped")
		c := s.client(t)
		byNote := IndexBy(configMaps(c), func(o *corev1.ConfigMap) []string { return []string{o.Data["note"]} })
		store, _ := startStore(t, configMaps(c))
		count := func(seq func(func(*corev1.ConfigMap, error) bool)) int {
			n := 0
			for _, err := range seq {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		ctx := t.Context()
		if err := store.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		check := func(labeled, owned, indexed int) {
			t.Helper()
			if n := count(store.Labeled(ctx, "half=1")); n != labeled {
				t.Errorf("by label: %d, want %d", n, labeled)
			}
			if n := count(store.OwnedBy(ctx, "owner2")); n != owned {
				t.Errorf("by owner: %d, want %d", n, owned)
			}
			if n := count(byNote.Get(ctx, "1")); n != indexed {
				t.Errorf("by index: %d, want %d", n, indexed)
			}
		}
		check(15, 6, 10)
		s.remove(key("o7")) // half 1, owner2, note 1
		synctest.Wait()
		check(14, 5, 9)
		s.put(key("o1"), "2", func(o *modelObject) { o.labels, o.owner = nil, "owner2" })
		synctest.Wait()
		check(13, 6, 8)
		if keys, err := byNote.Keys(ctx); err != nil || len(keys) != 4 {
			t.Errorf("keys %q, %v", keys, err)
		}
		for _, k := range []Key{{"any", "cluster"}, {"", "cluster"}} {
			if o, err := store.Get(ctx, k); err != nil || o.Name != "cluster" {
				t.Errorf("cluster-scoped as %v: %v", k, err)
			}
		}
		for _, k := range []Key{{"", "o1"}, {"other", "o1"}, key("o7")} {
			if _, err := store.Get(ctx, k); !apierrors.IsNotFound(err) {
				t.Errorf("get %v: %v", k, err)
			}
		}
		for _, err := range store.Labeled(ctx, "a=(") {
			if err == nil || !strings.Contains(err.Error(), "label selector") {
				t.Errorf("bad selector: %v", err)
			}
		}
		// The reader owns the objects that it reads.
		a, _ := store.Get(ctx, key("o2"))
		a.Data["note"], a.Labels["half"] = "changed", "changed"
		if b, _ := store.Get(ctx, key("o2")); b.Data["note"] != "2" || b.Labels["half"] != "0" {
			t.Errorf("a read object is shared: %v", b)
		}
		st := store.Stats()
		if st.Objects != 30 || st.Bytes < 30*50 || time.Since(st.LastHeard) > time.Minute {
			t.Errorf("stats: %+v", st)
		}
		for _, k := range slices.Collect(func(yield func(Key) bool) {
			for o := range store.All(ctx) {
				if !yield(KeyOf(o)) {
					return
				}
			}
		}) {
			s.remove(k)
		}
		synctest.Wait()
		if st := store.Stats(); st.Objects != 0 || st.Bytes != 0 {
			t.Errorf("when all is gone: %+v", st)
		}
		for _, x := range store.reads.table.now().indexes {
			if n := sizeOf(x.found); n != 0 {
				t.Errorf("when all is gone, the index %T has %d", x.by, n)
			}
		}
	})
}

func TestSeveralNamespaces(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, s *apiServer, watch func(func(narrow)) *follower) {
		s.put(Key{"n1", "a"}, "one")
		s.put(Key{"n2", "b"}, "one")
		s.put(Key{"n3", "c"}, "one")
		up := make(chan struct{})
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/n2/") {
				select {
				case <-up:
				default:
					return nil, refused()
				}
			}
			return nil, nil
		}
		f := watch(func(n narrow) { n.In("n1", "n2", "n1") })
		wantLines(t, "one namespace", names(f.taken()), "ADDED n1/a")
		// A namespace that is listed twice is still one of two.
		s.forget()
		s.cutWatches()
		time.Sleep(10 * time.Second)
		wantLines(t, "one namespace, twice", names(f.taken()))
		close(up)
		time.Sleep(maxDelay)
		wantLines(t, "both", names(f.taken()), "ADDED n2/b", "SYNCED")
		s.put(Key{"n2", "d"}, "one")
		s.remove(Key{"n1", "a"})
		got := names(f.taken())
		slices.Sort(got)
		wantLines(t, "then", got, "ADDED n2/d", "DELETED n1/a")
	})
}

func TestLeavingAWatchOfSeveralNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"n1", "a"}, "one")
		s.put(Key{"n2", "b"}, "one")
		for range configMaps(s.client(t)).In("n1", "n2", "n3").Watch(t.Context()) {
			break
		}
		// The bubble ends only when all goroutines have ended.
	})
}

func TestStoreOfSeveralNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		for _, ns := range []string{"n1", "n2", "n3"} {
			s.put(Key{ns, "a"}, "one")
		}
		store, _ := startStore(t, configMaps(s.client(t)).In("n1", "n2"))
		wantLines(t, "content", content(t, store), "n1/a one", "n2/a one")
		f := follow(t, store.Watch, noteOfConfigMap)
		got := f.taken()
		slices.Sort(got)
		wantLines(t, "changes", got, "ADDED n1/a one", "ADDED n2/a one", "SYNCED")
		s.hold()
		s.remove(Key{"n1", "a"})
		s.loseHistory()
		time.Sleep(time.Minute)
		wantLines(t, "after the relist", content(t, store), "n2/a one")
		wantLines(t, "changes", f.taken(), "DELETED n1/a one")
	})
}

func TestHandleWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAPIServer().client(t)
		r := ViewOf[metav1.PartialObjectMetadata](c).ReadOnly()
		n := 0
		for _, err := range r.Watch(t.Context()) {
			if n++; !errors.Is(err, ErrKind) {
				t.Errorf("watch: %v", err)
			}
		}
		store := StoreOf(t.Context(), r)
		<-store.Done()
		for _, err := range store.Watch(t.Context()) {
			if n++; !errors.Is(err, ErrKind) {
				t.Errorf("changes: %v", err)
			}
		}
		if err := store.Sync(t.Context()); !errors.Is(err, ErrKind) {
			t.Errorf("sync: %v", err)
		}
		for _, err := range IndexBy(r, func(*metav1.PartialObjectMetadata) []int { return nil }).Get(t.Context(), 1) {
			if n++; !errors.Is(err, ErrKind) {
				t.Errorf("index: %v", err)
			}
		}
		if n != 3 {
			t.Errorf("%d errors", n)
		}
	})
}
