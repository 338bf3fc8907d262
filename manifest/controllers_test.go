package manifest

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// The rights of an operator follow from its controllers.
func TestControllersNeed(t *testing.T) {
	client, err := kube.Config{Rest: nowhere()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	gadgets, maps := kube.For[Gadget](client), kube.For[corev1.ConfigMap](client)
	secrets := kube.For[corev1.Secret](client)
	definition := crd.Of[Gadget](crd.Options{})
	clean := func(context.Context, *Gadget) (controller.Action, error) { return controller.Done, nil }
	follows := []string{"list gadgets.manifest.test", "watch gadgets.manifest.test"}
	status := "patch gadgets/status.manifest.test"
	for name, test := range map[string]struct {
		controller controller.Any
		foreign    bool // the kind has no definition
		want       []string
	}{
		"without a handle": {controller: controller.Controller[Gadget]{}},
		"of its own kind": {
			controller: controller.Controller[Gadget]{For: gadgets},
			want:       append([]string{status}, follows...),
		},
		"read-only": {controller: controller.Controller[Gadget]{For: gadgets.ReadOnly()}, want: follows},
		"of a kind of others": {
			controller: controller.Controller[Gadget]{For: gadgets}, foreign: true, want: follows,
		},
		"with a cleanup": {
			controller: controller.Controller[Gadget]{For: gadgets, Cleanup: clean},
			want:       append([]string{"patch gadgets.manifest.test", status}, follows...),
		},
		"with former finalizers": {
			controller: controller.Controller[Gadget]{For: gadgets, FormerFinalizers: []string{"example.com/old"}},
			want:       append([]string{"patch gadgets.manifest.test", status}, follows...),
		},
		"with children": {
			controller: controller.Controller[Gadget]{For: gadgets, Owns: []kube.AnyHandle{maps}},
			want: append([]string{
				"list configmaps", "update gadgets/finalizers.manifest.test", status, "watch configmaps",
			}, follows...),
		},
		"with children that it watches": {
			controller: controller.Controller[Gadget]{
				For: gadgets.ReadOnly(), Watches: []controller.Source{controller.Owned(maps)},
			},
			want: append([]string{
				"list configmaps", "update gadgets/finalizers.manifest.test", "watch configmaps",
			}, follows...),
		},
		"with other sources": {
			controller: controller.Controller[Gadget]{
				For: gadgets.ReadOnly(),
				Watches: []controller.Source{
					controller.Mapped(maps, func(context.Context, *corev1.ConfigMap) []kube.Key { return nil }),
					controller.Channel("hints", nil),
				},
				Reads: []kube.AnyHandle{secrets.In("a")},
			},
			want: append([]string{
				"list configmaps", "list secrets in a", "watch configmaps", "watch secrets in a",
			}, follows...),
		},
	} {
		o := Operator{Controllers: []controller.Any{test.controller}}
		plural := []*crd.Definition{definition}
		if !test.foreign {
			o.Definitions = plural
		}
		all, err := grants(o.needs(), plural)
		if err != nil {
			t.Errorf("a controller %s: %v", name, err)
		}
		var got []string
		for _, g := range all {
			got = append(got, g.String())
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("a controller %s needs the rights\n%q, want\n%q", name, got, test.want)
		}
	}
}
