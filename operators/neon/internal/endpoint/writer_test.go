package endpoint

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// onePrimary looks until the end of the test for two pods that were started on one timeline.
func (w *world) onePrimary() {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	w.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	watching.Go(func() {
		for ctx.Err() == nil {
			on := map[string][]string{}
			for p, err := range w.pods.Labeled("app.kubernetes.io/component=compute").List(ctx) {
				if err != nil {
					break
				}
				if timeline := w.outside.process(p.UID).config.Spec.TimelineID; timeline != "" {
					on[timeline] = append(on[timeline], p.Name)
				}
			}
			for timeline, pods := range on {
				if len(pods) > 1 {
					w.Errorf("pods %v are on timeline %s", pods, timeline)
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond): // between two looks
			}
		}
	})
}

// TestTwoWritersOfOneSecond has two endpoints that were made in the same second. The second has
// the smaller uid, and comes when the first one's compute is still starting.
func TestTwoWritersOfOneSecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.outside.begin = "init"
	w.branch("trunk", "1")
	w.onePrimary()
	w.operate()
	for try := 0; ; try++ {
		if try == 30 {
			t.Skip("no two endpoints were made in the same second")
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a second begins
		first, err := w.endpoints.Create(w.soon(), endpointOf("first", "trunk"))
		w.ok(err)
		w.pod("first", "")
		second, err := w.endpoints.Create(w.soon(), endpointOf("second", "trunk"))
		w.ok(err)
		if first.CreationTimestamp.Equal(&second.CreationTimestamp) && second.UID < first.UID {
			break
		}
		for _, name := range []string{"second", "first"} {
			w.ok(w.endpoints.Delete(w.soon(), name))
			w.ok(w.endpoints.UntilGone(w.soon(), name))
		}
	}
	time.Sleep(2 * time.Second) // the second may make no pod
	w.says("second", "NeonEndpoint first writes to branch trunk")
	if _, err := w.pods.Get(w.soon(), "second-compute-0"); err == nil {
		t.Error("the second endpoint has a pod")
	}
	w.outside.set(func() {
		w.outside.begin = "running"
		for _, p := range w.outside.processes {
			p.status = "running"
		}
	})
	w.ready("first")
}

// hold keeps a pod from going, as one on a lost node.
func (w *world) hold(endpoint string) (release func()) {
	w.Helper()
	const finalizer = "test.pintle.dev/lost"
	name := w.pod(endpoint, "").Name
	change := func(finalizers []string) {
		_, err := w.pods.Modify(w.soon(), name, func(p *corev1.Pod) error {
			p.Finalizers = finalizers
			return nil
		})
		w.ok(err)
	}
	change([]string{finalizer})
	return func() { change(nil) }
}

// stays sees that an endpoint has no pod for a while.
func (w *world) noPod(endpoint string) {
	w.Helper()
	for range 20 {
		if p, err := w.pods.Get(w.soon(), endpoint+"-compute-0"); err == nil {
			w.Fatalf("endpoint %s has the pod %s", endpoint, p.Name)
		}
		time.Sleep(100 * time.Millisecond) // between two looks
	}
}

// TestWriterTakesOver deletes the endpoint that writes, while its pod is on a node that is lost.
func TestWriterTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.onePrimary()
	stop := w.operate()
	w.create(endpointOf("first", "trunk"))
	w.ready("first")
	w.create(endpointOf("second", "trunk"))
	w.says("second", "NeonEndpoint first writes to branch trunk")
	release := w.hold("first")
	w.ok(w.endpoints.Delete(w.soon(), "first"))
	w.noPod("second")
	t.Log("another process of the operator takes over")
	stop()
	w.operate()
	w.noPod("second")
	release()
	w.ready("second")
}

// TestWriterIsKept sees that an operator which starts again changes nothing, and that a suspended
// endpoint is the writer all the same.
func TestWriterIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.onePrimary()
	stop := w.operate()
	w.create(endpointOf("first", "trunk"))
	w.ready("first")
	pod := w.pod("first", "")
	stop()
	w.create(endpointOf("second", "trunk"))
	w.operate()
	w.says("second", "NeonEndpoint first writes to branch trunk")
	w.ready("first")
	if p := w.pod("first", ""); p.UID != pod.UID {
		t.Error("the compute was restarted")
	}
	w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Suspended = true })
	w.until("first", "is suspended", func(e *api.NeonEndpoint) bool { return e.Status.Phase == suspended && holds(e) })
	w.noPod("second")
	w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Suspended = false })
	w.ready("first")
}

