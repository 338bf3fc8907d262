package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A reader that waits for the watch goes on as soon as the question of another reader is
// answered.
func TestAnswerWakesThoseWhoWait(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.write("b", "one")
		took := make(chan time.Duration, 2)
		read := func() {
			c.wantNote("b", "one")
			took <- time.Since(c.start)
		}
		go read()
		time.Sleep(ownWriteWait / 2)
		go func() {
			wantLines(c.T, "all", content(c.T, c.store), "default/a one", "default/b one")
			took <- time.Since(c.start)
		}()
		for range 2 {
			if d := <-took; d != ownWriteWait {
				c.Errorf("a reader has its answer after %s, want %s", d, ownWriteWait)
			}
		}
	})
}

// An update is sent before a DeleteAll, and its answer comes after the answer to the
// DeleteAll. The answer does not bring the object back.
func TestLateAnswerAfterDeleteAll(t *testing.T) {
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprint("held by a finalizer ", held), func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				late := c.write("a", "two")
				c.cms.client.stores.deleting(c.cms.kind, key("a"), late.UID)
				if held {
					now := metav1.Now()
					c.s.put(key("a"), "two", func(o *modelObject) {
						o.extra.DeletionTimestamp, o.extra.Finalizers = &now, []string{"x.y/z"}
					})
				} else {
					c.s.remove(key("a"))
				}
				c.cms.client.stores.wrote(c.cms.kind, late)
				c.s.mu.Lock()
				c.s.held = versionOf(late.ResourceVersion) // the watch shows the update but not the deletion
				close(c.s.changed)
				c.s.changed = make(chan struct{})
				c.s.mu.Unlock()
				synctest.Wait()
				o, err := c.store.Get(c.Context(), key("a"))
				if !held && !apierrors.IsNotFound(err) || held && (err != nil || o.DeletionTimestamp == nil) {
					c.Errorf("a reader gets %+v, %v", o, err)
				}
				c.s.release()
				synctest.Wait()
				if n := len(c.store.table.own.pending); n > 0 {
					c.Errorf("%d writes are pending still", n)
				}
			})
		})
	}
}

// A server that ignores field selectors is read page by page, up to the object.
func TestOwnWritesOnAServerWithoutFieldSelectors(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		for i := range 3 * pageSize {
			c.s.put(key(fmt.Sprintf("o%04d", i)), "one")
		}
		c.write("o0007", "two")
		c.write("zz", "two")
		repeats := false
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			q := r.URL.Query()
			if r.Method != http.MethodGet || isWatch(r) {
				return nil, nil
			}
			q.Del("fieldSelector")
			if repeats {
				q.Del("continue")
			}
			r = r.Clone(r.Context())
			r.URL.RawQuery = q.Encode()
			return c.s.serve(r)
		})
		for name, pages := range map[string]int{"o0007": 1, "zz": 4} {
			before := len(c.s.paths())
			c.wantNote(name, "two")
			asked := slices.DeleteFunc(c.s.paths()[before:], func(path string) bool { return !strings.HasPrefix(path, "page") })
			if len(asked) != pages {
				c.Errorf("for %s the server was asked %q, want %d pages", name, asked, pages)
			}
		}
		repeats = true
		c.write("zz", "three")
		if _, err := c.store.Get(c.Context(), key("zz")); !errors.Is(err, wire.ErrAnswer) {
			c.Errorf("of a list without end: %v", err)
		}
		for _, err := range c.cms.List(c.Context()) {
			if err != nil && !errors.Is(err, wire.ErrAnswer) {
				c.Errorf("a list without end: %v", err)
			}
		}
	})
}

// An object that exists and cannot be read is an error. It does not count as gone.
func TestOwnWriteThatCannotBeReadBack(t *testing.T) {
	for _, n := range []int{1, askedEach + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				want := []string{"default/a one"}
				for i := range n {
					name := fmt.Sprintf("b%02d", i)
					c.write(name, "one")
					want = append(want, "default/"+name+" one")
				}
				want = slices.Delete(want, 1, 2)
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet || isWatch(r) {
						return nil, nil
					}
					r.Header.Set("Accept", typeJSON)
					resp, err := c.s.serve(r)
					if err != nil {
						return nil, err
					}
					body, err := io.ReadAll(resp.Body)
					broken := strings.Replace(string(body), `"name":"b00",`, `"name":"b00","generation":"x",`, 1)
					return answer(resp.StatusCode, typeJSON, []byte(broken)), err
				})
				for range 2 {
					var got []string
					failed := 0
					for o, err := range c.store.All(c.Context()) {
						if err != nil {
							failed++
							continue
						}
						got = append(got, KeyOf(o).String()+" "+o.Data["note"])
					}
					slices.Sort(got)
					wantLines(c.T, "all", got, want...)
					if failed != 1 {
						c.Errorf("%d objects could not be read, want 1", failed)
					}
				}
				if _, err := c.store.Get(c.Context(), key("b00")); err == nil || apierrors.IsNotFound(err) {
					c.Errorf("the object that cannot be read: %v", err)
				}
			})
		})
	}
}

