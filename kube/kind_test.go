package kube_test

import (
	"errors"
	"testing"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listed is a type of another API package: its AddToScheme names its kind.
type listed struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (l *listed) DeepCopyObject() runtime.Object {
	return &listed{l.TypeMeta, *l.ObjectMeta.DeepCopy()}
}

var listedKind = kube.Kind{Plural: "listings", Scope: kube.Namespaced, AddToScheme: func(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Listed"}, &listed{})
	return nil
}}

func TestKindOfAnotherPackage(t *testing.T) {
	c := offline(t)
	kind := kube.KindOf[listed](listedKind)
	want := kube.GVK{Group: "example.com", Version: "v1", Kind: "Listed"}
	if kind.GVK != want || kind.Plural != "listings" || kind.Scope != kube.Namespaced || kind.Err() != nil {
		t.Errorf("the kind is %v, plural %q, scope %q, error %v", kind.GVK, kind.Plural, kind.Scope, kind.Err())
	}
	if whole := kube.For[listed](c, listedKind); whole.Err() != nil || whole.Kind().GVK != want {
		t.Errorf("a handle is of %v: %v", whole.Kind().GVK, whole.Err())
	}
	view := kube.ViewOf[kube.Object](c, kind)
	if view.Err() != nil || view.Kind().GVK != want || view.Kind().Plural != "listings" {
		t.Errorf("a view is of %v: %v", view.Kind(), view.Err())
	}
	if err := kube.For[podView](c, kind).Err(); !errors.Is(err, kube.ErrKind) {
		t.Errorf("a handle that would lose fields: %v", err)
	}
	if err := kube.KindOf[listed]().Err(); !errors.Is(err, kube.ErrKind) {
		t.Errorf("the kind of a type that names none: %v", err)
	}
	if pod := kube.KindOf[corev1.Pod](); pod.GVK != (kube.GVK{Version: "v1", Kind: "Pod"}) {
		t.Errorf("a Pod's kind is %v", pod.GVK)
	}
}
