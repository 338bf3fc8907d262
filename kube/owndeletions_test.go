package kube

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube/internal/own"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnDeletionsNeedNoWait(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.remove("a")
		c.wantNote("a", "")
		wantLines(c.T, "all", content(c.T, c.store))
		c.write("b", "new")
		c.remove("b")
		c.wantNote("b", "")
		c.took(0)
		c.write("a", "again") // under another uid
		c.wantNote("a", "again")
		c.took(0)
		// The watch shows all of it, step by step, and no step is visible to readers.
		c.s.mu.Lock()
		last := c.s.rv
		c.s.mu.Unlock()
		for {
			synctest.Wait()
			c.wantNote("b", "")
			c.wantNote("a", "again")
			c.s.mu.Lock()
			done := c.s.held >= last
			c.s.held++
			close(c.s.changed)
			c.s.changed = make(chan struct{})
			c.s.mu.Unlock()
			if done {
				break
			}
		}
		synctest.Wait()
		c.remembersNothing()
	})
}

func TestRemovingTheLastFinalizerIsADeletion(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		now := metav1.Now()
		c.s.release()
		c.s.put(key("held"), "one", func(o *modelObject) {
			o.extra = metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"example.com/f"}}
		})
		synctest.Wait()
		c.s.hold()
		c.wantNote("held", "one")
		c.write("held", "one", func(o *corev1.ConfigMap) { o.Finalizers = nil })
		c.wantNote("held", "")
		c.took(0)
	})
}

func TestDeleteAllAndReads(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		held := c.write("held", "one", func(o *corev1.ConfigMap) { o.Finalizers = []string{"example.com/f"} })
		c.s.release()
		synctest.Wait()
		c.s.hold()
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodDelete {
				return nil, nil
			}
			get := r.Clone(r.Context())
			get.Method = http.MethodGet
			resp, err := c.s.list(get, "default") // the objects as they were
			c.s.remove(key("a"))
			now := metav1.Now()
			c.s.put(key("held"), "one", func(o *modelObject) { o.extra.DeletionTimestamp = &now })
			return resp, err
		})
		if err := c.cms.DeleteAll(c.Context()); err != nil {
			c.Fatal(err)
		}
		go func() {
			time.Sleep(ownWriteWait / 2)
			c.s.release()
		}()
		wantLines(c.T, "all", content(c.T, c.store), "default/held one")
		c.took(ownWriteWait / 2)
		o, err := c.store.Get(c.Context(), key("held"))
		if err != nil || o.DeletionTimestamp == nil || o.UID != held.UID {
			c.Errorf("held: %v, %v", o, err)
		}
		c.remembersNothing()
	})
}

// A deletion is remembered until the watch of its own namespace has come as far. The
// watches of other namespaces do not matter.
func TestOwnDeletionsWhileAnotherNamespaceIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"one", "a"}, "1")
		s.put(Key{"two", "a"}, "2")
		cms := For[corev1.ConfigMap](s.client(t))
		store, _ := startStore(t, cms.In("one", "two").ReadOnly())
		wantLines(t, "at first", content(t, store), "one/a 1", "two/a 2")
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/two/") {
				return status(403, metav1.StatusReasonForbidden, "not now"), nil
			}
			return nil, nil
		})
		s.cutWatches()
		synctest.Wait()
		if err := cms.In("two").Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		wantLines(t, "after the deletion", content(t, store), "one/a 1")
		time.Sleep(own.Kept + 2*time.Minute)
		wantLines(t, "much later", content(t, store), "one/a 1")
	})
}

// The memory of own writes does not grow if no bookmark comes.
func TestOwnWritesWithoutBookmarks(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.s.release()
		c.s.bookmarks = 1000 * time.Hour
		c.s.cutWatches()
		synctest.Wait()
		for i := range 100 {
			name := string(rune('b'+i%20)) + string(rune('a'+i/20))
			c.write(name, "one")
			time.Sleep(time.Minute)
			c.s.remove(key(name))
		}
		if n := strings.Count(remembered(c.store.reads.table), ";"); n > 12 {
			c.Errorf("%d objects are remembered", n)
		}
	})
}
