// Command letter writes letters. A Letter names its template and its recipient. Many
// Letters may share a template. The program writes the text into the Letter's status, and
// writes it again when the template changes.
//
//	go run ./operators/letter                                                  # against the kubeconfig's cluster
//	go run ./operators/letter manifests | kubectl apply --server-side -f -     # in it
//
// It shows how a reconcile reads from the cache. The templates are ConfigMaps. The
// controller watches them, and so has them in memory. No request is needed to read a
// template, or to find the Letters that are written from a template.
package main

import (
	"context"
	"embed"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/program"
)

// A Letter is written from a template.
type Letter struct {
	kube.Object
	Spec struct {
		// The ConfigMap that has the template under the key "text".
		Template string `json:"template" crd:"minLength=1,column"`
		// The recipient of the letter: the template has NAME in the place of it.
		To string `json:"to" crd:"column"`
	} `json:"spec"`
	Status struct {
		Text string `json:"text" crd:"column"`
	} `json:"status,omitzero"`
}

// GVK returns the kind.
func (Letter) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Letter"} }

// refersTo returns the template of a Letter.
func (l *Letter) refersTo() []kube.Key {
	return []kube.Key{{Namespace: l.Namespace, Name: l.Spec.Template}}
}

type operator struct {
	letters   kube.Resource[Letter]
	templates kube.Reader[corev1.ConfigMap]
}

func (op operator) reconcile(ctx context.Context, l *Letter) (controller.Action, error) {
	template, err := op.templates.In(l.Namespace).Cached().Get(ctx, l.Spec.Template)
	switch {
	case apierrors.IsNotFound(err):
		l.Status.Text = "" // the creation of the template will be a change
	case err != nil:
		return controller.Done, err
	default:
		l.Status.Text = strings.ReplaceAll(template.Data["text"], "NAME", l.Spec.To)
	}
	return controller.Done, op.letters.Status().Ensure(ctx, l)
}

//go:embed main.go
var source embed.FS

var definition = crd.Of[Letter](crd.Options{Source: source})

func main() { program.Main(describe) }

// describe returns the operator. Its rights follow from its controller.
func describe(client *kube.Client) (program.Operator, error) {
	op := operator{letters: kube.For[Letter](client), templates: kube.For[corev1.ConfigMap](client).ReadOnly()}
	letters := controller.Controller[Letter]{
		For:       op.letters,
		Watches:   []controller.Source{controller.Referenced(op.templates, (*Letter).refersTo)},
		Reconcile: op.reconcile,
	}
	return program.Operator{
		Name:        "letter-operator",
		Image:       "ghcr.io/pintle-go/letter:v0.1.0",
		Controllers: []controller.Any{letters},
		Definitions: []*crd.Definition{definition},
		Options:     controller.Options{Lease: lease.Lease{Name: "letter-operator"}},
	}, nil
}
