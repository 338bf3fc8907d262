package kube_test

import (
	"errors"
	"strings"
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

// A type that an API package registers for several kinds has none of them by chance: the
// error names all of them, and the declaration chooses.
func TestTypeOfSeveralKinds(t *testing.T) {
	v1 := kube.GVK{Group: "example.com", Version: "v1", Kind: "Listed"}
	beta := kube.GVK{Group: "example.com", Version: "v1beta1", Kind: "Listed"}
	old := kube.GVK{Group: "old.example.com", Version: "v1", Kind: "Listing"}
	several := func(kinds ...kube.GVK) kube.Kind {
		return kube.Kind{AddToScheme: func(s *runtime.Scheme) error {
			for _, gvk := range kinds {
				s.AddKnownTypeWithName(gvk, &listed{})
			}
			return nil
		}}
	}
	var first string
	for range 50 {
		err := kube.For[listed](offline(t), several(v1, beta, old)).Err()
		if !errors.Is(err, kube.ErrKind) {
			t.Fatalf("the kind was drawn by lot: error %v", err)
		}
		for _, gvk := range []kube.GVK{v1, beta, old} {
			if !strings.Contains(err.Error(), gvk.Kind+" of "+gvk.GroupVersion().String()) {
				t.Fatalf("the error does not name %v: %v", gvk, err)
			}
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Fatalf("the error is once %s and once %v", first, err)
		}
	}
	chosen := several(v1, beta)
	chosen.GVK = beta
	if kind := kube.KindOf[listed](chosen); kind.Err() != nil || kind.GVK != beta {
		t.Errorf("the declared kind is %v, error %v", kind.GVK, kind.Err())
	}
	internal := schema.GroupVersionKind{Group: v1.Group, Version: runtime.APIVersionInternal, Kind: v1.Kind}
	if kind := kube.KindOf[listed](several(v1, internal)); kind.Err() != nil || kind.GVK != v1 {
		t.Errorf("beside an internal version the kind is %v, error %v", kind.GVK, kind.Err())
	}
}

// A declaration that contradicts the type, or that no server can serve, is an error of the
// handle.
func TestImpossibleKinds(t *testing.T) {
	c := offline(t)
	service := kube.GVK{Version: "v1", Kind: "Service"}
	own := func(change func(*kube.Kind)) kube.Kind {
		kind := kube.Kind{GVK: kube.GVK{Group: "example.com", Version: "v1", Kind: "Book"}, Plural: "books",
			Scope: kube.Namespaced}
		change(&kind)
		return kind
	}
	type titled struct{ kube.Object }
	for name, err := range map[string]error{
		"a pod as a service":      kube.For[corev1.Pod](c, kube.Kind{GVK: service}).Err(),
		"a view of another kind":  kube.ViewOf[corev1.Pod](c, kube.KindOf[corev1.Service]()).Err(),
		"another version":         kube.For[corev1.Pod](c, kube.Kind{GVK: kube.GVK{Version: "v2", Kind: "Pod"}}).Err(),
		"KindOf of another":       kube.KindOf[corev1.Pod](kube.Kind{GVK: service}).Err(),
		"plural with a slash":     kube.For[titled](c, own(func(k *kube.Kind) { k.Plural = "books/status" })).Err(),
		"plural of a type's kind": kube.For[namesItself](c, kube.Kind{Plural: "books/status"}).Err(),
		"plural of a pod":         kube.For[corev1.Pod](c, kube.Kind{Plural: "../pods"}).Err(),
		"plural with a question":  kube.For[titled](c, own(func(k *kube.Kind) { k.Plural = "books?watch=true" })).Err(),
		"plural is the kind":      kube.For[titled](c, own(func(k *kube.Kind) { k.Plural = "Books" })).Err(),
		"plural is dots":          kube.For[titled](c, own(func(k *kube.Kind) { k.Plural = ".." })).Err(),
		"plural with a space":     kube.For[titled](c, own(func(k *kube.Kind) { k.Plural = "my books" })).Err(),
		"group with a version":    kube.For[titled](c, own(func(k *kube.Kind) { k.Group = "example.com/v1" })).Err(),
		"version with a group":    kube.For[titled](c, own(func(k *kube.Kind) { k.Version = "example.com/v1" })).Err(),
		"kind with a slash":       kube.For[titled](c, own(func(k *kube.Kind) { k.GVK.Kind = "Book/status" })).Err(),
		"no such scope":           kube.For[namesItself](c, kube.Kind{Scope: "namespaced"}).Err(),
	} {
		if !errors.Is(err, kube.ErrKind) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"the type's kind":    kube.For[corev1.Pod](c, kube.Kind{GVK: kube.GVK{Version: "v1", Kind: "Pod"}}).Err(),
		"the type's own":     kube.For[corev1.Pod](c, kube.KindOf[corev1.Pod]()).Err(),
		"plural and scope":   kube.For[namesItself](c, kube.Kind{Plural: "tomes", Scope: kube.ClusterScoped}).Err(),
		"an aggregated kind": kube.For[titled](c, own(func(k *kube.Kind) { k.Plural = "http_requests" })).Err(),
		"another group":      kube.For[namesItself](c, own(func(k *kube.Kind) { k.Group = "example.org" })).Err(),
		"a scheme of others": kube.For[corev1.Pod](c, listedKind).Err(),
	} {
		if err != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if kind := kube.For[namesItself](c, kube.Kind{Plural: "tomes"}).Kind(); kind.Plural != "tomes" {
		t.Errorf("the declared plural is %q", kind.Plural)
	}
}

// namesItself names its kind by a method.
type namesItself struct{ kube.Object }

func (namesItself) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Book"} }
