package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Reader reads the objects of a kind: it cannot write. Readers are values; a method that
// narrows a Reader returns a copy. Its counterpart is client.Reader of
// controller-runtime.
//
// If making a handle fails, for example because its type does not name its kind, each of
// its methods returns the error before any request.
type Reader[T any] struct{ handle *handle }

// View reads objects of a kind into a struct that may have only some of their fields. It can
// apply, patch, modify and delete, because these leave other fields alone. It can neither
// create nor update, because these would lose the other fields. It stands for client.Client
// of controller-runtime with a type of some fields, and for kube::Api with a partial type in
// kube-rs.
type View[T any] struct{ Reader[T] }

// Resource reads and writes the objects of a kind. Its counterparts are client.Client of
// controller-runtime and Api of kube-rs.
type Resource[T any] struct{ View[T] }

// AnyHandle is a [Reader], [View] or [Resource] of any type.
type AnyHandle interface {
	Kind() Kind
	Namespaces() []string
	Client() *Client
	Err() error
	Scope(ctx context.Context) (Scope, error)
	Open(ctx context.Context) *Informer
	TakesOver() bool
	base() *handle
}

// Handle is a [Reader], [View] or [Resource] of T. Its counterparts are client.Client of
// controller-runtime, which is of any type, and kube::Api of kube-rs.
type Handle[T any] interface {
	AnyHandle
	ReadOnly() Reader[T]
	of(*T)
}

func (r Reader[T]) base() *handle { return r.handle.orNone() }
func (r Reader[T]) of(*T)         {}

// handle is the common part of handles of all types. It does the work of their methods: Go
// compiles a generic method for each type, and in each package that uses the type. It is never
// changed: what narrows a handle returns another one.
type handle struct {
	client     *Client
	kind       Kind
	codec      *wire.Codec
	view       bool // the type has only some of the kind's fields
	goType     reflect.Type
	newObject  func() object // makes an empty object of the type
	namespaces []string      // empty: all
	wide       []string      // the namespaces before the last In; empty: all
	selector   selector
	write      WriteOptions
	err        error
}

// metadata returns a handle that reads only the metadata of the objects.
func (h *handle) metadata() *handle {
	if h.codec == nil {
		return h // each use returns the handle's error
	}
	is := *h
	is.codec, is.newObject = h.codec.Metadata(), newObject[metav1.PartialObjectMetadata]
	return &is
}

// writing returns a handle that writes with options.
func (h *handle) writing(o WriteOptions) *handle {
	is := *h
	is.write = o
	return &is
}

// orNone returns the handle, or one without a client for the zero value of a type of handles.
func (h *handle) orNone() *handle {
	if h == nil {
		return &noHandle
	}
	return h
}

// noHandle is what a zero value of a type of handles works with. It is never changed.
var noHandle handle

// within is not inlined: it would be part of each type's Namespaces.
//
//go:noinline
func (h *handle) within() []string { return slices.Clone(h.namespaces) }

// For returns a handle for the objects of a kind. T has all fields of the kind, and embeds
// [Object], or metav1.TypeMeta and metav1.ObjectMeta. A T that names its kind itself, or is
// a type of k8s.io/api, needs no kind. Any other T needs one [Kind]: a type of another API
// package, or unstructured.Unstructured. The handle covers all namespaces until
// [Resource.In] narrows it. Its counterparts are the typed clients of client-go, and
// Api::all and Api::all_with of kube-rs.
func For[T any, P embedsKubeObject[T]](c *Client, kind ...Kind) Resource[T] {
	h := newHandle(c, reflect.TypeFor[T](), newObject[T], one(kind), false)
	return Resource[T]{View[T]{Reader[T]{h}}}
}

// ViewOf returns a handle for a struct that has some of the fields of a kind. The struct
// names its kind by a GVK method, or the call names it, as for a kind of k8s.io/api:
//
//	type podPhase struct {
//		kube.Object
//		Status struct {
//			Phase string `json:"phase"`
//		} `json:"status"`
//	}
//
//	phases := kube.ViewOf[podPhase](client, kube.KindOf[corev1.Pod]())
//
// Fields that the struct does not have are neither decoded nor kept.
//
// If T has only metadata, as [Object] and metav1.PartialObjectMetadata do, the server
// sends only metadata. The counterpart of such a view is OnlyMetadata of
// controller-runtime.
func ViewOf[T any, P embedsKubeObject[T]](c *Client, kind ...Kind) View[T] {
	h := newHandle(c, reflect.TypeFor[T](), newObject[T], one(kind), true)
	return View[T]{Reader[T]{h}}
}

