package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This process makes an object that names its owner. While the watch is cut, somebody deletes it
// and makes another object of its name. Each loop is shown the end of the first, with its owner.
func TestOwnObjectWithASuccessor(t *testing.T) {
	for name, loop := range map[string]func(*testing.T, AnyHandle) *heldLoop{"changes": holdLoop, "steps": holdSteps} {
		for made, writers := range map[string]int{"one object": 1, "two objects": 2} {
			t.Run(name+" of "+made, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newAPIServer()
					s.put(key("a"), "one")
					cms := For[corev1.ConfigMap](s.client(t)).In("default")
					l := loop(t, cms)
					l.rest()
					s.hold()
					for i := range writers {
						child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
						ownedByUID(fmt.Sprint("owner", i))(child)
						if _, err := cms.Create(t.Context(), child); err != nil {
							t.Fatal(err)
						}
						s.remove(key("b"))
					}
					s.put(key("b"), "foreign")
					s.loseHistory()
					time.Sleep(2 * time.Minute)
					ended := make(map[string]bool)
					for _, c := range l.rest() {
						for o := range c.Owners() {
							ended[string(o.UID)] = ended[string(o.UID)] || c.Type == Deleted
						}
					}
					for i := range writers {
						if owner := fmt.Sprint("owner", i); !ended[string(uid(owner))] {
							t.Errorf("the loop is not shown the end of the object of %s: %v", owner, ended)
						}
					}
				})
			})
		}
	}
}

// The answer to a write shows that the object matches a field selector. Somebody deletes the object
// before the watch shows it.
func TestOwnObjectEndsInAFieldSelection(t *testing.T) {
	for _, fields := range []string{"data.note=one", "metadata.namespace!=x", "metadata.name=b"} {
		t.Run(fields, func(t *testing.T) {
			ownWritesTest(t, func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
				return r.Fielded(fields)
			}, func(c *ownCase) {
				loop := follow(c.T, c.store.Watch, noteOfConfigMap)
				loop.taken()
				c.write("b", "one")
				c.s.remove(key("b"))
				c.s.loseHistory()
				time.Sleep(2 * time.Minute)
				wantLines(c.T, "a loop", without(loop.taken(), "SYNCED"), "ADDED default/b one", "DELETED default/b one")
			})
		})
	}
}

// A write takes the label away that a store with a label and a field selector wants, and its answer
// is lost.
func TestLostAnswerAndBothSelectors(t *testing.T) {
	both := func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] {
		return r.Labeled("app=web").Fielded("data.note=one")
	}
	ownWritesTest(t, both, func(c *ownCase) {
		c.s.release()
		c.s.put(key("a"), "one", func(o *modelObject) { o.labels = map[string]string{"app": "web"} })
		synctest.Wait()
		c.s.hold()
		c.wantNote("a", "one")
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPut {
				return nil, nil
			}
			if _, err := c.s.serve(r); err != nil {
				return nil, err
			}
			return nil, io.ErrUnexpectedEOF
		})
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"note": "one"}}
		if _, err := c.cms.Update(c.Context(), o); err == nil {
			c.Fatal("the answer is not lost")
		}
		c.wantNote("a", "")
		wantLines(c.T, "all", content(c.T, c.store))
	})
}

// Writes fail with an answer that does not tell whether the server has executed them. What is
// remembered of them is bounded and ends, and so is what one read asks for.
func TestManyLostWrites(t *testing.T) {
	web := func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] { return r.Labeled("app!=db") }
	for name, n := range map[string]int{"some": 500, "many": 5000} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, web, func(c *ownCase) {
				c.s.release()
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPost {
						return status(500, metav1.StatusReasonInternalError, "failed calling webhook"), nil
					}
					return nil, nil
				})
				fail := func() {
					for i := range n {
						o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("job-", i)}}
						if _, err := c.cms.Create(c.Context(), o); err == nil {
							c.Fatal("created")
						}
					}
				}
				fail()
				if n := strings.Count(remembered(c.store.reads.table), ";"); n > 1000 {
					c.Errorf("%d objects are remembered", n)
				}
				before := len(c.s.paths())
				for _, err := range c.store.OwnedBy(c.Context(), "nobody") {
					c.Error(err)
				}
				if asked := len(c.s.paths()) - before; asked > 4 {
					c.Errorf("a read sends %d requests", asked)
				}
				c.remembersNothing()
				fail()
				for range 24 {
					c.s.put(key("a"), fmt.Sprint(time.Now()))
					time.Sleep(time.Hour)
				}
				c.remembersNothing()
			})
		})
	}
}

// The watch is lost before it has shown an own write. A list comes from a replica that is behind the
// write, and no older than the watch was.
func TestStaleListAfterAnOwnWrite(t *testing.T) {
	for name, do := range map[string]func(c *ownCase){
		"write":    func(c *ownCase) { c.write("b", "new") },
		"deletion": func(c *ownCase) { c.remove("a"); c.write("b", "new") },
	} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				loop := follow(c.T, c.store.Watch, noteOfConfigMap)
				loop.taken()
				c.s.mu.Lock()
				old := c.s.rv
				c.s.oldest = old // so that the replica's version can be watched from
				c.s.mu.Unlock()
				do(c)
				var expired atomic.Bool
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					switch {
					case r.Method != http.MethodGet:
						return nil, nil
					case isWatch(r) && !expired.Swap(true):
						return status(410, metav1.StatusReasonExpired, "too old"), nil
					case isWatch(r) || time.Since(c.start) > 3*time.Second:
						return nil, nil
					}
					var items []modelObject
					for _, o := range c.s.at(old) {
						items = append(items, o)
					}
					return c.s.encodeList(r, old, "", items), nil
				})
				c.s.cutWatches()
				for range 20 {
					time.Sleep(time.Second)
					c.wantNote("b", "new")
					if name == "deletion" {
						c.wantNote("a", "")
					}
				}
				seen := without(loop.taken(), "SYNCED")
				if name == "deletion" {
					wantLines(c.T, "a loop", seen, "DELETED default/a one", "ADDED default/b new")
				} else {
					wantLines(c.T, "a loop", seen, "ADDED default/b new")
				}
			})
		})
	}
}

// The answer to a write of a status has only the metadata. It is not the object.
func TestStatusWritesThroughTheTypeOfTheStore(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			path, ok := strings.CutSuffix(r.URL.Path, "/status")
			if !ok {
				return nil, nil
			}
			r = r.Clone(r.Context())
			r.URL.Path = path
			return c.s.serve(r)
		})
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"note": "two"}}
		if err := c.cms.Status().Update(c.Context(), o); err != nil {
			c.Fatal(err)
		}
		c.wantNote("a", "two")
		c.took(ownWriteWait)
		c.s.release()
		c.wantNote("a", "two")
		c.remembersNothing()
	})
}
