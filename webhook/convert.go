package webhook

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/crd"
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
	case !Converts(d):
		h.err = errors.New("make webhook to convert " + d.Name + ": the definition has no functions, or an address already")
	default:
		h.kind = kube.Kind{
			GVK:    kube.GVK{Group: d.Spec.Group, Version: d.Spec.Versions[0].Name, Kind: d.Spec.Names.Kind},
			Plural: d.Spec.Names.Plural, Scope: kube.Scope(d.Spec.Scope),
		}
	}
	return h
}

// Converts reports whether a definition has functions that convert, and no address at which the
// API server finds them.
func Converts(d *crd.Definition) bool {
	if d == nil || d.Err() != nil || d.Spec.Conversion == nil || d.Spec.Conversion.Webhook == nil {
		return false
	}
	return d.Spec.Conversion.Strategy == "Webhook" && d.Spec.Conversion.Webhook.ClientConfig == nil
}

// Converted reports whether a hook of [Convert] is for a definition.
func Converted(d *crd.Definition, hooks ...Hook) bool {
	path := conversionPath(d)
	return slices.ContainsFunc(hooks, func(h Hook) bool { return h != nil && h.Path() == path })
}

// Definitions returns definitions with the address of their conversion. It leaves those that have
// no functions, or an address, as they are.
func (r Registration) Definitions(all ...*crd.Definition) []*crd.Definition {
	all = slices.Clone(all)
	for i, d := range all {
		if !Converts(d) {
			continue
		}
		path := conversionPath(d)
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

// conversionPath is the path at which the objects of a definition are converted.
func conversionPath(d *crd.Definition) string {
	return prefix + strings.Join([]string{string(converts), d.Spec.Group, strings.ToLower(d.Spec.Names.Kind)}, "/")
}

// ofDefinitions returns the definitions of the hooks that convert.
func ofDefinitions(hooks []Hook) (all []*crd.Definition) {
	for _, h := range hooks {
		if d := h.base().definition; d != nil {
			all = append(all, d)
		}
	}
	return all
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
