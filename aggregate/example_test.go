package aggregate_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
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

// A stored kind with a check that needs two fields of different objects, and a subresource
// that streams.
func ExampleStored() {
	_ = aggregate.Stored[Sample]{
		Definition: crd.Of[Sample](crd.Options{}),
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

// A view of each Pod.
func ExampleProjection() {
	_ = aggregate.Projection[corev1.Pod, PodView]{
		Definition: crd.Of[PodView](crd.Options{}), Source: kube.KindOf[corev1.Pod](), Prefix: "view-",
		View: func(p *corev1.Pod) *PodView {
			v := new(PodView)
			v.Spec.Node, v.Status.Phase = p.Spec.NodeName, string(p.Status.Phase)
			return v
		},
	}
}
