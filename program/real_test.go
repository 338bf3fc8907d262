package program

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/lease"
)

// WideGadget is the kind as another operator has installed it.
type WideGadget struct {
	kube.Object
	Spec struct {
		Note string `json:"note"`
		More string `json:"more,omitempty"`
	} `json:"spec"`
}

func (WideGadget) GVK() kube.GVK { return Gadget{}.GVK() }

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A program that is started outside a pod reconciles without a lease. It takes over the
// definition of another operator only with -force-definitions.
func TestProgramRuns(t *testing.T) {
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
	wide := crd.Of[WideGadget](crd.Options{})
	if err := wide.Err(); err != nil {
		t.Fatal(err)
	}
	definitions := kube.For[crd.Definition](client)
	_, err = definitions.Apply(t.Context(), wide)
	if err == nil {
		_, err = definitions.Until(
			t.Context(), wide.Name, func(d *crd.Definition) bool { return len(d.Status.Conditions) > 1 },
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := definitions.Delete(context.WithoutCancel(t.Context()), wide.Name); err != nil {
			t.Error(err)
		}
	})

	var log lines
	seen := make(chan string, 10)
	run := func(ctx context.Context, args ...string) error {
		flags := flag.NewFlagSet("gadgetry", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		args = append([]string{"-kubeconfig=" + cluster.Kubeconfig(), "-addr=127.0.0.1:0"}, args...)
		return command{flags: flags, args: args, config: kube.Config{FieldManager: "gadgetry"}, build: func(client *kube.Client) (Operator, error) {
			return Operator{
				Name:        "gadgetry",
				Definitions: []*crd.Definition{crd.Of[Gadget](crd.Options{})},
				Options: controller.Options{
					Lease:  lease.Lease{Name: "gadgetry", Namespace: namespace},
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
				},
				Controllers: []controller.Any{controller.Controller[Gadget]{
					For: kube.For[Gadget](client).In(namespace),
					Reconcile: func(_ context.Context, g *Gadget) (controller.Action, error) {
						seen <- g.Spec.Note
						return controller.Done, nil
					},
				}},
			}, nil
		}}.run(ctx)
	}
	if err := run(t.Context()); !errors.As(err, new(*crd.IncompatibleError)) {
		t.Fatalf("over the definition of another operator: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "-force-definitions") }()
	g := new(Gadget)
	g.Name, g.Spec.Note = "g", "hello"
	// For a moment the server does not serve an established kind.
	kubetest.Eventually(t, "a gadget is created", func() error {
		_, err := kube.For[Gadget](client).In(namespace).Create(t.Context(), g)
		return err
	})
	select {
	case note := <-seen:
		if note != "hello" {
			t.Errorf("it saw %q", note)
		}
	case err := <-ended:
		t.Fatalf("it ended: %v\n%s", err, &log)
	case <-time.After(time.Minute):
		t.Fatalf("it reconciles nothing:\n%s", &log)
	}
	if d, err := definitions.Get(t.Context(), wide.Name); err != nil || strings.Contains(string(must(d.YAML())), "more:") {
		t.Errorf("the definition is still the other operator's: %v", err)
	}
	if _, err := kube.For[coordinationv1.Lease](
		client,
	).In(namespace).
		Get(t.Context(), "gadgetry"); !apierrors.IsNotFound(
		err,
	) {
		t.Errorf("it took a lease: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "this process takes no lease") {
		t.Errorf("it does not say that it takes no lease:\n%s", &log)
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}