// The end of an object that cannot be read has the owners that the object had.
func TestOwnersOfAnUnreadableDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsuredTable(t)
		_ = e.sink.synced("9")
		busy, owners := make(chan struct{}), make(chan string, 10)
		first := true
		go e.follow(t.Context(), func(c Change) bool {
			if first {
				first = false
				<-busy // the reader is busy with another object
			}
			for o := range c.Owners() {
				owners <- string(c.Type) + " " + string(o.UID)
			}
			return true
		})
		synctest.Wait()
		o := e.state(10, "ours", "none")
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "owner"}}
		e.wrote(e.at, o, true)
		e.answered(o)
		_ = e.sink.event(eventAdded, e.record(t, o, true))
		raw, err := encodeJSON(e.state(11, "ours", "none"))
		if err != nil {
			t.Fatal(err)
		}
		rec, known := wire.Identify(wire.Raw{Bytes: raw})
		if !known {
			t.Fatal("the identity is not known")
		}
		_ = e.sink.event(eventDeleted, rec)
		close(busy)
		synctest.Wait()
		close(owners)
		var told []string
		for line := range owners {
			told = append(told, line)
		}
		wantLines(t, "owners", told, "ADDED owner", "DELETED owner")
	})
}

// The record of an Ensure is forgotten with its object, even if the store never showed
// the object.
func TestEnsuredIsForgottenWithItsObject(t *testing.T) {
	for name, end := range map[string]func(e *ensuredTable){
		"its deletion is shown": func(e *ensuredTable) {
			_ = e.sink.event(eventAdded, e.record(e.t, e.state(10, "ours", "none"), true))
			_ = e.sink.event(eventDeleted, e.record(e.t, e.state(11, "ours", "none"), true))
		},
		"a list does not have it": func(e *ensuredTable) {
			e.sink.begin()
			_ = e.sink.synced("12")
		},
		"the watch is past it":            func(e *ensuredTable) { e.sink.progress("12") },
		"this process has deleted it":     func(e *ensuredTable) { e.deleted(e.at, "uid") },
		"it was deleted, uid not known":   func(e *ensuredTable) { e.deleted(e.at, "") },
		"a reader asks, and it is gone":   func(e *ensuredTable) { e.asked(nil) },
		"its label does not fit any more": func(e *ensuredTable) { e.wrote(e.at, e.state(11, "ours", ""), true) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnsuredTable(t)
			e.table = newTable(configMaps(e.handle.client).In("default").Labeled("app=web").handle, nil)
			e.t, e.sink = t, &tableSink{table: e.table, namespace: "default"}
			_ = e.sink.synced("9")
			o := e.state(10, "ours", "none")
			o.Labels = map[string]string{"app": "web"}
			noted := e.begins()
			e.wrote(e.at, o, true)
			noted.done(e.handle.client, o)
			if n := len(e.ensured.by); n != 1 {
				t.Fatalf("%d parts are remembered at first", n)
			}
			end(e)
			if n := len(e.ensured.by); n != 0 {
				t.Errorf("%d parts are remembered at the end", n)
			}
		})
	}
	t.Run("the answer does not fit the selector", func(t *testing.T) {
		e := newEnsuredTable(t)
		e.table = newTable(configMaps(e.handle.client).In("default").Labeled("app=web").handle, nil)
		e.answered(e.state(10, "ours", "none")) // a webhook has removed the label
		if n := len(e.ensured.by); n != 0 {
			t.Errorf("%d parts are remembered", n)
		}
	})
}

// asked answers the question of a reader about the object.
func (e *ensuredTable) asked(is *entry) {
	found := []keyed{}
	mine, _, _ := e.questions([]Key{e.at}, &found)
	e.answer(e.t.Context(), e.at, mine[e.at], e.entry(e.at), &fetched{entry: is}, nil)
}

// A lagging server answers the question about a write with an older state.
func TestQuestionToALaggingServer(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				old := newAPIServer()
				old.put(key("a"), "one")
				c.write(name, "two")
				lags := true
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet && !isWatch(r) && lags {
						return old.serve(r)
					}
					return nil, nil
				})
				o, err := c.store.Get(c.Context(), key(name))
				if err == nil || o != nil {
					c.Errorf("a reader gets %v, %v, although the process wrote a later state", o, err)
				}
				lags = false
				c.wantNote(name, "two")
			})
		})
	}
}
