package manifest

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook"
)

// A program outside a pod installs definitions that lead to the Service of the operator in the cluster,
// also if no namespace is set.
func TestPlaceHasTheDefaultNamespace(t *testing.T) {
	for _, o := range []Operator{{Name: "barn"}, {Name: "stable", Install: Install{Namespace: "barn"}}} {
		if got := o.place().Namespace; got != "barn" {
			t.Errorf("%s: %q", o.Name, got)
		}
	}
}

// Webhooks without an address cannot be reached.
func TestWebhooksNeedAnAddress(t *testing.T) {
	pods := kube.For[corev1.Pod](&kube.Client{})
	hook := webhook.Mutate(pods, func(context.Context, *corev1.Pod) error { return nil })
	o := Operator{Name: "barn", Image: "barn", Webhooks: []webhook.Hook{hook}}
	if _, err := o.YAML(); err == nil || !strings.Contains(err.Error(), "webhooks need an Address") {
		t.Errorf("without an address: %v", err)
	}
	o.Options.Address = ":8080"
	text, err := o.YAML()
	if err != nil || !strings.Contains(string(text), "MutatingWebhookConfiguration") {
		t.Errorf("with an address: %v\n%s", err, text)
	}
}
