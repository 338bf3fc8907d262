package webhook

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// A program that is called by URL takes the conversion over from the operator that kubectl has installed,
// and gives it back when it ends. Then kubectl can apply the definition again.
func TestDevelopTakesConversionOver(t *testing.T) {
	h := hookedServer(t)
	d := h.definition(t, false)
	d.Spec.Conversion.Webhook.ClientConfig = nil
	at := Registration{Name: "timers", Namespace: h.namespace, Service: "timers"}
	definitions := kube.For[crd.Definition](h.client)
	kubectl := func() error {
		printed := at.Definitions(d)[0]
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
	program := Program{
		Way: ByURL, Client: h.client, Options: &controller.Options{}, At: at, Definitions: []*crd.Definition{d},
	}
	for i := range 2 {
		started, err := program.Start(Convert(d))
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
