package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a widget that counts how often it is decoded.
type counted struct {
	Object
	Spec countedSpec `json:"spec"`
}

type countedSpec struct {
	Note string `json:"note"`
}

// decodings is how often a counted was decoded. Tests that use it do not run in parallel.
var decodings atomic.Int64

func (s *countedSpec) UnmarshalJSON(raw []byte) error {
	decodings.Add(1)
	type plain countedSpec
	return json.Unmarshal(raw, (*plain)(s))
}

func countedNote(o *counted) []string { return []string{o.Spec.Note} }

// countedStore is a store whose first answer comes after a second, so that loops can begin before.
type countedStore struct {
	*testing.T
	server *apiServer
	maps   Reader[counted]
	store  *Store[counted]
}

func startCounted(t *testing.T, declare func(Reader[counted])) *countedStore {
	t.Helper()
	c := &countedStore{T: t, server: newAPIServer()}
	for i := range 3 {
		c.server.put(key(fmt.Sprint("o", i)), "one")
	}
	c.server.intercept = func(n int, _ *http.Request) (*http.Response, error) {
		if n == 1 {
			time.Sleep(time.Second)
		}
		return nil, nil
	}
	c.maps = For[counted](c.server.client(t), widgetKind).ReadOnly()
	if declare != nil {
		declare(c.maps)
	}
	c.store, _ = startStore(t, c.maps)
	return c
}

// loop starts a loop over changes.
func (c *countedStore) loop(body func(Change), options ...ChangesOption) {
	c.Helper()
	ctx, running := c.Context(), make(chan struct{})
	go func() {
		defer close(running)
		for ch := range c.store.Changes(ctx, options...) {
			if ch.Type.IsChange() {
				body(ch)
			}
		}
	}()
	c.Cleanup(func() { <-running })
	synctest.Wait()
}

// decodingsOf returns how many objects are decoded until everything is idle.
func (c *countedStore) decodingsOf(do func()) int64 {
	before := decodings.Load()
	do()
	synctest.Wait()
	return decodings.Load() - before
}

func (c *countedStore) sync() {
	if err := c.store.Sync(c.Context()); err != nil {
		c.Error(err)
	}
}

// An object is decoded once for the functions of three indexes and a loop that decodes it: when it
// is listed, at an event, and at a relist.
func TestChangeIsDecodedOnce(t *testing.T) {
	for _, options := range [][]ChangesOption{nil, {EveryStep}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var indexes []*Index[counted, string]
				c := startCounted(t, func(maps Reader[counted]) {
					for range 3 {
						indexes = append(indexes, IndexBy(maps, countedNote))
					}
				})
				var mu sync.Mutex
				var notes []string
				c.loop(func(ch Change) {
					o, err := DecodeNow[counted](ch)
					mu.Lock()
					defer mu.Unlock()
					if notes = append(notes, o.Name+" "+o.Spec.Note); err != nil {
						t.Error(err)
					}
				}, options...)
				seen := func(want ...string) {
					t.Helper()
					mu.Lock()
					defer mu.Unlock()
					slices.Sort(notes)
					wantLines(t, "the loop", notes, want...)
					notes = nil
				}
				if n := c.decodingsOf(c.sync); n != 3 {
					t.Errorf("3 objects are listed, %d times one is decoded", n)
				}
				seen("o0 one", "o1 one", "o2 one")
				for i := range 5 {
					note := fmt.Sprint("note", i)
					if n := c.decodingsOf(func() { c.server.put(key("o1"), note) }); n != 1 {
						t.Errorf("a change is decoded %d times", n)
					}
					seen("o1 " + note)
				}
				c.server.hold()
				c.server.put(key("o0"), "two")
				c.server.put(key("o2"), "two")
				n := c.decodingsOf(func() {
					c.server.loseHistory()
					c.server.release()
					time.Sleep(time.Minute)
				})
				if n != 2 {
					t.Errorf("2 objects have changed at a relist, %d times one is decoded", n)
				}
				seen("o0 two", "o2 two")
				for _, x := range indexes {
					if keys, err := x.Keys(t.Context()); err != nil || len(keys) != 2 {
						t.Errorf("an index has the keys %q, %v", keys, err)
					}
				}
			})
		})
	}
}

