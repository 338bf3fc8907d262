package kube

import (
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

func ofWeb(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] { return r.Labeled("app=web") }

func isWeb(o *modelObject) { o.labels = map[string]string{"app": "web"} }

// answerOf returns the object of a state, as the server answers with it.
func answerOf(o modelObject) *corev1.ConfigMap {
	return o.object(&http.Request{Header: http.Header{}}).(*corev1.ConfigMap)
}

// removesAll has the server delete some objects at a DeleteAll, and answer with end.
func (c *ownCase) removesAll(end func(list *http.Response) (*http.Response, error), names ...string) {
	c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodDelete {
			return nil, nil
		}
		get := r.Clone(r.Context())
		get.Method = http.MethodGet
		list, err := c.s.list(get, "default")
		for _, name := range names {
			c.s.remove(key(name))
		}
		if err != nil {
			return nil, err
		}
		return end(list)
	})
}

// A DeleteAll also deletes objects that a store does not select.
func TestDeleteAllOutsideOfAStore(t *testing.T) {
	for name, left := range map[string]bool{"never selected": false, "selected before": true} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, ofWeb, func(c *ownCase) {
				c.s.release()
				if left {
					c.s.put(key("w"), "one", isWeb)
				}
				synctest.Wait()
				loops := []*heldLoop{holdLoop(c.T, ofWeb(c.cms.ReadOnly())), holdSteps(c.T, ofWeb(c.cms.ReadOnly()))}
				for _, l := range loops {
					l.rest()
				}
				c.s.hold()
				asListed := func(list *http.Response) (*http.Response, error) { return list, nil }
				var want []string
				if left {
					c.s.put(key("w"), "two", func(o *modelObject) { o.labels = nil })
					want = append(want, "DELETED w one")
					c.removesAll(asListed, "a", "w")
				} else {
					c.s.put(key("d"), "db")
					c.removesAll(asListed, "a", "d")
				}
				c.start = time.Now()
				if err := c.cms.DeleteAll(c.Context()); err != nil {
					c.Fatal(err)
				}
				wantLines(c.T, "all", content(c.T, c.store))
				c.took(0)
				c.s.release()
				time.Sleep(2 * time.Minute) // a bookmark comes
				c.remembersNothing()
				for _, l := range loops {
					wantLines(c.T, "a loop", linesOf(c.T, l.rest()), want...)
				}
			})
		})
	}
}

// A DeleteAll fails after the server has deleted some of the objects, or answers without the objects.
func TestDeleteAllWithoutObjects(t *testing.T) {
	success := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"}
	for name, end := range map[string]func(*http.Response) (*http.Response, error){
		"lost":    func(*http.Response) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"failed":  func(*http.Response) (*http.Response, error) { return status(500, "x", "no"), nil },
		"refused": func(*http.Response) (*http.Response, error) { return status(403, "Forbidden", "b is held"), nil },
		"status":  func(*http.Response) (*http.Response, error) { return jsonAnswer(200, &success), nil },
	} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.wantNote("a", "one")
				c.removesAll(end, "a")
				if err := c.cms.DeleteAll(c.Context()); (err == nil) != (name == "status") {
					c.Errorf("DeleteAll: %v", err)
				}
				c.wantNote("a", "")
				wantLines(c.T, "all", content(c.T, c.store))
				c.s.release()
				time.Sleep(2 * time.Minute)
				c.remembersNothing()
			})
		})
	}
}

// The answer to a write comes after the watch has shown the end of the object and its successor.
func TestLateAnswerAboutAPredecessor(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.s.release()
		late := answerOf(c.s.put(key("b"), "own"))
		c.s.remove(key("b"))
		c.s.put(key("b"), "foreign")
		synctest.Wait()
		for name, loop := range map[string]func(*testing.T, AnyHandle) *heldLoop{"changes": holdLoop, "steps": holdSteps} {
			l := loop(c.T, c.cms)
			l.rest()
			c.answered(late)
			wantLines(c.T, name, linesOf(c.T, l.rest()),
				"ADDED b own", "DELETED b own", "ADDED b foreign")
			c.s.remove(key("b"))
			wantLines(c.T, name, linesOf(c.T, l.rest()), "DELETED b foreign")
			c.s.put(key("b"), "foreign")
		}
	})
}