// one returns the only kind of an optional parameter, or the zero Kind.
func one(kinds []Kind) Kind {
	switch len(kinds) {
	case 0:
		return Kind{}
	case 1:
		return kinds[0]
	}
	return Kind{err: fmt.Errorf("%w: %d kinds were given, and a handle is of one", ErrKind, len(kinds))}
}

func isUnstructured(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[runtime.Unstructured]())
}

func newHandle(c *Client, t reflect.Type, newObject func() object, declared Kind, view bool) *handle {
	h := &handle{client: c, goType: t, newObject: newObject, view: view}
	if h.kind, h.err = declared.identify(t); h.err != nil {
		return h
	}
	switch {
	case c == nil:
		h.err = errors.New("the client is nil: was the error of Connect checked?")
		h.client = &Client{logger: slog.Default()} // for methods that run before the error is seen
		return h
	case !view && h.kind.whole != nil && h.kind.whole != t && !isUnstructured(t):
		h.err = fmt.Errorf("%w: %s is not the whole of %s, and writing it would lose fields: use ViewOf",
			ErrKind, t, h.kind.whole)
		return h
	case !view && (t == reflect.TypeFor[metav1.PartialObjectMetadata]() || t == reflect.TypeFor[Object]()):
		h.err = fmt.Errorf("%w: %s is the metadata of a kind, and writing it would lose the rest: use ViewOf", ErrKind, t)
		return h
	}
	codec, err := wire.NewCodec(t, wire.Options{GVK: h.kind.GVK, View: view, Generated: generatedType(t, h.kind)})
	if err != nil {
		h.err = fmt.Errorf("%w: %w", ErrKind, err)
		return h
	}
	h.codec = codec
	return h
}

// ReadOnly returns a handle that cannot write.
func (r Reader[T]) ReadOnly() Reader[T] { return r }

// Kind returns the parts of the kind that are known without a request to the server:
// plural and scope may be empty.
func (r Reader[T]) Kind() Kind { return r.base().kind }

// Namespaces returns the namespaces to which In has narrowed the handle. None means all.
func (r Reader[T]) Namespaces() []string { return r.base().within() }

// Client returns the client that made the handle, or nil for a zero handle.
func (r Reader[T]) Client() *Client {
	h := r.base()
	if h.codec == nil {
		return nil
	}
	return h.client
}

// Err returns the mistake in making the handle, or nil if there is none.
func (r Reader[T]) Err() error { return r.base().mistake() }

// Scope returns whether the objects of the handle live in namespaces. If the answer is
// not known, it asks the server. The error wraps [ErrNotServed] if the server does not
// know the kind. Its counterpart is IsObjectNamespaced of controller-runtime's client.
func (r Reader[T]) Scope(ctx context.Context) (Scope, error) {
	return r.base().scope(ctx)
}

// mistake returns the mistake in making the handle, or nil if there is none.
func (h *handle) mistake() error {
	err := h.err
	if err == nil && h.codec == nil {
		err = errNoHandle
	}
	if err == nil {
		return nil
	}
	return &Error{Verb: "use", Kind: h.kindName(), Err: err}
}

func (h *handle) scope(ctx context.Context) (Scope, error) {
	if err := h.mistake(); err != nil {
		return "", err
	}
	kind, err := h.client.discovery.resolve(ctx, h.kind)
	if err != nil {
		return "", &Error{Verb: "discover", Kind: h.kindName(), Err: err}
	}
	return kind.Scope, nil
}

// TakesOver reports whether the handle's applies take over fields; see
// [WriteOptions.TakeOver]. A status then needs the right to patch the object too.
func (r Reader[T]) TakesOver() bool { return len(r.base().write.TakeOver) > 0 }

// With returns a handle that writes with options. The options take the place of those of an
// earlier With, and a FieldManager takes the place of the client's. Its counterparts are the
// options of a call of controller-runtime's client.Writer, such as client.DryRunAll and
// client.ForceOwnership.
func (v View[T]) With(o WriteOptions) View[T] {
	return View[T]{Reader[T]{v.base().writing(o)}}
}

// With is [View.With].
func (r Resource[T]) With(o WriteOptions) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.base().writing(o)}}}
}
