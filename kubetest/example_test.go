package kubetest_test

import (
	"fmt"
	"testing"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A test with a real Kubernetes, shared with other tests, on which a pod runs.
func ExampleStart() {
	_ = func(t *testing.T) { // a function such as TestPods
		cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
		client, err := kube.Config{Rest: cluster.Config()}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		pods := kube.For[corev1.Pod](client).In(cluster.Namespace(t))
		fmt.Println(pods.Namespaces()) // a namespace that ends with the test
	}
}

func TestPodRuns(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pods := kube.For[corev1.Pod](client).In(cluster.Namespace(t))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	if _, err := pods.Apply(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	running := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
	if _, err := pods.Until(t.Context(), "web", running); err != nil {
		t.Fatal(err)
	}
}
