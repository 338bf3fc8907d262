package webhook

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/hooks"
	"github.com/pintle-go/pintle/kube"
)

// A program that is called by URL takes the conversion over from the operator that kubectl has installed,
// and gives it back when it ends. Then kubectl can apply the definition again.
func TestDevelopTakesConversionOver(t *testing.T) {
	h := hookedServer(t)
	d := h.definition(t, false)
	d.Spec.Conversion.Webhook.ClientConfig = nil
	place := hooks.Place{Name: "timers", Namespace: h.namespace}
	definitions := kube.For[crd.Definition](h.client)
	kubectl := func() error {
		printed := at(place).definitions([]*crd.Definition{d})[0]
		text, err := json.Marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": d.Name}, "spec": printed.Spec,
		})
		if err == nil {
			_, err = definitions.With(kube.WriteOptions{FieldManager: "kubectl"}).
				Patch(briefly(t), d.Name, types.ApplyYAMLPatchType, text)
		}
		return err
	}
	if err := kubectl(); err != nil {
		t.Fatal(err)
	}
	program := hooks.Program{
		Way: hooks.ByURL, Client: h.client, Options: &controller.Options{}, At: place, Definitions: []*crd.Definition{d},
	}
	for i := range 2 {
		started, err := serving{Convert(d)}.Start(program)
		if err != nil {
			t.Fatal(err)
		}
		h.install(t, started.Definitions[0])
		o := &timerV1{}
		o.Name, o.Spec.Cron = fmt.Sprint("t", i), "*"
		if _, err := h.v1().Create(briefly(t), o); err != nil {
			t.Error(err)
		}
		started.Stop(briefly(t))
		live, err := definitions.Get(briefly(t), d.Name)
		if err != nil {
			t.Fatal(err)
		}
		if c := live.Spec.Conversion.Webhook.ClientConfig; c.URL != nil || c.Service == nil || c.Service.Name != "timers" ||
			len(c.CABundle) > 0 {
			t.Errorf("the address after the end: %+v", c)
		}
		if err := kubectl(); err != nil {
			t.Error(err)
		}
	}
}
