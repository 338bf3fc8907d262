package crd_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Native is a kind with fields of Kubernetes' own types.
type Native struct {
	kube.Object
	Spec struct {
		Selector *metav1.LabelSelector `json:"selector,omitempty"`
		Surge    *intstr.IntOrString   `json:"surge,omitempty" crd:"pattern=^[0-9]+%$,maxLength=3,min=1,max=9"`
	} `json:"spec,omitzero"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func (Native) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Native"} }

// Types of Kubernetes' own are validated and merged as in Kubernetes' own kinds.
func TestNative(t *testing.T) {
	s := start(t)
	s.install(t, of[Native](t, s.group(), crd.Options{}))
	natives := kube.For[Native](s.client,
		kube.Kind{GVK: kube.GVK{Group: s.group(), Version: "v1", Kind: "Native"}}).In(s.namespace)
	selecting := func(manager, label string) *Native {
		n := &Native{}
		n.Name, n.Spec.Selector = "a", &metav1.LabelSelector{MatchLabels: map[string]string{label: "x"}}
		got, err := natives.With(kube.WriteOptions{FieldManager: manager}).Apply(soon(t), n)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	selecting("one", "a")
	if got := selecting("two", "b").Spec.Selector.MatchLabels; !maps.Equal(got, map[string]string{"b": "x"}) {
		t.Errorf("the selectors of two managers became %v", got)
	}
	for text, want := range map[string]string{"5": "", "25%": "", "0": "should be greater than or equal to 1",
		"all": "should match", "100%": "Too long"} {
		surge := intstr.Parse(text)
		n := &Native{}
		n.Name, n.Spec.Surge = "b", &surge
		if _, err := natives.Apply(soon(t), n); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("surge %s: got %v, want %q", text, err, want)
		}
	}
	for _, c := range []struct{ typ, status, reason string }{{"Ready", "True", "has spaces"}, {"Ready", "Maybe", "Fine"},
		{"Ready", "True", ""}, {"not ready", "True", "Fine"}} {
		n := &Native{}
		n.Name = "a"
		n.Status.Conditions = []metav1.Condition{{Type: c.typ, Status: metav1.ConditionStatus(c.status), Reason: c.reason,
			LastTransitionTime: metav1.Now()}}
		if err := natives.Status().Apply(soon(t), n); err == nil || !strings.Contains(err.Error(), "status.conditions") {
			t.Errorf("condition %+v: %v", c, err)
		}
	}
}
