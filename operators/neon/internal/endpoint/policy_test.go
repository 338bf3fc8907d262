package endpoint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
)

// TestComputeIsClosed lists the open ports of a compute, and the peers that they let in.
func TestComputeIsClosed(t *testing.T) {
	t.Parallel()
	e := new(api.NeonEndpoint)
	e.Namespace, e.Name = "data", "shop"
	op := &Operator{Peers: policy.Peers{Namespace: "operators", Labels: map[string]string{"a": "b"}, Scrapers: []string{"monitoring"}}}
	p := op.policy(e)
	if diff := cmp.Diff(metav1.LabelSelector{MatchLabels: labels(e)}, p.Spec.PodSelector); diff != "" {
		t.Errorf("it is for other pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, p.Spec.PolicyTypes); diff != "" {
		t.Errorf("its types (-want +got):\n%s", diff)
	}
	open := map[int32][]networkingv1.NetworkPolicyPeer{}
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.IntVal] = rule.From
		}
	}
	in := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": name}}
	}
	want := map[int32][]networkingv1.NetworkPolicyPeer{
		55433: nil, // clients are asked for passwords
		3080: {
			{NamespaceSelector: in("operators"), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			{NamespaceSelector: in("monitoring")},
		},
	}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("the open ports (-want +got):\n%s", diff)
	}
}
