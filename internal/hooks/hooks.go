// Package hooks names the steps that package program and package manifest take for the webhooks of an
// operator. Package webhook has the methods of a hook for them, so that the linker leaves them out of
// a program that makes no hook.
package hooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Serving serves and renders all hooks of a program.
type Serving interface {
	// Start makes the API server call the hooks when a program runs with the options. With a URL it
	// listens at once, so that the API server can convert objects while the definitions are installed.
	Start(Program) (Started, error)
	// Objects returns the objects that a cluster needs besides Deployment and Service to call the hooks: the
	// configurations, a PodDisruptionBudget that leaves a pod while a node is drained, and a
	// NetworkPolicy that keeps the ports open. The policy names nobody who may reach them, because no
	// selector matches an API server in the network of its node.
	Objects(Pods, Place) ([]any, error)
	// Issuer returns the issuer of the certificate by which the API server knows the hooks. It lacks
	// a Client.
	Issuer(Place) (*certificate.Issuer, error)
	// Definitions returns definitions with the address of their conversion.
	Definitions(Place, []*crd.Definition) []*crd.Definition
	// Check returns an error if a definition converts by functions that no hook calls.
	Check([]*crd.Definition) error
}

// Place is where the API server finds an operator in the cluster: the Service of its name.
type Place struct {
	Name, Namespace string
	// Kinds have plural and scope of kinds whose handle does not tell them.
	Kinds []kube.Kind
}

// PlaceOf returns the place of an operator. Without a namespace it is in the one of its name.
func PlaceOf(name, namespace string, definitions []*crd.Definition) Place {
	p := Place{Name: name, Namespace: cmp.Or(namespace, name)}
	for _, d := range definitions {
		if d == nil {
			continue // the operator's manifests have the error
		}
		p.Kinds = append(p.Kinds, kube.Kind{
			GVK:    kube.GVK{Group: d.Spec.Group, Kind: d.Spec.Names.Kind},
			Plural: d.Spec.Names.Plural, Scope: d.Spec.Scope,
		})
	}
	return p
}

// Pods are those of an operator.
type Pods struct {
	// Labels are those of the pods and of the objects about them.
	Labels map[string]string
	Ports  []int32
}

// Program is a program that serves hooks.
type Program struct {
	// Way is by default the one that [WayTo] returns for the Client.
	Way   Way
	InPod bool
	// Client is that of the issuer of the certificate, or of the registration by URL.
	Client *kube.Client
	// Options are those of the program. Start adds to them.
	Options *controller.Options
	// At is where the printed configurations lead.
	At Place
	// Definitions are those that the program installs.
	Definitions []*crd.Definition
}

// Started is the result of the start for a [Program].
type Started struct {
	// Definitions have the address of their conversion.
	Definitions []*crd.Definition
	// Stop is called after the program has ended.
	Stop func(context.Context)
}

// Way is how the API server reaches a program.
type Way string

const (
	// ByService is by the Service of a program in the cluster.
	ByService Way = "service"
	// ByURL is by a port of loopback. The program registers its hooks while it runs, each with the
	// failure policy Ignore: a program that is killed blocks nobody.
	ByURL Way = "url"
	// Off means that the API server does not call the program.
	Off Way = "off"
)

// WayTo returns how an API server at a host, such as https://127.0.0.1:6443, reaches a program.
func WayTo(host string, inPod bool) Way {
	_, host, _ = strings.Cut(host, "//")
	switch {
	case inPod:
		return ByService
	case strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "localhost") || strings.HasPrefix(host, "[::1]"):
		return ByURL
	}
	return Off
}

// Converts reports whether a definition has functions that convert, and no address at which the
// API server finds them.
func Converts(d *crd.Definition) bool {
	if d == nil || d.Err() != nil || d.Spec.Conversion == nil || d.Spec.Conversion.Webhook == nil {
		return false
	}
	return d.Spec.Conversion.Strategy == "Webhook" && d.Spec.Conversion.Webhook.ClientConfig == nil
}

// ConversionPath is the path at which the objects of a definition are converted.
func ConversionPath(d *crd.Definition) string {
	return "/webhook/convert/" + d.Spec.Group + "/" + strings.ToLower(d.Spec.Names.Kind)
}

// None serves no hooks but those of the given paths.
type None []string

// Check implements [Serving].
func (n None) Check(definitions []*crd.Definition) error {
	for _, d := range definitions {
		if Converts(d) && !slices.Contains(n, ConversionPath(d)) {
			return fmt.Errorf("definition %s has functions that convert, which nobody calls: "+
				"add webhook.Convert of it to the Webhooks", d.Name)
		}
	}
	return nil
}

// Start implements [Serving].
func (n None) Start(p Program) (Started, error) {
	return Started{p.Definitions, func(context.Context) {}}, n.Check(p.Definitions)
}

// Objects implements [Serving].
func (None) Objects(Pods, Place) ([]any, error) { return nil, nil }

// Issuer implements [Serving].
func (None) Issuer(Place) (*certificate.Issuer, error) { return nil, nil }

// Definitions implements [Serving].
func (None) Definitions(_ Place, all []*crd.Definition) []*crd.Definition { return all }
