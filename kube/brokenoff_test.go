package kube

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/requesttrace"
)

// broken calls f, which panics or ends its goroutine.
func broken(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}

// failingTrace returns a context with a trace. The trace calls fail at the requests of a
// verb.
func failingTrace(ctx context.Context, verb string, fail func()) context.Context {
	return requesttrace.With(ctx, func(ctx context.Context, r requesttrace.Request) (context.Context, func(int, error)) {
		if r.Verb == verb {
			fail()
		}
		return ctx, func(int, error) {}
	})
}

func waysToBreak(t *testing.T, test func(t *testing.T, fail func())) {
	t.Run("panic", func(t *testing.T) { test(t, func() { panic("broken") }) })
	t.Run("Goexit", func(t *testing.T) { test(t, runtime.Goexit) })
}

// unplaced is a kind of which only the server knows the plural and the scope.
type unplaced struct{ Object }

func (unplaced) GVK() GVK { return GVK{Group: "example.com", Version: "v1", Kind: "Widget"} }

// A caller breaks while it asks for the kinds of a group. It holds up nobody else.
func TestTraceBreaksDuringDiscovery(t *testing.T) {
	waysToBreak(t, func(t *testing.T, fail func()) {
		synctest.Test(t, func(t *testing.T) {
			s := newAPIServer()
			s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/apis/example.com/v1" {
					return jsonAnswer(200, &metav1.APIResourceList{APIResources: []metav1.APIResource{
						{Name: "widgets", Kind: "Widget", Namespaced: true},
					}}), nil
				}
				return nil, nil
			}
			widgets := For[unplaced](s.client(t)).In("default")
			broken(func() { _, _ = widgets.Get(failingTrace(t.Context(), "discover", fail), "a") })
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if _, err := widgets.Get(ctx, "a"); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the next caller waits for ever: %v", err)
			}
		})
	})
}

// A reader breaks while it asks about an own write. It holds up no other reader.
func TestTraceBreaksDuringAQuestion(t *testing.T) {
	waysToBreak(t, func(t *testing.T, fail func()) {
		ownWritesTest(t, asIs, func(c *ownCase) {
			c.write("a", "two")
			broken(func() { _, _ = c.store.Get(failingTrace(c.Context(), "list", fail), key("a")) })
			ctx, cancel := context.WithTimeout(c.Context(), time.Hour)
			defer cancel()
			o, err := c.store.Get(ctx, key("a"))
			if err != nil || noteOfConfigMap(o) != "two" {
				c.Errorf("the next reader gets %v", err)
			}
		})
	})
}

// An observer that ends its goroutine causes no further request.
func TestObserverEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		var n atomic.Int32
		s.intercept = func(int, *http.Request) (*http.Response, error) {
			if n.Add(1) > 1000 {
				time.Sleep(time.Second)
			}
			return nil, nil
		}
		c := s.client(t)
		c.OnRequest(func(RequestInfo) { runtime.Goexit() })
		ctx, cancel := context.WithCancel(t.Context())
		store := StoreOf(ctx, For[corev1.ConfigMap](c).In("default"))
		time.Sleep(time.Minute)
		if got := n.Load(); got > 10 {
			t.Errorf("%d requests within a minute", got)
		}
		if !store.Synced() {
			t.Error("the store is not filled")
		}
		cancel()
		<-store.Done()
	})
}

// If an object's keys cannot be compared, only its place in the index is lost.
func TestIndexKeysThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		s.put(key("b"), "two")
		cms := For[corev1.ConfigMap](s.client(t)).In("default")
		byAny := IndexBy(cms, func(o *corev1.ConfigMap) []any {
			if noteOfConfigMap(o) == "one" {
				return []any{[]string{"one"}}
			}
			return []any{"two"}
		})
		byNumber := IndexBy(cms, func(*corev1.ConfigMap) []float64 { return []float64{math.NaN()} })
		startStore(t, cms.ReadOnly())
		for o, err := range byAny.Get(t.Context(), "two") {
			if err != nil || o.Name != "b" {
				t.Error(o, err)
			}
		}
		for i := range 100 {
			s.put(key("a"), "one"+strings.Repeat("x", i%2))
			synctest.Wait()
		}
		keys, err := byNumber.Keys(t.Context())
		if err != nil || len(keys) > 2 {
			t.Errorf("the index of two objects has %d keys: %v", len(keys), err)
		}
	})
}

