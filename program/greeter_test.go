package program_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/lease"
	"github.com/pintle-go/pintle/manifest"
)

// TestGreeter runs the operator of the example on a real API server.
func TestGreeter(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	connect := func(audit *manifest.Audit) *kube.Client {
		config := cluster.Config()
		config.Wrap(audit.Wrap)
		client, err := kube.Config{Rest: config}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	var used manifest.Audit
	op, err := describe(connect(&used))
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(new(manifest.Audit)) // the test's own client
	if err := crd.Install(t.Context(), admin, op.Definitions...); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx, controller.Options{}, op.Controllers...) }()

	namespace := cluster.Namespace(t)
	greeting := new(Greeting)
	greeting.Name, greeting.Spec.Name = "first", "Ada"
	if _, err := kube.For[Greeting](admin).In(namespace).Apply(t.Context(), greeting); err != nil {
		t.Fatal(err)
	}
	texts := kube.For[corev1.ConfigMap](admin).In(namespace)
	greets := func(m *corev1.ConfigMap) bool { return m.Data["text"] == "Hello, Ada" }
	if _, err := texts.Until(t.Context(), "first", greets); err != nil {
		t.Fatal(err)
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	op.Options.Lease = lease.Lease{} // this run took no lease
	if err := used.Compare(op); err != nil {
		t.Error(err)
	}
}