// TestWriterMoves moves endpoints to other branches: to one that has a writer, and two at once so
// that they change places.
func TestWriterMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("a", "a")
	w.branch("b", "b")
	w.onePrimary()
	w.operate()
	w.create(endpointOf("first", "a"))
	w.create(endpointOf("second", "b"))
	w.ready("first")
	w.ready("second")
	w.create(endpointOf("third", "a"))
	w.says("third", "NeonEndpoint first writes to branch a")

	release := w.hold("first")
	w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Branch = "b" })
	w.says("first", "its compute on timeline "+strings.Repeat("a", 32)+" is ending")
	w.noPod("third")
	release()
	w.ready("third")
	w.says("first", "NeonEndpoint second writes to branch b")
	w.noPod("first")
	w.ok(w.endpoints.Delete(w.soon(), "second"))
	w.ready("first")
	w.serves("first", "b")

	w.modify("first", func(e *api.NeonEndpoint) { e.Spec.Branch = "a" })
	w.modify("third", func(e *api.NeonEndpoint) { e.Spec.Branch = "b" })
	w.ready("first")
	w.ready("third")
	w.serves("first", "a")
	w.serves("third", "b")
}

// serves checks the timeline of an endpoint's compute.
func (w *world) serves(endpoint, digit string) {
	w.Helper()
	if is := w.outside.process(w.pod(endpoint, "").UID).config.Spec.TimelineID; is != strings.Repeat(digit, 32) {
		w.Errorf("endpoint %s is on timeline %s", endpoint, is)
	}
}

// TestWritersOfTwoOperators has two processes of the operator that reconcile at the same time, and
// endpoints that are made and deleted in any order.
func TestWritersOfTwoOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.onePrimary()
	w.operate()
	stop := w.operate()
	names := []string{"one", "two", "three"}
	for _, name := range names {
		w.create(endpointOf(name, "trunk"))
	}
	for round := range names {
		var writer string
		w.eventually("an endpoint writes", func() bool {
			for e, err := range w.endpoints.List(w.Context()) {
				w.ok(err)
				if holds(e) && e.DeletionTimestamp == nil {
					writer = e.Name
				}
			}
			return writer != ""
		})
		t.Logf("%s writes", writer)
		if round == 1 {
			stop()
		}
		w.ok(w.endpoints.Delete(w.soon(), writer))
		w.ok(w.endpoints.UntilGone(w.soon(), writer))
	}
	for l, err := range w.leases.Labeled(writerSelector).List(w.soon()) {
		w.ok(err)
		t.Errorf("Lease %s is left", l.Name)
	}
}

// TestWriterOfAnImportedTimeline has two branches with one timeline.
func TestWriterOfAnImportedTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.branch("same", "1", func(b *api.NeonBranch) { b.Spec.TimelineID = strings.Repeat("1", 32) })
	w.onePrimary()
	w.operate()
	w.create(endpointOf("first", "trunk"))
	w.ready("first")
	w.create(endpointOf("second", "same"))
	w.says("second", "NeonEndpoint first writes to branch trunk, which has the same timeline as branch same")
	w.noPod("second")
}

// TestWriterThatWasForcedAway has an endpoint whose finalizers somebody has removed, so that it
// could not give its timeline back. Its pod is on a node that is lost.
func TestWriterThatWasForcedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.onePrimary()
	stop := w.operate()
	w.create(endpointOf("first", "trunk"))
	w.ready("first")
	release := w.hold("first")
	stop()
	w.ok(w.endpoints.Delete(w.soon(), "first"))
	_, err := w.endpoints.Patch(w.soon(), "first", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	w.ok(err)
	w.ok(w.endpoints.UntilGone(w.soon(), "first"))
	w.create(endpointOf("second", "trunk"))
	w.operate()
	w.until("second", "waits for a pod or its StatefulSet", func(e *api.NeonEndpoint) bool {
		c := condition(e)
		return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "first-compute")
	})
	w.noPod("second")
	release()
	w.ready("second")
}
