package manifest

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
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

// What Run refuses has no manifests, and no chart.
func TestNoManifestsOfWhatDoesNotRun(t *testing.T) {
	client, err := kube.Config{Rest: nowhere()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	definition := crd.Of[Gadget](crd.Options{})
	good := controller.Controller[Gadget]{
		For:       kube.For[Gadget](client),
		Reconcile: func(context.Context, *Gadget) (controller.Action, error) { return controller.Done, nil },
	}
	with := func(change func(c *controller.Controller[Gadget])) controller.Any {
		c := good
		change(&c)
		return c
	}
	var nothing *controller.Controller[Gadget]
	for name, o := range map[string]Operator{
		"two of a kind":   {Controllers: []controller.Any{good, good}},
		"no controller":   {Controllers: []controller.Any{nil}},
		"a nil pointer":   {Controllers: []controller.Any{nothing}},
		"no handle":       {Controllers: []controller.Any{controller.Controller[Gadget]{}}},
		"no client":       {Controllers: []controller.Any{with(func(c *controller.Controller[Gadget]) { c.For = kube.For[Gadget](nil) })}},
		"no namespace":    {Controllers: []controller.Any{with(func(c *controller.Controller[Gadget]) { c.For = kube.For[Gadget](client).In("") })}},
		"no reconcile":    {Controllers: []controller.Any{with(func(c *controller.Controller[Gadget]) { c.Reconcile = nil })}},
		"a negative time": {Controllers: []controller.Any{with(func(c *controller.Controller[Gadget]) { c.Timeout = -1 })}},
		"no child":        {Controllers: []controller.Any{with(func(c *controller.Controller[Gadget]) { c.Owns = []kube.AnyHandle{nil} })}},
		"an empty source": {Controllers: []controller.Any{with(func(c *controller.Controller[Gadget]) { c.Watches = []controller.Source{{}} })}},
		"an empty route":  {Options: controller.Options{Routes: []controller.Route{{Authorize: true}}}},
		"a short lease":   {Options: controller.Options{Lease: lease.Lease{Name: "a", Duration: 1}}},
		"an empty check":  {Options: controller.Options{Checks: []controller.Check{{}}}},
	} {
		o.Name, o.Image, o.Definitions = "a", "x", []*crd.Definition{definition}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		refused := controller.Run(ended, o.Options, o.Controllers...)
		if refused == nil {
			t.Errorf("%s: it runs", name)
			continue
		}
		if text, err := o.YAML(); err == nil || !strings.Contains(err.Error(), refused.Error()) {
			t.Errorf("%s: the manifests have the error %v, want %v:\n%s", name, err, refused, text)
		}
		if err := o.WriteChart(t.TempDir()); err == nil || !strings.Contains(err.Error(), refused.Error()) {
			t.Errorf("%s: the chart has the error %v, want %v", name, err, refused)
		}
	}
}
