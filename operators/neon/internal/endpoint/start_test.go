package endpoint

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// begun waits until the operator has asked the compute in a pod for its status.
func (w *world) begun(p *corev1.Pod) {
	w.Helper()
	w.eventually("the compute in pod "+p.Name+" is asked", func() bool { return w.outside.process(p.UID).status != "" })
}

// TestSlowStart has computes that take longer to start than a compute with an old configuration
// may. The first has the wanted one: it is left alone. The second gets another one meanwhile: it
// is started again with that.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate(func(op *Operator) { op.limits.outdated = 2 * time.Second })
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop") // so that a configuration is known to be applied

	t.Log("a compute with the wanted configuration starts slowly")
	w.outside.set(func() { w.outside.begin = upstream.ComputeInit })
	first := w.pod("shop", "")
	w.ok(w.pods.Delete(w.soon(), first.Name))
	slow := w.pod("shop", first.UID)
	w.begun(slow)
	time.Sleep(8 * time.Second) // four times the limit, and more than two looks
	if p := w.pod("shop", ""); p.UID != slow.UID {
		t.Error("a compute that starts with the wanted configuration was restarted")
	}
	w.outside.set(func() { w.outside.processes[slow.UID].status = upstream.ComputeRunning })
	w.ready("shop")

	t.Log("a compute that starts for the first time is given another configuration")
	w.branch("twig", "2")
	w.create(endpointOf("new", "twig"))
	old := w.pod("new", "")
	w.begun(old)
	w.outside.set(func() { w.outside.begin = upstream.ComputeRunning })
	b, err := w.branches.Get(w.soon(), "twig")
	w.ok(err)
	b.Status.Safekeepers, b.Status.SafekeepersGeneration = []int64{2, 3, 4}, 2
	err = w.branches.Status().Update(w.soon(), b)
	w.ok(err)
	next := w.pod("new", old.UID)
	w.ready("new")
	if is := w.outside.process(next.UID).config.Spec; is.SafekeepersGeneration != 2 {
		t.Errorf("the compute runs with generation %d of the safekeepers", is.SafekeepersGeneration)
	}
}

// TestHotChange sees that a compute takes a change through its /configure, and is restarted for
// one that it reads only at its start.
func TestHotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	first := w.pod("shop", "")
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"work_mem": "8MB"} })
	w.until("shop", "has applied the change", func(e *api.NeonEndpoint) bool {
		return holds(e) && w.outside.process(first.UID).configured > 1
	})
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings["max_connections"] = "50" })
	second := w.pod("shop", first.UID)
	w.ready("shop")
	if n := w.outside.process(second.UID).configured; n != 1 {
		t.Errorf("the new compute was configured %d times", n)
	}
}

// TestStuckStart has a compute that never gets ready, and whose pod is not ready either. A change
// that needs another pod gets one.
func TestStuckStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.outside.set(func() { w.outside.begin = upstream.ComputeInit })
	w.operate(func(op *Operator) { op.limits.slow = time.Second })
	w.create(endpointOf("shop", "trunk"))
	first := w.pod("shop", "")
	w.says("shop", "it is init for longer than 1s")
	w.outside.set(func() { w.outside.begin = upstream.ComputeRunning })
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"max_connections": "50"} })
	w.pod("shop", first.UID)
	w.ready("shop")
}

// TestFailedCompute sees that a compute which has failed is started again after a while, and not
// at once: it ends by itself, with the kubelet's back-off.
func TestFailedCompute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	why := "Postgres exited unexpectedly with code 1"
	w.operate(func(op *Operator) { op.limits.failed = 6 * time.Second })
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	first := w.pod("shop", "")
	w.begun(first)
	failed := time.Now()
	w.outside.set(func() {
		p := w.outside.processes[first.UID]
		p.status, p.failure = upstream.ComputeFailed, &why
	})
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"work_mem": "8MB"} })
	w.says("shop", "it is failed: "+why)
	w.pod("shop", first.UID)
	if after := time.Since(failed); after < 6*time.Second {
		t.Errorf("it was restarted after %s", after)
	}
	w.ready("shop")
}
