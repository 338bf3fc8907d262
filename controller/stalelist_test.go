package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lagging answers the lists of one name, and finalizer patches, from a replica that is behind.
type lagging struct {
	*played
	// old are the gizmos of the lists, as long as behind is true.
	old    []*gizmo
	behind atomic.Bool
	// refused counts the patches of finalizers that are still to be refused.
	refused atomic.Int32
	patched atomic.Int32
}

func (l *lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case l.behind.Load() && strings.Contains(r.URL.Query().Get("fieldSelector"), "metadata.name"):
		l.mu.Lock()
		defer l.mu.Unlock()
		items := []any{}
		for _, g := range l.old {
			items = append(items, onWire(g))
		}
		return l.answer(200, map[string]any{"apiVersion": "example.com/v1", "kind": "GizmoList",
			"metadata": map[string]any{"resourceVersion": "10"}, "items": items})
	case r.Header.Get("Content-Type") == "application/json-patch+json" && l.refused.Add(-1) >= 0:
		return l.answer(409, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 409,
			Reason: metav1.StatusReasonConflict})
	case r.Header.Get("Content-Type") == "application/json-patch+json":
		l.patched.Add(1)
		return l.finalize(r)
	}
	return l.played.RoundTrip(r)
}

// finalize gives a gizmo the finalizers of a patch.
func (l *lagging) finalize(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var ops []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, err
	}
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gizmos[name]
	for _, op := range ops {
		if op.Path == "/metadata/resourceVersion" && !bytes.Equal(op.Value, []byte(`"`+g.ResourceVersion+`"`)) {
			return l.answer(409, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 409,
				Reason: metav1.StatusReasonConflict})
		}
	}
	g = l.store(g, false, func(g *gizmo) { err = json.Unmarshal(ops[len(ops)-1].Value, &g.Finalizers) })
	if err != nil {
		return nil, err
	}
	return l.answer(200, onWire(g))
}

func onLaggingStage(t *testing.T, test func(*stage, *lagging)) {
	t.Helper()
	onStage(t, func(s *stage) {
		l := &lagging{played: s.played}
		s.gizmos = s.connect(l)
		test(s, l)
	})
}

// A replica that is behind says that the object of a failed reconcile is not there. The
// reconcile is tried again all the same.
func TestRetryAfterStaleListWithoutTheObject(t *testing.T) {
	onLaggingStage(t, func(s *stage, l *lagging) {
		s.put("g", func(*gizmo) {})
		l.behind.Store(true)
		failures := 2
		s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
			if failures--; failures >= 0 {
				return Done, apierrors.NewConflict(schema.GroupResource{Resource: "gadgets"}, "x", nil)
			}
			return Done, nil
		}})
		s.sleep(time.Hour)
		if n := len(s.ran("g")); n != 3 {
			t.Errorf("%d reconciles, want 3:\n%s", n, s.log)
		}
	})
}

// If the server says that the object of a failed reconcile is gone, and the watch says so
// later, nothing is tried again after that.
func TestNoRetryAfterWatchShowsTheEnd(t *testing.T) {
	onLaggingStage(t, func(s *stage, _ *lagging) {
		s.put("g", func(*gizmo) {})
		s.start(Options{}, Controller[gizmo]{Reconcile: func(context.Context, *gizmo) (Action, error) {
			s.delete("g")
			return Done, apierrors.NewNotFound(schema.GroupResource{Resource: "gizmos"}, "g")
		}})
		s.sleep(time.Hour)
		if n := len(s.ran("g")); n != 1 {
			t.Errorf("%d reconciles, want 1:\n%s", n, s.log)
		}
		if text := s.log.String(); strings.Contains(text, "level=ERROR") {
			t.Errorf("the end of the object was logged as a failure:\n%s", text)
		}
	})
}

// A patch that adds the finalizer is refused, and a replica that is behind has no such
// object, or an earlier one, or an earlier state of it. The object gets its finalizer and
// is reconciled.
func TestFinalizerAfterStaleList(t *testing.T) {
	for name, old := range map[string]func(*gizmo){
		"no object": nil, "earlier object": func(g *gizmo) { g.UID = "earlier" },
		"earlier state with the finalizer": func(g *gizmo) {
			g.ResourceVersion, g.Finalizers, g.Spec.Size = "1", []string{"example.com/gizmo"}, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLaggingStage(t, func(s *stage, l *lagging) {
				s.put("g", func(g *gizmo) { g.Spec.Size = 2 })
				if old != nil {
					g := *s.gizmo("g")
					old(&g)
					l.old = append(l.old, &g)
				}
				l.behind.Store(true)
				l.refused.Store(1)
				var size atomic.Int32
				s.start(Options{}, Controller[gizmo]{
					Reconcile: func(_ context.Context, g *gizmo) (Action, error) { size.Store(int32(g.Spec.Size)); return Done, nil },
					Cleanup:   func(context.Context, *gizmo) (Action, error) { return Done, nil },
				})
				s.sleep(time.Hour)
				if n := len(s.gizmo("g").Finalizers); n != 1 || size.Load() != 2 {
					t.Errorf("%d finalizers, reconciled size %d, want 1 and 2:\n%s", n, size.Load(), s.log)
				}
			})
		})
	}
}

// A patch that removes the finalizer is refused, and a replica that is behind has no such
// object, or a state of it before it got the finalizer. The finalizer is removed all the
// same.
func TestFinalizerIsRemovedAfterStaleList(t *testing.T) {
	for name, old := range map[string]func(*gizmo){
		"no object": nil, "earlier object": func(g *gizmo) { g.UID = "earlier" },
		"earlier state": func(g *gizmo) { g.ResourceVersion, g.Finalizers = "1", nil },
		"earlier state with version of no number": func(g *gizmo) { g.ResourceVersion, g.Finalizers = "x", nil },
	} {
		t.Run(name, func(t *testing.T) {
			onLaggingStage(t, func(s *stage, l *lagging) {
				s.put("g", func(g *gizmo) { g.Finalizers = []string{"example.com/gizmo"} })
				if old != nil {
					g := *s.gizmo("g")
					old(&g)
					l.old = append(l.old, &g)
				}
				s.put("g", func(g *gizmo) { now := metav1.Now(); g.DeletionTimestamp = &now })
				l.behind.Store(true)
				l.refused.Store(1)
				s.start(Options{}, Controller[gizmo]{
					Reconcile: func(context.Context, *gizmo) (Action, error) { return Done, nil },
					Cleanup:   func(context.Context, *gizmo) (Action, error) { return Done, nil },
				})
				s.sleep(time.Hour)
				if left := s.gizmo("g").Finalizers; len(left) > 0 {
					t.Errorf("finalizers %q are left:\n%s", left, s.log)
				}
				if n := l.patched.Load(); n != 1 {
					t.Errorf("%d patches after the refused one, want 1", n)
				}
			})
		})
	}
}
