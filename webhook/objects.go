package webhook

import (
	"github.com/pintle-go/pintle/certificate"
)

// Pods are those of a program that serves hooks.
type Pods struct {
	Namespace, Name string
	// Labels are those of the pods and of the objects about them.
	Labels map[string]string
	// Ports are those that the pods listen at.
	Ports []int32
}

// Objects returns what a cluster needs besides Deployment and Service to call hooks: the
// configurations, a PodDisruptionBudget that leaves a pod while a node is drained, and a
// NetworkPolicy that keeps the ports open. The policy names nobody who may reach them, because no
// selector matches an API server in the network of its node.
func (r Registration) Objects(p Pods, hooks ...Hook) ([]any, error) {
	if err := Check(hooks...); err != nil || len(hooks) == 0 {
		return nil, err
	}
	return hooks[0].objects(p, r, hooks)
}

// The objects of others are maps, so that no program links the packages of their types.
func (h *hook) objects(p Pods, r Registration, hooks []Hook) ([]any, error) {
	configurations, err := h.configurations(r, hooks)
	if err != nil {
		return nil, err
	}
	object := func(apiVersion, kind string, spec map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace, "labels": p.Labels},
		}
	}
	selector := map[string]any{"matchLabels": p.Labels}
	var ports []any
	for _, port := range p.Ports {
		ports = append(ports, map[string]any{"protocol": "TCP", "port": port})
	}
	all := []any{
		object("policy/v1", "PodDisruptionBudget", map[string]any{"maxUnavailable": 1, "selector": selector}),
		object("networking.k8s.io/v1", "NetworkPolicy", map[string]any{
			"podSelector": selector, "policyTypes": []string{"Ingress"},
			"ingress": []any{map[string]any{"ports": ports}},
		}),
	}
	for _, c := range configurations {
		c.Labels = p.Labels
		all = append(all, c)
	}
	return all, nil
}

// Issuer returns the issuer of the certificate by which the API server knows the hooks. It puts its
// authority into the configurations, and lacks a Client.
func (r Registration) Issuer(hooks ...Hook) (*certificate.Issuer, error) {
	if err := Check(hooks...); err != nil || len(hooks) == 0 {
		return nil, err
	}
	return hooks[0].issuer(r, hooks)
}

func (h *hook) issuer(r Registration, hooks []Hook) (*certificate.Issuer, error) {
	configurations, err := h.configurations(r, hooks)
	if err != nil {
		return nil, err
	}
	issuer := &certificate.Issuer{Service: r.Service}
	for _, c := range configurations {
		if c.Kind == validatingKind {
			issuer.Targets = append(issuer.Targets, certificate.ValidatingWebhooks(c.Name))
		} else {
			issuer.Targets = append(issuer.Targets, certificate.MutatingWebhooks(c.Name))
		}
	}
	for _, d := range ofDefinitions(hooks) {
		issuer.Targets = append(issuer.Targets, certificate.Conversion(d.Name))
		issuer.AuthorityLifetime = conversionLife
	}
	return issuer, nil
}
