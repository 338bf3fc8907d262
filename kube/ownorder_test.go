package kube

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
						e.deleted(e.at, uidOf(v))
					} else {
						e.wrote(e.at, e.state(v, "ours", "none"), true)
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
						is, _, _, waiting := e.peek(e.at)
						_, unseen, without := e.unseen(e.own.made(), anyEntry)
						var found []keyed
						for key, e := range e.now().entries.All() {
							if !without(key, e) {
								found = append(found, keyed{key, e})
							}
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
						if !waiting && last > 0 && (is == nil || versionOf(is.ResourceVersion()) < last) {
							t.Errorf("%v is seen and nothing pending, %d was written", is, last)
							return
						}
						if last > 0 && !slices.Contains(unseen, e.at) &&
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
		if n := len(c.store.reads.table.own.lanes["default"].order); n > 3*orderKept {
			c.Errorf("%d writes of 2 objects are remembered", n)
		}
		c.s.release()
		c.s.put(key("c"), "one", func(o *modelObject) { o.labels = map[string]string{"app": "web"} })
		synctest.Wait()
		if n := len(c.store.reads.table.own.pending); n > 0 {
			c.Errorf("%d writes are pending although the watch is past them", n)
		}
	})
}
