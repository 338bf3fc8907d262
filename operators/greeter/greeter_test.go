package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/greeter"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// TestGreeting runs the program beside a real API server, under exactly the roles that it
// prints. The program answers the sample, follows a change of the Greeting, and restores
// the ConfigMap. It needs all its rights and no other.
func TestGreeting(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	namespace := cluster.Namespace(t)
	client := optest.Client(t, cluster.Config())
	texts := kube.For[corev1.ConfigMap](client).In(namespace)
	described, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(t.Context(), client, described.Definitions...); err != nil {
		t.Fatal(err)
	}
	proxy := optest.StartProxy(t, cluster.Config(), namespace)
	account := optest.NewAccount(t, client, cluster.Config(), namespace, "greeter", binary.Rights(t))
	operator := binary.Run(t, account.Kubeconfig(proxy), "-addr=127.0.0.1:0", "-install=false")
	optest.Expect(t, operator, "controller runs", "controller=greeting")
	says := func(want string) *corev1.ConfigMap {
		t.Helper()
		o, err := texts.Until(t.Context(), "world", func(o *corev1.ConfigMap) bool { return o.Data["text"] == want })
		if err != nil {
			t.Fatal(err)
		}
		return o
	}

	optest.Apply(t, client, namespace, optest.Read(t, "greeter/sample.yaml")...)
	if o := says("Hello, world"); len(o.OwnerReferences) != 1 || o.OwnerReferences[0].Kind != "Greeting" {
		t.Errorf("the ConfigMap has the owners %v", o.OwnerReferences)
	}
	by := kube.For[Greeting](client).In(namespace)
	if _, err := by.Modify(
		t.Context(), "world", func(g *Greeting) error { g.Spec.Name = "moon"; return nil },
	); err != nil {
		t.Fatal(err)
	}
	old := says("Hello, moon")
	if err := texts.Delete(t.Context(), "world"); err != nil {
		t.Fatal(err)
	}
	if o := says("Hello, moon"); o.UID == old.UID {
		t.Error("the ConfigMap was not deleted")
	}
	if err := proxy.Used.Compare(described); err != nil {
		t.Error(err)
	}
	if refused := proxy.Used.Refused(); len(refused) > 0 {
		t.Errorf("refused: %s", refused)
	}
}

// TestProgramIsShort checks the promise that the whole operator has at most 33 lines of
// code below its imports.
func TestProgramIsShort(t *testing.T) { optest.IsShort(t, "main.go", 33) }
