package program

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"testing"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// Relic is a kind whose objects need a cleanup.
type Relic struct{ kube.Object }

func (Relic) GVK() kube.GVK {
	return kube.GVK{Group: "deleting.program.test", Version: "v1", Kind: "Relic"}
}

// The deletion of a definition waits for the finalizer of an operator that was stopped.
// When the operator is started again, it cleans up, so that the deletion ends, and
// installs the definition again.
func TestDefinitionBeingDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	namespace := cluster.Namespace(t)
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	definition := crd.Of[Relic](crd.Options{})
	if err := crd.Install(t.Context(), client, definition); err != nil {
		t.Fatal(err)
	}
	definitions := kube.For[crd.Definition](client)
	r := new(Relic)
	r.Name, r.Finalizers = "r", []string{"deleting.program.test/cleanup"}
	if _, err := kube.For[Relic](client).In(namespace).Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	first, err := definitions.Get(t.Context(), definition.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := definitions.Delete(t.Context(), definition.Name); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cleaned := make(chan string, 1)
	ended := make(chan error, 1)
	var log lines
	go func() {
		flags := flag.NewFlagSet("relics", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		args := []string{"-kubeconfig=" + cluster.Kubeconfig(), "-addr=127.0.0.1:0"}
		ended <- command{flags: flags, args: args, config: kube.Config{FieldManager: "relics"}, build: func(client *kube.Client) (Operator, error) {
			return Operator{
				Name:        "relics",
				Definitions: []*crd.Definition{definition},
				Options:     controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
				Controllers: []controller.Any{controller.Controller[Relic]{
					For:       kube.For[Relic](client).In(namespace),
					Finalizer: r.Finalizers[0],
					Reconcile: func(context.Context, *Relic) (controller.Action, error) { return controller.Done, nil },
					Cleanup: func(_ context.Context, r *Relic) (controller.Action, error) {
						cleaned <- r.Name
						return controller.Done, nil
					},
				}},
			}, nil
		}}.run(ctx)
	}()
	select {
	case <-cleaned:
	case err := <-ended:
		t.Fatalf("it ended: %v\n%s", err, &log)
	case <-t.Context().Done():
	}
	_, err = definitions.Until(t.Context(), definition.Name, func(d *crd.Definition) bool { return d.UID != first.UID })
	if err != nil {
		t.Errorf("the definition is not installed again: %v\n%s", err, &log)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := definitions.Delete(t.Context(), definition.Name); err != nil {
		t.Error(err)
	}
}
