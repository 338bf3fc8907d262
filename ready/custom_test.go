package ready_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// An object of a custom kind is not ready before its controller has looked at it, if its Go type tells
// how that is seen.
func TestFreshCustomObjects(t *testing.T) {
	silent := waits("its controller has not written its status")
	of := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	custom := kube.Object{TypeMeta: of("example.com/v1", "Book")}
	seen, told := &book{Object: custom}, &book{Object: custom}
	seen.Status.ObservedGeneration = 1
	told.Status.Conditions = []metav1.Condition{is("Progressing", metav1.ConditionTrue, 0)}
	type health struct {
		kube.Object
		Status struct {
			Health     string
			Conditions []metav1.Condition
		}
	}
	other := &health{Object: custom}
	other.Status.Health = "Healthy"
	type plain struct {
		kube.Object
		Status struct{ Lines int }
	}
	for name, c := range map[string]struct{ got, want ready.State }{
		"fresh":                      {ready.Of(&book{Object: custom}), silent},
		"fresh, without a status":    {ready.Of(&widget{Object: custom}), silent},
		"fresh, of an embedded type": {ready.Of(&shelf{Object: custom}), silent},
		"observed":                   {ready.Of(seen), ready.State{Phase: ready.Ready}},
		"with another status":        {ready.Of(other), ready.State{Phase: ready.Ready}},
		"with a condition":           {ready.Of(told), ready.State{Phase: ready.Ready}},
		"of a kind without both":     {ready.Of(&plain{Object: custom}), ready.State{Phase: ready.Ready}},
		"of Kubernetes": {
			ready.Of(&book{Object: kube.Object{TypeMeta: of("certificates.k8s.io/v1", "CertificateSigningRequest")}}),
			ready.State{Phase: ready.Ready},
		},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, c.got, c.want)
		}
	}
}
