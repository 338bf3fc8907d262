package webhook

import (
	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/hooks"
)

// Serving is for package program and package manifest: it returns what serves and renders hooks.
// Programs that use neither have [Serve] and [Registration.Configurations]. Its counterpart is
// webhook.Server of controller-runtime.
func Serving(all ...Hook) (hooks.Serving, error) {
	if err := Check(all...); err != nil || len(all) == 0 {
		return hooks.None{}, err
	}
	return all[0].serving(all), nil
}

func (*hook) serving(all []Hook) hooks.Serving { return serving(all) }

// serving implements [hooks.Serving].
type serving []Hook

// at returns the registration of a place.
func at(p hooks.Place) Registration {
	return Registration{Name: p.Name, Namespace: p.Namespace, Service: p.Name, Kinds: p.Kinds}
}

// Check implements [hooks.Serving].
func (s serving) Check(definitions []*crd.Definition) error {
	var paths hooks.None
	for _, h := range s {
		paths = append(paths, h.Path())
	}
	return paths.Check(definitions)
}

// Definitions implements [hooks.Serving].
func (s serving) Definitions(p hooks.Place, all []*crd.Definition) []*crd.Definition {
	return at(p).definitions(all)
}

// Objects implements [hooks.Serving]. The objects of others are maps, so that no program links the
// packages of their types.
func (s serving) Objects(pods hooks.Pods, p hooks.Place) ([]any, error) {
	configurations, err := at(p).Configurations(s...)
	if err != nil {
		return nil, err
	}
	object := func(apiVersion, kind string, spec map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": p.Name, "namespace": p.Namespace, "labels": pods.Labels},
		}
	}
	selector := map[string]any{"matchLabels": pods.Labels}
	var ports []any
	for _, port := range pods.Ports {
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
		c.Labels = pods.Labels
		all = append(all, c)
	}
	return all, nil
}

// Issuer implements [hooks.Serving].
func (s serving) Issuer(p hooks.Place) (*certificate.Issuer, error) {
	configurations, err := at(p).Configurations(s...)
	if err != nil {
		return nil, err
	}
	issuer := &certificate.Issuer{Service: p.Name}
	for _, c := range configurations {
		if c.Kind == validatingKind {
			issuer.Targets = append(issuer.Targets, certificate.ValidatingWebhooks(c.Name))
		} else {
			issuer.Targets = append(issuer.Targets, certificate.MutatingWebhooks(c.Name))
		}
	}
	for _, d := range ofDefinitions(s) {
		issuer.Targets = append(issuer.Targets, certificate.Conversion(d.Name))
		issuer.AuthorityLifetime = conversionLife
	}
	return issuer, nil
}
