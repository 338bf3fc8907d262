package realnode

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// nodeIsHeldBack tries, with the kubelet's own certificate, the attacks of a compromised
// kubelet. The scheduler binds no pod to the other node, because that node is not Ready.
func nodeIsHeldBack(t *testing.T, c *testCluster) {
	connect := func(file string) *kube.Client {
		t.Helper()
		client, err := kube.Config{Kubeconfig: filepath.Join(c.dir, file)}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	admin, node := connect("kubeconfig"), connect("node/"+kubelet+".kubeconfig")
	const other = "other"
	there := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "there"},
		Spec:       corev1.PodSpec{NodeName: other, Containers: []corev1.Container{{Name: "there", Image: webImage}}},
	}
	created := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	nodes, pods, secrets := kube.For[corev1.Node](
		admin,
	), kube.For[corev1.Pod](
		admin,
	).In("default"),
		kube.For[corev1.Secret](
			admin,
		).In("default")
	_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other}})
	created(err)
	_, err = pods.Create(t.Context(), there)
	created(err)
	_, err = secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unused"}})
	created(err)

	asNode, itsPods := kube.For[corev1.Node](node), kube.For[corev1.Pod](node).In("default")
	label := func(name string) []byte {
		return []byte(`{"metadata":{"labels":{"` + name + `":"mine"}}}`)
	}
	patch := func(name string, data []byte) func() error {
		return func() error {
			_, err := asNode.Patch(t.Context(), name, types.MergePatchType, data)
			return err
		}
	}
	for what, test := range map[string]struct {
		do      func() error
		refused string // the expected error; empty: not refused
	}{
		"label itself":                  {patch(Name, label("example.com/label")), ""},
		"label itself as only an admin": {patch(Name, label("node-restriction.kubernetes.io/label")), "is not allowed to modify labels: node-restriction.kubernetes.io/label"},
		"label another":                 {patch(other, label("example.com/label")), "node \"" + Name + "\" is not allowed to modify node \"" + other + "\""},
		"delete another":                {func() error { return asNode.Delete(t.Context(), other) }, "cannot delete resource \"nodes\""},
		"delete its pod": {
			func() error { return itsPods.Delete(t.Context(), there.Name) },
			"node \"" + Name + "\" can only delete pods with spec.nodeName set to itself",
		},
		"say how its pod does": {func() error {
			_, err := kube.Sub[corev1.Pod](itsPods, "status").Patch(t.Context(), there.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
			return err
		}, "node \"" + Name + "\" can only update pod status for pods with spec.nodeName set to itself"},
		"make a pod there": {func() error {
			mine := *there
			mine.Name = "mine"
			_, err := itsPods.Create(t.Context(), &mine)
			return err
		}, "can only create"},
		"read a secret that none of its pods has": {func() error {
			_, err := kube.For[corev1.Secret](node).In("default").Get(t.Context(), "unused")
			return err
		}, "no relationship found between node '" + Name + "' and this object"},
	} {
		err := test.do()
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%s: got %v, want %q", what, err, test.refused)
		}
	}

	now := int64(0)
	created(pods.Delete(t.Context(), there.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	created(nodes.Delete(t.Context(), other))
	created(secrets.Delete(t.Context(), "unused"))
}
