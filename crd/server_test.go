package crd_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// start returns a client of the API server that these tests share, and a
// namespace of the test's own, whose name is good for an API group too.
func start(t *testing.T) (*kube.Client, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client, err := kube.Config{Rest: cluster.Config(), FieldManager: "pintle-test", Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client, cluster.Namespace(t)
}

// soon is a context for what must not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// install installs definitions until the test ends.
func install(t *testing.T, client *kube.Client, defs ...*crd.Definition) {
	t.Helper()
	for _, d := range defs {
		t.Cleanup(func() { _ = kube.For[crd.Definition](client).Delete(context.Background(), d.Name) })
	}
	if err := crd.Install(soon(t), client, defs...); err != nil {
		t.Fatal(err)
	}
}

// of returns the definition of T's kind in a group of its own.
func of[T any, P interface {
	*T
	kubeObject
}](t *testing.T, group string, options ...crd.Options) *crd.Definition {
	t.Helper()
	var o crd.Options
	if len(options) > 0 {
		o = options[0]
	}
	o.Kind.GVK = kube.GVK{Group: group, Version: "v1", Kind: kube.KindOf[T, P]().Kind}
	d, err := crd.Of[T, P](o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
