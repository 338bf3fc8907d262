package cluster

import (
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
	"github.com/pintle-go/pintle/plan"
)

// guard describes the NetworkPolicies and PodDisruptionBudgets of a cluster. They need nothing, so
// that they are there before the pods.
func (op *Operator) guard(p *plan.Plan, c *api.NeonCluster) {
	closed := policies(c, op.Peers)
	if c.Spec.NetworkPolicies == api.Off {
		closed = nil
	}
	plan.Each(p, "policy", slices.Sorted(maps.Keys(closed)), op.Policies,
		func(_ plan.Inputs, component string) (*networkingv1.NetworkPolicy, error) {
			return closed[component], nil
		})
	plan.Each(p, "budget", []string{"pageserver", "safekeeper"}, op.Budgets,
		func(_ plan.Inputs, component string) (*policyv1.PodDisruptionBudget, error) {
			return budget(c, component), nil
		})
}

// budget lets the members of a component be evicted one by one: two of three safekeepers must
// run so that a transaction can commit. The other programs have one pod each, which a drained
// node has to be able to evict.
func budget(c *api.NeonCluster, component string) *policyv1.PodDisruptionBudget {
	one, meta := intstr.FromInt32(1), about(c, component)
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
	}}
}

// policies returns who may connect to the programs of a cluster, by component: the programs that
// call each other, the computes of the cluster, the operator, and those that read metrics.
func policies(c *api.NeonCluster, peers policy.Peers) map[string]*networkingv1.NetworkPolicy {
	part := func(component string) networkingv1.NetworkPolicyPeer { return policy.Pods(about(c, component).Labels) }
	controller, safekeeper, pageserver := part("controller"), part("safekeeper"), part("pageserver")
	compute := policy.Pods(map[string]string{componentLabel: "compute", policy.ClusterLabel: c.Name})
	operator := peers.Operator()
	scraped := func(port int32, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		return policy.Door(port, append(from, peers.Scraping()...)...)
	}
	all := map[string]*networkingv1.NetworkPolicy{}
	add := func(component string, doors ...networkingv1.NetworkPolicyIngressRule) {
		meta := about(c, component)
		all[component] = policy.Closed(meta, meta.Labels, doors...)
	}
	add("broker", scraped(BrokerPort, safekeeper, pageserver))
	add("controller", scraped(ControllerPort, controller, pageserver, operator))
	add("safekeeper", policy.Door(SafekeeperPort, safekeeper, pageserver, compute),
		scraped(SafekeeperHTTPPort, safekeeper, controller, operator))
	add("pageserver", policy.Door(PageserverPort, compute), scraped(PageserverHTTPPort, controller, operator))
	if stageOf(c).changing() {
		open := func(component string, port int32, from ...networkingv1.NetworkPolicyPeer) {
			spec := &all[component].Spec
			spec.Ingress = append(spec.Ingress, scraped(port, from...))
		}
		open("broker", beside(BrokerPort), safekeeper, pageserver)
		open("controller", beside(ControllerPort), controller, pageserver, operator)
		open("safekeeper", beside(SafekeeperHTTPPort), safekeeper, controller, operator)
		open("pageserver", beside(PageserverHTTPPort), controller, operator)
	}
	if c.Spec.ObjectStore.Managed != nil {
		add("store", policy.Door(storePort, safekeeper, pageserver, operator))
	}
	if c.Spec.ControllerDatabase.Managed != nil {
		add("database", policy.Door(databasePort, controller, operator))
	}
	return all
}
