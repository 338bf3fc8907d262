package kube

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Object holds the fields that every API object begins with: metav1.TypeMeta and
// metav1.ObjectMeta. Embed it first in a type of the program:
//
//	type Book struct {
//		kube.Object
//		Spec BookSpec `json:"spec"`
//	}
//
// The derive macro CustomResource of kube-rs writes the same fields.
type Object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// Key names an object of a kind. Namespace is empty for cluster-scoped kinds. Its
// counterpart is client.ObjectKey of controller-runtime.
type Key struct {
	Namespace, Name string
}

// KeyOf returns the key of an object, as client.ObjectKeyFromObject of controller-runtime
// does.
func KeyOf(o metav1.Object) Key { return Key{o.GetNamespace(), o.GetName()} }

// String returns namespace/name, or the name alone if there is no namespace.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// object is implemented by *T for every T in this package.
type object = wire.Object

// embedsKubeObject makes a struct without TypeMeta and ObjectMeta a compile error,
// which names this interface: "*Book does not satisfy embedsKubeObject[Book]".
type embedsKubeObject[T any] interface {
	*T
	object
}

// asObject returns t's accessors. The constructors of handles check at compile time that
// *T has them.
func asObject[T any](t *T) object { return any(t).(object) }

// typed is the reverse of asObject. It returns nil for nil.
func typed[T any](o object) *T {
	t, _ := any(o).(*T)
	return t
}

// newObject makes an empty object.
func newObject[T any]() object { return asObject(new(T)) }

// result returns an object if there is no error.
func result[T any](o *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}

// typedSeq yields objects by their type.
func typedSeq[T any](objects iter.Seq2[object, error]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		objects(func(o object, err error) bool { return yield(typed[T](o), err) })
	}
}
