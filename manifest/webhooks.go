package manifest

import (
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook"
)

// called reports whether the API server calls the operator.
func (o Operator) called() bool { return len(o.Webhooks) > 0 }

// Registration returns the place at which the API server finds the webhooks: the Service of the
// operator.
func (o Operator) Registration() webhook.Registration {
	r := webhook.Registration{Name: o.Name, Namespace: o.Install.Namespace, Service: o.Name}
	for _, d := range o.Definitions {
		r.Kinds = append(r.Kinds, kube.Kind{
			GVK:    kube.GVK{Group: d.Spec.Group, Kind: d.Spec.Names.Kind},
			Plural: d.Spec.Names.Plural, Scope: kube.Scope(d.Spec.Scope),
		})
	}
	return r
}
