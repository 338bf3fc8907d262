package webhook

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/kube"
)

// converts is the verb of a hook that converts objects between the versions of a definition.
const converts verb = "convert"

// conversionLife is the lifetime of an authority that signs for conversions. Each change of it
// makes the API server convert all objects again.
const conversionLife = 10 * 365 * 24 * time.Hour

// Convert makes a hook that converts objects between the versions of a definition, by the functions
// of [crd.Converts]. Its
// counterpart is conversion.NewWebhookHandler of controller-runtime.
func Convert(d *crd.Definition) Hook {
	h := &hook{verb: converts, definition: d}
	switch {
	case d == nil:
		h.err = errors.New("make webhook to convert: the definition is nil")
	case d.Err() != nil:
		h.err = d.Err()
	case !hooks.Converts(d):
		h.err = errors.New("make webhook to convert " + d.Name + ": the definition has no functions, or an address already")
	default:
		h.kind = kube.Kind{
			GVK:    kube.GVK{Group: d.Spec.Group, Version: d.Spec.Versions[0].Name, Kind: d.Spec.Names.Kind},
			Plural: d.Spec.Names.Plural, Scope: d.Spec.Scope,
		}
	}
	return h
}

// definitions returns definitions with the address of their conversion. It leaves those that have
// no functions, or an address, as they are.
func (r Registration) definitions(all []*crd.Definition) []*crd.Definition {
	all = slices.Clone(all)
	for i, d := range all {
		if !hooks.Converts(d) {
			continue
		}
		path := hooks.ConversionPath(d)
		with := *d
		conversion, hook := *d.Spec.Conversion, *d.Spec.Conversion.Webhook
		if r.URL != "" {
			url := strings.TrimSuffix(r.URL, "/") + path
			hook.ClientConfig = &crd.WebhookClientConfig{URL: &url, CABundle: r.CABundle}
		} else {
			port := cmp.Or(r.Port, 443)
			hook.ClientConfig = &crd.WebhookClientConfig{CABundle: r.CABundle, Service: &crd.ServiceReference{
				Namespace: r.Namespace, Name: r.Service, Path: &path, Port: &port,
			}}
		}
		conversion.Webhook, with.Spec.Conversion, all[i] = &hook, &conversion, &with
	}
	return all
}

// ofDefinitions returns the definitions of the hooks that convert.
func ofDefinitions(all []Hook) (definitions []*crd.Definition) {
	for _, h := range all {
		if d := h.base().definition; d != nil {
			definitions = append(definitions, d)
		}
	}
	return definitions
}

// noted keeps the status of an answer.
type noted struct {
	http.ResponseWriter
	code int
}

func (n *noted) WriteHeader(code int) {
	n.code = cmp.Or(n.code, code)
	n.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }
