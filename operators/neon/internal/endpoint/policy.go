package endpoint

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
)

// policy lets clients and the proxy in at the port of PostgreSQL, which asks for passwords, and
// the operator at the port of its API, which asks for tokens. A second port of that API asks for
// none: nobody comes in there.
func (op *Operator) policy(e *api.NeonEndpoint) *networkingv1.NetworkPolicy {
	meta := metav1.ObjectMeta{Namespace: e.Namespace, Name: computeName(e), Labels: labels(e)}
	return policy.Closed(meta, labels(e), policy.Door(postgresPort),
		policy.Door(httpPort, append([]networkingv1.NetworkPolicyPeer{op.Peers.Operator()}, op.Peers.Scraping()...)...))
}

// open reports whether the cluster of an endpoint wants no policies.
func (op *Operator) open(ctx context.Context, e *api.NeonEndpoint) bool {
	_, p, err := op.placeOf(ctx, e)
	if err != nil {
		return false // the branch is waited for
	}
	c, err := op.Clusters.In(e.Namespace).Cached().Get(ctx, p.Spec.Cluster)
	return err == nil && c.Spec.NetworkPolicies == api.Off
}

// belongs marks the pods of a compute as those of their cluster, which lets them in.
func (op *Operator) belongs(ctx context.Context, e *api.NeonEndpoint, s *appsv1.StatefulSet) (*appsv1.StatefulSet, error) {
	_, p, err := op.placeOf(ctx, e)
	if err != nil {
		return nil, err
	}
	s.Spec.Template.Labels[policy.ClusterLabel] = p.Spec.Cluster
	return s, nil
}
