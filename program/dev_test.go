package program

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
)

// A developer's process finds the Lease of the operator in the cluster in every
// namespace.
func TestTakeOverFindsTheLease(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	a, b := cluster.Namespace(t), cluster.Namespace(t)
	if a > b {
		a, b = b, a
	}
	name := "of-" + a // a name that no other test uses
	there := func(namespace, holder string) {
		t.Helper()
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		l.Name = name
		if _, err := kube.For[coordinationv1.Lease](client).In(namespace).Apply(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	home := "missing-" + a // the namespace in the manifests that the program prints
	find := func(o controller.Options) (string, error) {
		o.Logger = slog.New(slog.DiscardHandler)
		o.Lease.Name = name
		err := takeOver(t.Context(), client, &o, Operator{Name: "op", Install: manifest.Install{Namespace: home}})
		if o.Lease.Name == "" {
			return "no lease", err
		}
		return o.Lease.Namespace, err
	}
	expect := func(want string) {
		t.Helper()
		if got, err := find(controller.Options{}); err != nil || got != want {
			t.Errorf("the Lease is looked for in %q, want %q: %v", got, want, err)
		}
	}
	expect("no lease") // because its namespace does not exist
	home = a
	expect(home)
	there(b, "")
	expect(b)
	there(a, "a pod")
	expect(a)
	there(b, "another pod")
	wrong := (*usageError)(nil)
	if got, err := find(controller.Options{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), a+", "+b) {
		t.Errorf("one of two Leases is taken, in %q: %v", got, err)
	}
	if got, err := find(controller.Options{Lease: lease.Lease{Namespace: b}}); err != nil || got != b {
		t.Errorf("the Lease is looked for in %q though it is named: %v", got, err)
	}
}
