package manifest

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// A controller that reads a kind may list and watch it. It has no other right to it.
func TestControlsReads(t *testing.T) {
	var nobody *kube.Client
	rules := Controls(controller.Controller[corev1.ConfigMap]{
		For: kube.For[corev1.ConfigMap](nobody), Reads: []kube.AnyHandle{kube.For[corev1.Secret](nobody)},
	})
	var verbs []string
	for _, r := range rules {
		if r.Kind.Kind == "Secret" {
			verbs = append(verbs, r.Verbs...)
		}
	}
	if !slices.Equal(verbs, []string{"list", "watch"}) {
		t.Errorf("the rights to the objects that are read are %v", verbs)
	}
}

// A controller that removes former finalizers may patch its objects.
func TestControlsFormerFinalizers(t *testing.T) {
	var nobody *kube.Client
	rules := Controls(controller.Controller[corev1.ConfigMap]{
		For: kube.For[corev1.ConfigMap](nobody), FormerFinalizers: []string{"example.com/old"},
	})
	if !slices.ContainsFunc(rules, func(r Rule) bool { return slices.Contains(r.Verbs, "patch") }) {
		t.Errorf("the rights are %v", rules)
	}
}
