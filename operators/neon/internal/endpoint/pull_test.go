package endpoint

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestPullSecrets gives a cluster the Secrets for pulling its images while one compute runs and the image of
// another one cannot be pulled. The latter gets a pod with the Secrets at once, the former one later.
func TestPullSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.branch("twig", "2")
	w.operate(func(op *Operator) { op.computeKind.Poll = time.Second })
	w.create(endpointOf("shop", "trunk"))
	w.ready("shop")
	running := w.pod("shop", "")

	stuck := endpointOf("stuck", "twig")
	// No node has that much, so no kubelet writes the status of the pod. The scheduler does.
	stuck.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10k")}
	w.create(stuck)
	waiting := w.pod("stuck", "")
	for {
		is, err := w.pods.Get(w.soon(), waiting.Name)
		w.ok(err)
		is.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "compute", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}
		if err = w.pods.Status().Update(w.soon(), is); !apierrors.IsConflict(err) {
			w.ok(err)
			break
		}
	}
	w.says("stuck", "spec.imagePullSecrets of the NeonCluster")

	secrets := []corev1.LocalObjectReference{{Name: "registry"}, {Name: "mirror"}}
	_, err := kube.For[api.NeonCluster](w.client).In(w.namespace).Modify(w.soon(), "main", func(c *api.NeonCluster) error {
		c.Spec.ImagePullSecrets = secrets
		return nil
	})
	w.ok(err)
	next := w.pod("stuck", waiting.UID)
	if diff := cmp.Diff(secrets, next.Spec.ImagePullSecrets); diff != "" {
		t.Errorf("the pod whose image could not be pulled (-want +got):\n%s", diff)
	}

	_, err = w.sets.Until(w.soon(), "shop-compute", func(s *appsv1.StatefulSet) bool {
		return cmp.Equal(s.Spec.Template.Spec.ImagePullSecrets, secrets)
	})
	if err != nil {
		t.Fatalf("the StatefulSet has not got the Secrets: %v", err)
	}
	// The endpoint has had its turn with the Secrets when it has had another one.
	before := w.outside.process(running.UID).configured
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"work_mem": "8MB"} })
	w.until("shop", "is configured", func(e *api.NeonEndpoint) bool {
		return holds(e) && w.outside.process(running.UID).configured > before
	})
	if is := w.pod("shop", ""); is.UID != running.UID {
		t.Error("the compute that runs was restarted for the Secrets of its image")
	}
	w.ok(w.pods.Delete(w.soon(), running.Name))
	if is := w.pod("shop", running.UID); !cmp.Equal(is.Spec.ImagePullSecrets, secrets) {
		t.Errorf("its next pod has %v, want %v", is.Spec.ImagePullSecrets, secrets)
	}
}
