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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// A reader that waits for the watch goes on as soon as the question of another reader is
// answered.
func TestAnswerWakesThoseWhoWait(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.elsewhere()
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
				c.cms.handle.client.stores.deleting(c.cms.handle.kind, "default", "", []keyed{{key("a"), wire.MetadataEntry(late)}})
				if held {
					now := metav1.Now()
					c.s.put(key("a"), "two", func(o *modelObject) {
						o.extra.DeletionTimestamp, o.extra.Finalizers = &now, []string{"x.y/z"}
					})
				} else {
					c.s.remove(key("a"))
				}
				c.answered(late)
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
				c.remembersNothing()
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
		c.elsewhere()
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
				c.elsewhere()
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
		go e.table.follow(t.Context(), func(c Change) bool {
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
		e.wrote(o)
		e.answered(o)
		_ = e.sink.event(eventAdded, e.record(t, o, true))
		raw, err := wire.EncodeJSON(e.state(11, "ours", "none"))
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
		"this process has deleted it":   func(e *ensuredTable) { e.deletes("uid") },
		"it was deleted, uid not known": func(e *ensuredTable) { e.deletes("") },
		"a reader asks, and it is gone": func(e *ensuredTable) { e.asked(nil) },
		"it is deleted while the store shows its predecessor": func(e *ensuredTable) {
			before := e.state(8, "theirs", "none")
			before.UID, before.Labels = "before", map[string]string{"app": "web"}
			_ = e.sink.event(eventAdded, e.record(e.t, before, true))
			e.deletes("uid")
			e.sink.begin()
			_ = e.sink.synced("12")
		},
		"its label does not fit any more": func(e *ensuredTable) { e.wrote(e.state(11, "ours", "")) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnsuredTable(t)
			e.table = newTable(configMaps(e.handle.client).In("default").Labeled("app=web").handle, nil)
			e.t, e.sink = t, &tableSink{table: e.table, namespace: "default"}
			_ = e.sink.synced("9")
			o := e.state(10, "ours", "none")
			o.Labels = map[string]string{"app": "web"}
			noted := e.begins()
			e.wrote(o)
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
	part := own.Object{Exists: true, UID: "uid", Version: "11"}
	e.table.answered(e.at, own.Answer{Own: true, Object: part}) // so that the content is not sure
	mine, _, _ := e.questions([]Key{e.at})
	e.answer(e.t.Context(), e.at, mine[e.at], e.entry(e.at), &fetched{entry: is, rv: "12"}, nil)
}

// A lagging server answers the question about a write with an older state.
func TestQuestionToALaggingServer(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				old := newAPIServer()
				old.put(key("a"), "one")
				c.elsewhere()
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

// A lagging server answers the question about a write after the watch has shown the
// write.
func TestLaggingServerAnswersAfterTheWatch(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				old := newAPIServer()
				old.put(key("a"), "one")
				c.elsewhere()
				c.write(name, "two")
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet || isWatch(r) {
						return nil, nil
					}
					c.s.release()
					time.Sleep(time.Millisecond)
					return old.serve(r)
				})
				c.wantNote(name, "two")
			})
		})
	}
}

// A lagging server is asked about a write whose answer was lost. It answers with a state
// from before the state that the process knows.
func TestLaggingServerAnswersALostWrite(t *testing.T) {
	for name, shown := range map[string]bool{"the watch has shown that state": true,
		"a write was answered with it": false} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				old := newAPIServer()
				old.put(key("a"), "one")
				c.write("a", "two")
				if shown {
					c.s.release()
					synctest.Wait()
				}
				lags := true
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if lags && r.Method == http.MethodGet && !isWatch(r) {
						return old.serve(r)
					}
					return nil, nil
				})
				c.cms.handle.client.stores.unsure(c.cms.handle.kind, key("a"))
				if o, err := c.store.Get(c.Context(), key("a")); err == nil {
					c.Errorf("a reader gets %q, although the process knows a later state", o.Data["note"])
				}
				lags = false
				c.wantNote("a", "two")
			})
		})
	}
}

// A list of several parts answers about many writes. The part in which an object must be
// is older than the write of that object, and another part is not.
func TestListWithAnOlderPart(t *testing.T) {
	inTwo := func(r Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap] { return r.In("default", "other") }
	for name, tc := range map[string]struct {
		of     func(Reader[corev1.ConfigMap]) Reader[corev1.ConfigMap]
		writes int
		// page answers a list of the lagging namespace from the state before the writes.
		page func(s, old *apiServer, r *http.Request) (*http.Response, error)
	}{
		"of another namespace": {inTwo, askedEach + 1, func(_, old *apiServer, r *http.Request) (*http.Response, error) {
			return old.serve(r)
		}},
		"on a later page": {asIs, 1, func(s, old *apiServer, r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("continue") == "" {
				return old.encodeList(r, old.rv, "next", nil), nil
			}
			return s.encodeList(r, s.rv, "", nil), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, tc.of, func(c *ownCase) {
				old := newAPIServer()
				old.put(key("a"), "one")
				c.elsewhere()
				for i := range tc.writes {
					c.write(fmt.Sprintf("b%02d", i), "new")
				}
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet || isWatch(r) || !strings.Contains(r.URL.Path, "/default/") {
						return nil, nil
					}
					return tc.page(c.s, old, r)
				})
				failed := 0
				for _, err := range c.store.All(c.Context()) {
					if err != nil {
						failed++
					}
				}
				if failed != tc.writes {
					c.Errorf("%d objects are reported as too old, want %d", failed, tc.writes)
				}
				c.s.setIntercept(nil)
				c.wantNote("b00", "new")
			})
		})
	}
}
