package kubetest_test

import (
	"testing"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A simulated pod runs for a while and then fails, and it runs on a simulated node.
func TestPodFails(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pods := kube.For[corev1.Pod](client).In(cluster.Namespace(t))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "job", Annotations: map[string]string{
			kubetest.StartDelay: "100ms",
			kubetest.RunFor:     "1s",
			kubetest.ExitCode:   "3",
		}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			NodeSelector:  map[string]string{kubetest.NodeLabel: "true"},
			Containers:    []corev1.Container{{Name: "job", Image: "job"}},
		},
	}
	if _, err := pods.Apply(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	failed := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }
	pod, err = pods.Until(t.Context(), "job", failed)
	if err != nil {
		t.Fatal(err)
	}
	if code := pod.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
		t.Errorf("the container ended with status %d, want 3", code)
	}
}