// The answer to a write of an object outside of a store's selection comes late.
func TestLateAnswerOutsideOfAStore(t *testing.T) {
	ownWritesTest(t, ofWeb, func(c *ownCase) {
		c.s.release()
		late := answerOf(c.s.put(key("d"), "db"))
		c.s.put(key("w"), "one", isWeb)
		synctest.Wait()
		l := holdSteps(c.T, ofWeb(c.cms.ReadOnly()))
		l.rest()
		c.answered(late)
		wantLines(c.T, "a loop", linesOf(c.T, l.rest()))
	})
}

// A write is answered with the object, and a later one with a Scale, which lacks the owners.
func TestOwnersOfAnObjectThatWasScaled(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		l := holdLoop(c.T, c.cms)
		l.rest()
		c.elsewhere()
		c.write("b", "one", ownedByUID("owner"))
		scaled := answerOf(c.s.put(key("b"), "one"))
		c.cms.handle.client.stores.wrotePart(c.cms.handle.kind, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "b", UID: scaled.UID, ResourceVersion: scaled.ResourceVersion,
		}})
		c.s.remove(key("b"))
		c.s.loseHistory()
		time.Sleep(time.Minute)
		ended := false
		for _, change := range l.rest() {
			for o := range change.Owners() {
				ended = ended || change.Type == Deleted && o.UID == uid("owner")
			}
		}
		if !ended {
			c.Error("the loop is not shown the end of the object with its owner")
		}
	})
}

// The function of an index writes objects. An event is taken all the same, and its object is not
// given to the function again and again.
func TestIndexFunctionThatWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		cms := For[corev1.ConfigMap](s.client(t)).In("default")
		calls, table := 0, (*table)(nil)
		IndexBy(cms, func(o *corev1.ConfigMap) []string {
			if o.Name == "a" {
				if calls++; calls < 100 {
					table.unsure(key("other"))
				}
			}
			return nil
		})
		store, _ := startStore(t, cms.ReadOnly())
		synctest.Wait()
		table = store.reads.table
		s.put(key("a"), "one")
		synctest.Wait()
		wantLines(t, "all", content(t, store), "default/a one")
		if calls > 2 {
			t.Errorf("the function was called %d times", calls)
		}
	})
}

// An index is added while a write is made, and its function ends the goroutine.
func TestIndexFunctionThatEndsAWriter(t *testing.T) {
	e := newEnsuredTable(t)
	_ = e.sink.synced("1")
	x := IndexBy(For[corev1.ConfigMap](e.handle.client).In("default"), func(*corev1.ConfigMap) []string {
		runtime.Goexit()
		return nil
	})
	is, added, returned := wire.NewEntry(e.record(t, e.state(5, "ours", "none"), true)), false, false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.write(func(d *draft) {
			if !added {
				added = true
				if err := e.build(t.Context(), x); err != nil {
					t.Error(err)
				}
			}
			d.set(e.at, is)
		})
		returned = true
	}()
	<-ended
	if !returned || e.entry(e.at) != is {
		t.Errorf("the writer has returned: %t", returned)
	}
}

// The watch of a namespace is away for long. It then shows states from before an own deletion.
func TestOwnDeletionsWhileAWatchIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(Key{"one", "a"}, "1")
		s.put(Key{"two", "a"}, "2")
		cms := For[corev1.ConfigMap](s.client(t)).In("one", "two")
		l := holdSteps(t, cms)
		l.rest()
		var away atomic.Bool
		away.Store(true)
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == "/api/v1/namespaces/two/configmaps" && away.Load() {
				return nil, refused()
			}
			return nil, nil
		})
		s.cutWatches()
		synctest.Wait()
		s.put(Key{"two", "a"}, "3")
		if err := cms.In("two").Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(own.Kept + 2*time.Minute)
		away.Store(false)
		time.Sleep(2 * time.Minute)
		wantLines(t, "a loop", linesOf(t, l.rest()), "DELETED a 2")
	})
}
