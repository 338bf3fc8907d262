package kube

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pintle-go/pintle/kube/internal/own"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOwnWritesAndContentInOrder runs writers, the watch and readers at once: writers
// note their writes, the watch shows them, and readers look. A reader that need not wait
// never sees content that is older than the writes before its look, and never sees a
// deleted object.
func TestOwnWritesAndContentInOrder(t *testing.T) {
	for name, deletes := range map[string]bool{"writes": false, "deletions": true} {
		t.Run(name, func(t *testing.T) {
			e := newEnsuredTable(t)
			_ = e.sink.synced("1")
			const rounds = 1500
			var written atomic.Int64 // the latest answered version
			told := make(chan int, 16)
			var running sync.WaitGroup
			running.Go(func() { // writes
				defer close(told)
				for v := 10; v < 10+rounds; v++ {
					if told <- v; v%3 == 0 && !deletes {
						told <- v // the answer may come late
					}
					if deletes {
						e.deletes(uidOf(v))
					} else {
						e.wrote(e.state(v, "ours", "none"))
					}
					written.Store(int64(v))
				}
			})
			running.Go(func() { // watches
				for v := range told {
					o := e.state(v, "ours", "none")
					if !deletes {
						_ = e.sink.event(eventModified, e.record(t, o, true))
						continue
					}
					o.UID = uidOf(v)
					_ = e.sink.event(eventAdded, e.record(t, o, true))
					_ = e.sink.event(eventDeleted, e.record(t, o, true))
				}
			})
			for range 2 {
				running.Go(func() { // reads
					for last := int64(0); last < 10+rounds-1; {
						last = written.Load()
						is, _, need := e.peek(e.at)
						now, waits := e.now(), need != own.Read
						var found []keyed
						for key, e := range now.entries.All() {
							found = append(found, keyed{key, e})
						}
						if deletes {
							for _, k := range append(found, keyed{e.at, is}) {
								if k.entry != nil && versionOf(k.entry.ResourceVersion()) <= last {
									t.Errorf("version %s is seen, %d was deleted", k.entry.ResourceVersion(), last)
									return
								}
							}
							continue
						}
						if !waits && last > 0 && (is == nil || versionOf(is.ResourceVersion()) < last) {
							t.Errorf("%v is seen and nothing pending, %d was written", is, last)
							return
						}
						if last > 0 && now.own.Look(e.at) == own.Read &&
							(len(found) == 0 || versionOf(found[0].entry.ResourceVersion()) < last) {
							t.Errorf("a list has %v and nothing unseen, %d was written", found, last)
							return
						}
					}
				})
			}
			running.Wait()
		})
	}
}

func uidOf(version int) types.UID { return types.UID("uid-" + strconv.Itoa(version)) }

func versionOf(rv string) int64 {
	v, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// A server sends no bookmarks, and the objects of a store never change. Other objects are
// written again and again. The store remembers no more of these writes than there are
// objects.
func TestWritesThatNoWatchSettles(t *testing.T) {
	web := func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] { return r.Labeled("app=web") }
	ownWritesTest(t, web, func(c *ownCase) {
		for range 1000 {
			c.write("a", "one")
			c.write("b", "one")
		}
		if n := len(remembered(c.store.reads.table)); n > 1000 {
			c.Errorf("of 2 objects %d characters are remembered", n)
		}
		c.s.release()
		c.s.put(key("c"), "one", func(o *modelObject) { o.labels = map[string]string{"app": "web"} })
		synctest.Wait()
		c.remembersNothing()
	})
}
