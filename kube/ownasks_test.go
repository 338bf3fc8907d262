package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube/internal/own"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asked returns the reads that the server was asked for since a number of requests.
func (c *ownCase) asked(since int) (asked []string) {
	for _, path := range c.s.paths()[since:] {
		if path == "list" || path == "page" {
			asked = append(asked, path)
		}
	}
	return asked
}

func ownedByUID(owner string) func(*corev1.ConfigMap) {
	return func(o *corev1.ConfigMap) {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: uid(owner)}}
	}
}

// Any number of readers may ask for writes that the watch has not shown. The server is
// asked once for each write, and only about objects that the readers may ask for.
func TestOneQuestionForAWrite(t *testing.T) {
	for _, n := range []int{askedEach, askedEach + 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.elsewhere()
				for i := range n {
					c.write(fmt.Sprintf("o%02d", i), "one", ownedByUID("mine"))
				}
				before := len(c.s.paths())
				read := func(owner string, want int) {
					var readers sync.WaitGroup
					for range 160 {
						readers.Go(func() {
							found := 0
							for _, err := range c.store.OwnedBy(c.Context(), uid(owner)) {
								if err != nil {
									c.Error(err)
								}
								found++
							}
							if found != want {
								c.Errorf("%d objects of %s are found, want %d", found, owner, want)
							}
						})
					}
					readers.Wait()
				}
				read("another", 0)
				c.took(0)
				if asked := c.asked(before); len(asked) > 0 {
					c.Errorf("the server was asked about objects that do not matter: %q", asked)
				}
				read("mine", n)
				c.took(ownWriteWait)
				read("mine", n)
				c.took(0)
				want := n
				if n > askedEach {
					want = 1
				}
				if asked := c.asked(before); len(asked) != want {
					c.Errorf("the server was asked %d times, want %d", len(asked), want)
				}
				// A later write needs a question of its own.
				c.write("o00", "two", ownedByUID("mine"))
				c.wantNote("o00", "two")
				c.took(ownWriteWait)
				c.s.release()
				synctest.Wait()
				c.wantNote("o00", "two")
				c.took(0)
				c.remembersNothing()
			})
		})
	}
}

// If a reader goes, the waiting readers take over its question.
func TestQuestionWhoseReaderGoes(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.elsewhere()
		c.write("b", "one")
		slow := true
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || isWatch(r) || !slow {
				return nil, nil
			}
			slow = false
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		})
		first, cancel := context.WithCancel(c.Context())
		read := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() { _, err := c.store.Get(ctx, key("b")); ended <- err }()
			return ended
		}
		goes := read(first)
		time.Sleep(ownWriteWait + time.Millisecond)
		stays := read(c.Context())
		time.Sleep(ownWriteWait + time.Millisecond)
		cancel()
		if err := <-goes; err == nil {
			c.Error("the reader that goes has an answer")
		}
		if err := <-stays; err != nil {
			c.Errorf("the reader that stays: %v", err)
		}
	})
}

// All callers that refresh a store at a take-over share one list.
func TestRefreshOnceForAll(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.s.put(key("a"), "by a predecessor")
		before := len(c.s.paths())
		var all sync.WaitGroup
		for range 50 {
			feed := c.cms.Open(context.Background())
			all.Go(func() {
				if err := feed.Refresh(c.Context()); err != nil {
					c.Error(err)
				}
				feed.Close()
			})
		}
		all.Wait()
		if asked := c.asked(before); len(asked) != 1 {
			c.Errorf("the server was asked %q, want one list", asked)
		}
		c.start = time.Now()
		c.wantNote("a", "by a predecessor")
		c.took(ownWriteWait)
		// A caller that comes while a list is under way needs another list.
		feed := c.cms.Open(context.Background())
		defer feed.Close()
		for range 2 {
			if err := feed.Refresh(c.Context()); err != nil {
				c.Error(err)
			}
		}
		if asked := c.asked(before); len(asked) != 4 {
			c.Errorf("the server was asked %q", asked)
		}
		closed := c.cms.Labeled("app=web").Open(context.Background())
		closed.Close()
		if err := closed.Refresh(c.Context()); !errors.Is(err, ErrStopped) {
			c.Errorf("of a closed informer: %v", err)
		}
	})
}

// Reads find the existing objects without the deleted ones, for any number of remembered
// deletions.
func TestReadsWithManyDeletions(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		for i := range 300 {
			c.cms.handle.client.stores.deleted(c.cms.handle.kind, key(fmt.Sprint("gone", i)), uid(fmt.Sprint(i)))
		}
		wantLines(c.T, "all", content(c.T, c.store), "default/a one")
		c.remove("a")
		wantLines(c.T, "all", content(c.T, c.store))
		c.s.release()
		synctest.Wait()
		if kept := remembered(c.store.reads.table); strings.Contains(kept, "default/a ") {
			c.Errorf("a deletion that was told of is remembered: %s", kept)
		}
		time.Sleep(own.Kept + 2*time.Minute)
		c.remembersNothing()
	})
}

// If a store is opened again and again, that is logged once.
func TestStoreOpenedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(strings.Builder)
		c, err := Config{Rest: restTo(newAPIServer()), Logger: textLogger(log)}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		open := func() {
			ctx, cancel := context.WithCancel(t.Context())
			store := StoreOf(ctx, For[corev1.ConfigMap](c).In("default"))
			_ = store.Sync(t.Context())
			cancel()
			<-store.Done()
		}
		for range 2 * churnStarts {
			open()
			time.Sleep(churnWithin)
		}
		if log.Len() > 0 {
			t.Errorf("of one a minute: %s", log)
		}
		for range 3 * churnStarts {
			open()
		}
		if n := strings.Count(log.String(), "Cached()"); n != 1 {
			t.Errorf("%d warnings: %s", n, log)
		}
	})
}

// The keys of an index are never older than the own writes of this process: they wait as
// long as reads of objects do. Then the server is asked for the unseen writes.
func TestKeysAfterOwnWrites(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		byNote := IndexBy(c.cms.ReadOnly(), notes)
		wide := IndexBy(c.cms.ReadOnly().Labeled("app=web"), notes) // an index of some of the same store's objects
		want := func(x *Index[corev1.ConfigMap, string], took time.Duration, want ...string) {
			c.Helper()
			keys, err := x.Keys(c.Context())
			if slices.Sort(keys); err != nil || !slices.Equal(keys, want) {
				c.Errorf("the keys are %q, %v, want %q", keys, err, want)
			}
			c.took(took)
		}
		want(byNote, 0, "one")
		web := func(o *corev1.ConfigMap) { o.Labels = map[string]string{"app": "web"} }
		c.elsewhere()
		c.write("a", "two")
		c.write("b", "three", web)
		want(byNote, ownWriteWait, "three", "two")
		want(byNote, 0, "three", "two")
		want(wide, 0, "three")
		c.write("c", "three", web)
		c.remove("b")
		want(wide, ownWriteWait, "three")
		c.remove("c")
		want(wide, 0)
		want(byNote, 0, "two")
		c.s.release()
		synctest.Wait()
		want(byNote, 0, "two")
		c.s.hold()
		c.write("d", "four")
		c.s.setIntercept(func(int, *http.Request) (*http.Response, error) { return status(403, "Forbidden", "no"), nil })
		if keys, err := byNote.Keys(c.Context()); !apierrors.IsForbidden(err) {
			c.Errorf("the keys are %q, %v", keys, err)
		}
	})
}
