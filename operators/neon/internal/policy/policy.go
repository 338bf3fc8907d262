// Package policy makes the parts that the NetworkPolicies of clusters and endpoints share.
//
// A policy counts the sources of a connection. The kubelet's probes come from the pod's own
// node, which the network plugins let through.
package policy

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterLabel is on the pods of computes. Its value is the name of their NeonCluster, which lets
// them in.
const ClusterLabel = "neon.pintle.dev/cluster"

// Peers are the sources outside of the objects that the operator makes.
type Peers struct {
	// Namespace and Labels are those of the operator's own pods.
	Namespace string
	Labels    map[string]string
	// Scrapers are the namespaces whose pods read metrics.
	Scrapers []string
}

// Operator returns the operator's pods.
func (p Peers) Operator() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: namespace(p.Namespace), PodSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}
}

// Scraping returns all pods that read metrics.
func (p Peers) Scraping() (peers []networkingv1.NetworkPolicyPeer) {
	for _, name := range p.Scrapers {
		peers = append(peers, networkingv1.NetworkPolicyPeer{NamespaceSelector: namespace(name)})
	}
	return peers
}

func namespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

// Pods returns the pods with labels, in the policy's own namespace.
func Pods(labels map[string]string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
}

// Door lets peers in at a port. Without peers everybody comes in.
func Door(port int32, peers ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
	number, tcp := intstr.FromInt32(port), corev1.ProtocolTCP
	return networkingv1.NetworkPolicyIngressRule{
		From: peers, Ports: []networkingv1.NetworkPolicyPort{{Port: &number, Protocol: &tcp}},
	}
}

// Closed returns a policy for the pods with labels. All of their ports that have no door are
// closed.
func Closed(
	about metav1.ObjectMeta, labels map[string]string, doors ...networkingv1.NetworkPolicyIngressRule,
) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: about, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: labels}, Ingress: doors,
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	}}
}
