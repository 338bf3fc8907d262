package manifest

import (
	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/webhook"
)

// called reports whether the API server calls the operator.
func (o Operator) called() bool { return len(o.Webhooks) > 0 }

// serving returns what serves and renders the webhooks. withDefaults returns the error.
func (o Operator) serving() hooks.Serving {
	s, _ := webhook.Serving(o.Webhooks...)
	return s
}

// place returns the place at which the API server finds the operator: its Service.
func (o Operator) place() hooks.Place {
	return hooks.PlaceOf(o.Name, o.Install.Namespace, o.Definitions)
}
