package aggregate_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/server/options"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
	"github.com/pintle-go/pintle/program"
)

// A program that serves a kind while it runs. Beside the type of the objects, this is all that it needs.
func Example() {
	program.Main(func(client *kube.Client) (program.Operator, error) {
		server := aggregate.Server{
			Client:       client,
			Kinds:        []aggregate.Any{aggregate.Stored[Sample]{Definition: crd.Of[Sample](crd.Options{})}},
			Registration: aggregate.Registration{Local: true},
		}
		var options controller.Options
		server.AddTo(&options)
		return program.Operator{Name: "samples", Options: options}, nil
	})
}

// A program that is an API server and nothing else. Its replicas share an etcd outside the
// program, and each writes an audit log. The certificate of the server is in a mounted Secret.
func ExampleServer() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	audit := options.NewAuditOptions()
	audit.PolicyFile, audit.LogOptions.Path = "/etc/audit/policy.yaml", "/var/log/audit.log"
	served := &certificate.Files{Dir: "/etc/tls"}
	server := aggregate.Server{
		Client:         client,
		Kinds:          []aggregate.Any{aggregate.Stored[Sample]{Definition: crd.Of[Sample](crd.Options{})}},
		Address:        ":8443",
		GetCertificate: served.GetCertificate,
		Storage: aggregate.Storage{
			Endpoints: []string{"https://etcd-0.etcd:2379", "https://etcd-1.etcd:2379", "https://etcd-2.etcd:2379"},
			CAFile:    "/etc/etcd/ca.crt", CertFile: "/etc/etcd/tls.crt", KeyFile: "/etc/etcd/tls.key",
			Prefix: "/samples", // another server has its objects in the same etcd
		},
		Audit:         audit,
		ShutdownDelay: 5 * time.Second,
		Logger:        slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	}
	ctx, stop := controller.Signals()
	defer stop()
	if err := server.Run(ctx); err != nil {
		log.Print(err)
	}
}

// A stored kind with a default that depends on another field, a check that compares an object
// with its former state, and a subresource that streams.
func ExampleStored() {
	_ = aggregate.Stored[Sample]{
		Definition: crd.Of[Sample](crd.Options{}),
		Default: func(_ context.Context, s *Sample) error {
			if s.Spec.Height == 0 {
				s.Spec.Height = 2 * s.Spec.Weight
			}
			return nil
		},
		Validate: func(_ context.Context, s, old *Sample) field.ErrorList {
			if old != nil && s.Spec.Weight > 2*old.Spec.Weight {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "weight"), s.Spec.Weight, "nobody grows that fast")}
			}
			return nil
		},
		Subresources: []aggregate.Subresource[Sample]{{
			Name: "log", Verb: "get", Stream: true,
			Serve: func(w http.ResponseWriter, r *http.Request, s *Sample) error {
				answer := http.NewResponseController(w)
				for fmt.Fprintf(w, "%s is %s\n", s.Name, s.Status.Mood); answer.Flush() == nil; time.Sleep(time.Second) {
					fmt.Fprintln(w, "nothing happens")
				}
				return nil // the client has gone
			},
		}},
	}
}

// A view of each Pod, with a subresource that changes the Pod.
func ExampleProjection() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client)
	_ = aggregate.Projection[corev1.Pod, PodView]{
		Definition: crd.Of[PodView](crd.Options{}), Source: kube.KindOf[corev1.Pod](), Prefix: "view-",
		View: func(p *corev1.Pod) *PodView {
			v := new(PodView)
			v.Spec.Node, v.Status.Phase = p.Spec.NodeName, string(p.Status.Phase)
			return v
		},
		Subresources: []aggregate.Subresource[PodView]{{
			Name: "evict", // POST …/podviews/view-web-0/evict
			Serve: func(_ http.ResponseWriter, r *http.Request, v *PodView) error {
				name := strings.TrimPrefix(v.Name, "view-")
				return pod.Evict(r.Context(), pods.In(v.Namespace), name, metav1.DeleteOptions{})
			},
		}},
	}
}