// pageInACircle answers a list with an empty page. The continue tokens of two pages lead
// to each other.
func pageInACircle(r *http.Request) (*http.Response, error) {
	next := "a"
	if r.URL.Query().Get("continue") == "a" {
		next = "b"
	}
	list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	list.ResourceVersion, list.Continue = "1000", next
	return jsonAnswer(200, &list), nil
}

// A list ends if its continue tokens lead in a circle.
func TestPagesInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		n := 0
		s.intercept = func(_ int, r *http.Request) (*http.Response, error) {
			if n++; n > 1000 {
				return nil, io.ErrUnexpectedEOF
			}
			return pageInACircle(r)
		}
		cms := For[corev1.ConfigMap](s.client(t)).In("default")
		for _, err := range cms.List(t.Context()) {
			if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("after %d requests: %v", n, err)
			}
		}
		if n > 10 {
			t.Errorf("%d requests", n)
		}
	})
}

// A reader asks the server about an own write, and the pages of the answer lead in a
// circle.
func TestQuestionInACircle(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.elsewhere()
		c.write("a", "two")
		n := 0
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if n++; n > 1000 {
				return nil, io.ErrUnexpectedEOF
			}
			return pageInACircle(r)
		})
		_, err := c.store.Get(c.Context(), key("a"))
		if n > 10 || err == nil {
			c.Errorf("%d requests: %v", n, err)
		}
	})
}

// bareScale is the answer to an update of a scale, as far as a program needs it.
type bareScale struct {
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// Reads are never older than a write through a subresource. The answer to the write does
// not matter.
func TestSubresourceThatTellsNoVersion(t *testing.T) {
	for name, body := range map[string]string{
		"no metadata": `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":3}}`,
		"nonsense":    `<html>`,
		"empty":       `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodPut {
						return nil, nil
					}
					c.s.put(key("a"), "two")
					return answer(200, typeJSON, []byte(body)), nil
				})
				_, _ = Sub[bareScale](c.cms, "scale").Update(c.Context(), "a", new(bareScale))
				c.wantNote("a", "two")
			})
		})
	}
}

// Reads are never older than a write, even if the write's trace breaks after the server
// has executed it.
func TestTraceBreaksBehindAWrite(t *testing.T) {
	waysToBreak(t, func(t *testing.T, fail func()) {
		for verb, write := range map[string]func(*ownCase, context.Context){
			"update": func(c *ownCase, ctx context.Context) {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
				cm.Data = map[string]string{"note": "two"}
				_, _ = c.cms.Update(ctx, cm)
			},
			"delete": func(c *ownCase, ctx context.Context) { _ = c.cms.Delete(ctx, "a") },
		} {
			t.Run(verb, func(t *testing.T) {
				ownWritesTest(t, asIs, func(c *ownCase) {
					ctx := requesttrace.With(c.Context(),
						func(ctx context.Context, _ requesttrace.Request) (context.Context, func(int, error)) {
							return ctx, func(int, error) { fail() }
						})
					broken(func() { write(c, ctx) })
					want := "two"
					if verb == "delete" {
						want = ""
					}
					c.wantNote("a", want)
				})
			})
		}
	})
}

// A deletion that is answered with a failure has deleted nothing.
func TestDeletionAnsweredWithAFailure(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodDelete {
				return nil, nil
			}
			st := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 500}
			return jsonAnswer(200, &st), nil
		})
		if err := c.cms.Delete(c.Context(), "a"); err == nil {
			c.Error("no error")
		}
		c.wantNote("a", "one")
	})
}

// A reader can ask about an own write even if the server knows no field selectors.
func TestQuestionToAServerWithoutFieldSelectors(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		c.write("a", "two")
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if !r.URL.Query().Has("fieldSelector") {
				return nil, nil
			}
			return status(400, metav1.StatusReasonBadRequest, "field label not supported: metadata.name"), nil
		})
		c.wantNote("a", "two")
	})
}
