package manifest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// A setting that is empty by mistake does not widen rights.
func TestEmptySettingsDoNotWiden(t *testing.T) {
	secrets := kube.For[corev1.Secret](&kube.Client{}).In("app")
	for name, rules := range map[string]Rules{
		"no name":             Gets(secrets).Named(),
		"an empty name":       Gets(secrets).Named("a", ""),
		"an empty namespace":  Gets(secrets.In("")),
		"events in no place":  Events("app", ""),
		"no verb":             Uses(secrets, ""),
		"an empty verb":       Uses(secrets, "", "get", ""),
		"a namespace no name": Gets(kube.For[corev1.Secret](&kube.Client{}).In("a,b")),
	} {
		if all, err := grants([]Rules{rules}, nil); err == nil || len(all) > 0 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	if all, err := grants([]Rules{Gets(secrets).Named("a", "b")}, nil); err != nil || len(all) != 2 {
		t.Errorf("two names: %v, %v", all, err)
	}
}

func TestNilController(t *testing.T) {
	o := Operator{Name: "web", Image: "web", Controllers: make([]controller.Any, 1)}
	if _, err := o.YAML(); err == nil || !strings.Contains(err.Error(), "controller 0: it is nil") {
		t.Error(err)
	}
}