// An index whose function fails costs neither the other indexes nor a loop the object.
func TestObjectOfAnIndexThatFails(t *testing.T) {
	for name, fail := range map[string]func(){"panics": func() { panic("bad note") }, "ends": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failing := func(o *counted) []string {
					if o.Spec.Note == "bad" {
						fail()
					}
					return countedNote(o)
				}
				var first, last *Index[counted, string]
				c := startCounted(t, func(maps Reader[counted]) {
					first = IndexBy(maps, countedNote)
					IndexBy(maps, failing)
					IndexBy(maps, failing)
					last = IndexBy(maps, countedNote)
				})
				var shown atomic.Int32
				c.loop(func(ch Change) {
					if o, err := DecodeNow[counted](ch); err == nil && o.Spec.Note == "bad" {
						shown.Add(1)
					}
				})
				c.sync()
				for i := range 3 {
					name := fmt.Sprint("bad", i)
					if n := c.decodingsOf(func() { c.server.put(key(name), "bad") }); n != 1 {
						t.Errorf("a change is decoded %d times", n)
					}
				}
				if shown.Load() != 3 {
					t.Errorf("the loop is shown %d of 3 objects", shown.Load())
				}
				for _, x := range []*Index[counted, string]{first, last} {
					n := 0
					for _, err := range x.Get(t.Context(), "bad") {
						if n++; err != nil {
							t.Error(err)
						}
					}
					if n != 3 {
						t.Errorf("an index beside them has %d of 3 objects", n)
					}
				}
			})
		})
	}
}

// What a loop does to the objects that it gets is seen by no index, no store and no other loop.
func TestObjectsOfALoopAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var byNote *Index[counted, string]
		c := startCounted(t, func(maps Reader[counted]) { byNote = IndexBy(maps, countedNote) })
		var wrong atomic.Int32
		for range 3 {
			c.loop(func(ch Change) {
				was, is, err := Decode[counted](ch)
				if err != nil || !strings.HasPrefix(is.Spec.Note, "o") || is.Labels != nil || was == is {
					wrong.Add(1)
				}
				for _, o := range []*counted{was, is} {
					if o != nil {
						o.Spec.Note, o.Labels, o.UID = "changed", map[string]string{"a": "b"}, "changed"
					}
				}
				if again, err := DecodeNow[counted](ch); err != nil || again == is || again.Spec.Note == "changed" {
					wrong.Add(1)
				}
			})
		}
		c.sync()
		synctest.Wait()
		for i := range 3 {
			c.server.put(key("o1"), fmt.Sprint("o-", i))
			synctest.Wait()
		}
		c.server.remove(key("o2"))
		synctest.Wait()
		if wrong.Load() > 0 {
			t.Errorf("%d times a loop gets what it or another loop has changed", wrong.Load())
		}
		if o, err := c.store.Get(t.Context(), key("o1")); err != nil || o.Spec.Note != "o-2" || o.Labels != nil {
			t.Errorf("the store has %v, %v", o, err)
		}
		if keys, err := byNote.Keys(t.Context()); err != nil || !slices.Contains(keys, "o-2") || len(keys) != 2 {
			t.Errorf("the index has the keys %q, %v", keys, err)
		}
	})
}

// Few decoded objects wait for loops, and none if no loop decodes them.
func TestDecodedObjectsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCounted(t, func(maps Reader[counted]) { IndexBy(maps, countedNote) })
		waiting := func() (n, bytes int) {
			synctest.Wait()
			f := &c.store.reads.table.followers
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.decoded.list), f.decoded.bytes
		}
		change := func(size int) {
			for i := range 3 * decodedKept {
				c.server.put(key(fmt.Sprint("o", i)), strings.Repeat("n", size))
				synctest.Wait()
			}
		}
		c.sync()
		if n, _ := waiting(); n > 0 {
			t.Errorf("without a loop, %d objects wait", n)
		}
		var stands, decodes atomic.Bool
		again := make(chan struct{})
		c.loop(func(ch Change) {
			if decodes.Load() {
				_, _ = DecodeNow[counted](ch)
			}
			if stands.Load() {
				<-again
			}
		})
		stands.Store(true)
		change(10)
		if n, bytes := waiting(); n > 0 || bytes > 0 {
			t.Errorf("for a loop that decodes nothing and stands, %d objects of %d bytes wait", n, bytes)
		}
		stands.Store(false)
		decodes.Store(true)
		close(again)
		change(12)
		decodes.Store(false)
		change(14)
		if n, bytes := waiting(); n > 0 || bytes > 0 {
			t.Errorf("for a loop that does not decode any more, %d objects of %d bytes wait", n, bytes)
		}
		open, once := make(chan struct{}), sync.Once{}
		c.loop(func(ch Change) {
			if _, err := DecodeNow[counted](ch); err != nil {
				t.Error(err)
			}
			once.Do(func() { <-open })
		})
		change(20)
		if n, bytes := waiting(); n == 0 || n > decodedKept || bytes > decodedKeptBytes {
			t.Errorf("for a loop that stands, %d objects of %d bytes wait", n, bytes)
		}
		change(decodedKeptBytes / 10)
		if n, bytes := waiting(); n == 0 || n > 10 || bytes > decodedKeptBytes {
			t.Errorf("for a loop that stands, %d large objects of %d bytes wait", n, bytes)
		}
		close(open)
		if n, bytes := waiting(); n > 0 || bytes > 0 {
			t.Errorf("after all were shown, %d objects of %d bytes wait", n, bytes)
		}
	})
}
