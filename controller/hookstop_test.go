package controller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// A hook is refused while the program stops, because its request would be lost.
func TestHookWhileStopping(t *testing.T) {
	onStage(t, func(s *stage) {
		s.put("g", func(*gizmo) {})
		started := make(chan *engine[gizmo], 1)
		hook := Hook("POST /hook", func(*http.Request) ([]kube.Key, error) { return []kube.Key{named("g")}, nil })
		stop := s.run(Options{}, spied{Controller[gizmo]{
			For: s.gizmos, Watches: []Source{hook},
			Reconcile: func(context.Context, *gizmo) (Action, error) { time.Sleep(10 * time.Second); return Done, nil },
		}, started})
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		s.sleep(time.Second)
		w := httptest.NewRecorder()
		(<-started).hooks()[0].handler(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hook", nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("the answer is %d", w.Code)
		}
		if err := <-ended; err != nil { // a virtual clock waits for no mutex
			t.Error(err)
		}
	})
}
