package endpoint

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// A compute that has run for some time gets another pod for changes that are no part of its configuration.
func TestPodOfARunningCompute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	// The changes themselves bring the endpoint's turns, not the next look at its compute.
	w.operate(func(op *Operator) { op.computeKind.Poll = time.Hour })
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	pod := w.pod("shop", "")
	// It is seen a second time.
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"work_mem": "8MB"} })
	w.until("shop", "is configured", func(e *api.NeonEndpoint) bool {
		return holds(e) && w.outside.process(pod.UID).configured > 0
	})
	if is := w.pod("shop", ""); is.UID != pod.UID {
		t.Fatal("the compute was restarted for a setting that needs no restart")
	}
	_, err := kube.For[api.NeonCluster](w.client).In(w.namespace).Modify(w.soon(), "main", func(c *api.NeonCluster) error {
		c.Spec.ComputeImages["17"] = "compute:next"
		return nil
	})
	w.ok(err)
	image := w.pod("shop", pod.UID)
	if is := image.Spec.Containers[0].Image; is != "compute:next" {
		t.Errorf("the pod after a change of the image has the image %s", is)
	}
	w.ready("shop")
	few := resource.MustParse("20m")
	w.modify("shop", func(e *api.NeonEndpoint) {
		e.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: few}
	})
	next := w.pod("shop", image.UID)
	is := next.Spec.Containers[0]
	if cpu := is.Resources.Requests[corev1.ResourceCPU]; is.Image != "compute:next" || cpu.Cmp(few) != 0 {
		t.Errorf("the next pod has the image %s and %s of a CPU", is.Image, &cpu)
	}
	w.ready("shop")
}
