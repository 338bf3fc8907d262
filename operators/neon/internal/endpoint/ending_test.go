package endpoint

import (
	"testing"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestResumedWhileEnding resumes an endpoint whose compute is still ending, and answers. The client waits
// for the next one.
func TestResumedWhileEnding(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct{ suspend, resume func(w *world) }{
		"for a client": {func(w *world) { w.busy(false) }, func(w *world) { w.busy(true) }},
		"by its spec": {
			func(w *world) { w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Suspended = true }) },
			func(w *world) {
				w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Suspended = false })
				w.until("shop", "is resumed", func(e *api.NeonEndpoint) bool { return e.Status.Phase != suspending })
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.branch("trunk", "1")
			w.busy(true)
			var waker Waker
			w.operate(func(op *Operator) { waker.Operator = op })
			e := endpointOf("shop", "trunk")
			e.Spec.SuspendAfterSeconds = 5
			w.create(e)
			w.ready("shop")
			ending := w.pod("shop", "")
			release := w.hold("shop")
			change.suspend(w)
			w.until("shop", "is suspending", func(e *api.NeonEndpoint) bool { return e.Status.Phase == suspending })
			w.eventually("its pod is ending", func() bool {
				p, err := w.pods.Get(w.Context(), ending.Name)
				return err == nil && p.DeletionTimestamp != nil
			})
			change.resume(w)
			var address string
			woken := make(chan error, 1)
			go func() {
				var err error
				address, err = waker.Wake(w.soon(), "shop."+w.namespace)
				woken <- err
			}()
			w.says("shop", "its pod is ending")
			release()
			w.ok(<-woken)
			if at := w.at(address); at == "" || at == ending.UID {
				t.Errorf("the client was sent to %s, where the pod is %q", address, at)
			}
			w.ready("shop")
		})
	}
}

// TestRolledWhileEnding has a change that needs another pod, while the compute in the former one answers.
func TestRolledWhileEnding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	ending := w.pod("shop", "")
	release := w.hold("shop")
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"max_connections": "50"} })
	w.says("shop", "its pod is ending")
	release()
	w.pod("shop", ending.UID)
	w.ready("shop")
}
