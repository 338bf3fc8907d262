package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/pintle-go/pintle/kube/internal/scan"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Reader reads the objects of a kind: it cannot write. Readers are values; a
// method that narrows one returns a copy.
//
// An error in making a handle, such as a type that does not name its kind, is
// returned by each of its methods before any request.
type Reader[T any] struct{ handle }

// View reads objects of a kind into a struct that may name some of their fields
// only. It can apply, patch, modify and delete, which leave other fields alone,
// but neither create nor update, which would lose them.
type View[T any] struct{ Reader[T] }

// Resource reads and writes the objects of a kind.
type Resource[T any] struct{ View[T] }

// AnyHandle is a [Reader], [View] or [Resource] of any type.
type AnyHandle interface {
	Kind() Kind
	Namespaces() []string
	Client() *Client
	Err() error
	Scope(ctx context.Context) (Scope, error)
	base() handle
}

// Handle is a [Reader], [View] or [Resource] of T.
type Handle[T any] interface {
	AnyHandle
	ReadOnly() Reader[T]
	of(*T)
}

func (r Reader[T]) base() handle { return r.handle }
func (r Reader[T]) of(*T)        {}

// handle is what handles of all types have in common.
type handle struct {
	client     *Client
	kind       Kind
	codec      *wire.Codec
	view       bool // the type names some of the kind's fields
	goType     reflect.Type
	namespaces []string // empty: all
	selector   selector
	write      WriteOptions
	err        error
}

// For returns a handle for the objects that T describes whole. T embeds [Object], or
// metav1.TypeMeta and metav1.ObjectMeta, and names its kind itself or is a type of
// k8s.io/api; see [Kind]. The handle covers all namespaces until [Resource.In] narrows
// it. It does what a typed client of client-go does.
func For[T any, P embedsKubeObject[T]](c *Client) Resource[T] {
	return ForKind[T, P](c, Kind{})
}

// ForKind is [For] with a declared kind, for a T that does not name its own: a type
// of another API package, or unstructured.Unstructured.
func ForKind[T any, P embedsKubeObject[T]](c *Client, kind Kind) Resource[T] {
	h := newHandle(c, reflect.TypeFor[T](), kind, false)
	return Resource[T]{View[T]{Reader[T]{h}}}
}

// ViewOf returns a handle for a struct that has some of the fields of a kind, and a
// GVK method that names the kind:
//
//	type bookTitle struct {
//		kube.Object
//		Spec struct {
//			Title string `json:"title"`
//		} `json:"spec"`
//	}
//
//	func (bookTitle) GVK() kube.GVK { return Book{}.GVK() }
//
//	titles := kube.ViewOf[bookTitle](client)
//
// Fields that the struct does not have are neither decoded nor kept. A view of a
// built-in kind, and any struct without the method, takes [ViewOfKind].
func ViewOf[T any, P embedsKubeObject[T]](c *Client) View[T] {
	return ViewOfKind[T, P](c, Kind{})
}

// ViewOfKind is [ViewOf] for a struct without a GVK method. A view of a built-in kind
// takes it, with [KindOf]:
//
//	type podPhase struct {
//		kube.Object
//		Status struct {
//			Phase string `json:"phase"`
//		} `json:"status"`
//	}
//
//	phases := kube.ViewOfKind[podPhase](client, kube.KindOf[corev1.Pod]())
//
// If T has only metadata, as [Object] and metav1.PartialObjectMetadata do, the server
// sends no more. Such a view is what OnlyMetadata is in controller-runtime.
func ViewOfKind[T any, P embedsKubeObject[T]](c *Client, kind Kind) View[T] {
	h := newHandle(c, reflect.TypeFor[T](), kind, true)
	return View[T]{Reader[T]{h}}
}

func isUnstructured(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[runtime.Unstructured]())
}

func newHandle(c *Client, t reflect.Type, declared Kind, view bool) handle {
	h := handle{client: c, goType: t, view: view}
	if h.kind, h.err = declared.identify(t); h.err != nil {
		return h
	}
	switch {
	case c == nil:
		h.err = errors.New("the client is nil: was the error of Connect looked at?")
		h.client = &Client{logger: slog.Default()} // for what is asked before the error is seen
		return h
	case !view && h.kind.whole != nil && h.kind.whole != t && !isUnstructured(t):
		h.err = fmt.Errorf("%w: %s is not the whole of %s, and writing it would lose fields: use ViewOfKind",
			ErrKind, t, h.kind.whole)
		return h
	case !view && (t == reflect.TypeFor[metav1.PartialObjectMetadata]() || t == reflect.TypeFor[Object]()):
		h.err = fmt.Errorf("%w: %s is the metadata of a kind, and writing it would lose the rest: use ViewOfKind", ErrKind, t)
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

// Kind returns what is known of the kind without asking the server: plural and
// scope may be empty.
func (r Reader[T]) Kind() Kind { return r.kind }

// Namespaces returns the namespaces that In has narrowed the handle to, none for all.
func (r Reader[T]) Namespaces() []string { return slices.Clone(r.namespaces) }

// Client returns the client that the handle was made with, nil for a zero handle.
func (r Reader[T]) Client() *Client {
	if r.codec == nil {
		return nil
	}
	return r.client
}

// Err returns the mistake in making the handle, nil if there is none.
func (r Reader[T]) Err() error {
	err := r.err
	if err == nil && r.codec == nil {
		err = errNoHandle
	}
	if err == nil {
		return nil
	}
	return &Error{Verb: "use", Kind: r.kindName(), Err: err}
}

// Scope returns whether the objects of the handle live in namespaces. It asks the
// server if it must. The error wraps [ErrNotServed] if the server does not know the
// kind.
func (r Reader[T]) Scope(ctx context.Context) (Scope, error) {
	if err := r.Err(); err != nil {
		return "", err
	}
	kind, err := r.client.discovery.resolve(ctx, r.kind)
	if err != nil {
		return "", &Error{Verb: "discover", Kind: r.kindName(), Err: err}
	}
	return kind.Scope, nil
}

// In returns the handle narrowed to one or several namespaces, as client.InNamespace
// of controller-runtime does for one call. Reading or writing one object by name needs
// exactly one, unless the kind has none.
func (r Reader[T]) In(namespaces ...string) Reader[T] {
	return Reader[T]{r.in(namespaces)}
}

// In is [Reader.In].
func (v View[T]) In(namespaces ...string) View[T] {
	return View[T]{Reader[T]{v.in(namespaces)}}
}

// In is [Reader.In].
func (r Resource[T]) In(namespaces ...string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.in(namespaces)}}}
}

// Labeled returns the handle narrowed to objects whose labels match a selector, as in
// "app=web,tier in (front,back)". Its counterpart is client.MatchingLabelsSelector of
// controller-runtime. The selector takes the place of one that the handle has: to ask for
// both, join them with a comma. An empty selector is none.
func (r Reader[T]) Labeled(selector string) Reader[T] {
	return Reader[T]{r.labeled(selector)}
}

// Labeled is [Reader.Labeled].
func (v View[T]) Labeled(selector string) View[T] {
	return View[T]{Reader[T]{v.labeled(selector)}}
}

// Labeled is [Reader.Labeled].
func (r Resource[T]) Labeled(selector string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.labeled(selector)}}}
}

// Fielded returns the handle narrowed to objects whose fields match a selector, as in
// "status.phase=Running". The server knows metadata.name and metadata.namespace of
// every kind, and some fields more of some kinds. Its counterpart is
// client.MatchingFieldsSelector of controller-runtime. The selector takes the place of one
// that the handle has.
func (r Reader[T]) Fielded(selector string) Reader[T] {
	return Reader[T]{r.fielded(selector)}
}

// Fielded is [Reader.Fielded].
func (v View[T]) Fielded(selector string) View[T] {
	return View[T]{Reader[T]{v.fielded(selector)}}
}

// Fielded is [Reader.Fielded].
func (r Resource[T]) Fielded(selector string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.fielded(selector)}}}
}

// WithManagedFields returns a handle whose stores and watches keep
// metadata.managedFields, which are most of an object's metadata and are
// dropped otherwise.
func (r Reader[T]) WithManagedFields() Reader[T] {
	if r.codec != nil {
		r.codec = r.codec.WithManagedFields()
	}
	return r
}

// With returns a handle that writes with options.
func (v View[T]) With(o WriteOptions) View[T] {
	v.write = o
	return v
}

// With is [View.With].
func (r Resource[T]) With(o WriteOptions) Resource[T] {
	r.write = o
	return r
}

func (h handle) in(namespaces []string) handle {
	if h.err == nil {
		for _, ns := range namespaces {
			switch {
			case ns == "":
				h.err = fmt.Errorf("%w: an empty namespace for %s; leave In out for all namespaces", ErrScope, h.kind.Kind)
			case !validName(ns):
				h.err = fmt.Errorf("%q cannot be a namespace", ns)
			}
		}
		if len(namespaces) > 0 && h.kind.Scope == ClusterScoped {
			h.err = inScope(h.kind, namespaces[0])
		}
	}
	h.namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	return h
}

func (h handle) labeled(s string) handle {
	parsed, err := labels.Parse(s)
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("parse label selector %q: %w", s, err)
	}
	h.selector.labels, h.selector.label = parsed, s
	return h
}

func (h handle) fielded(s string) handle {
	if _, err := fields.ParseSelector(s); err != nil && h.err == nil {
		h.err = fmt.Errorf("parse field selector %q: %w", s, err)
	}
	h.selector.field = s
	return h
}

// selector narrows lists and watches.
type selector struct {
	label, field string
	labels       labels.Selector // label, parsed; nil: everything
}

func (s selector) set(q url.Values) {
	if s.label != "" {
		q.Set("labelSelector", s.label)
	}
	if s.field != "" {
		q.Set("fieldSelector", s.field)
	}
}

// fits reports whether the labels of an object match. Of its fields it knows
// nothing.
func (s selector) fits(o metav1.Object) bool {
	return s.labels == nil || s.labels.Matches(labels.Set(o.GetLabels()))
}

// excludes reports that the field selector does not fit an object, as far as its JSON
// can tell: it names fields by their path there, with few exceptions, and a field that
// is not there may have a default. Where it cannot tell, only the server can.
func (s selector) excludes(o metav1.Object) bool {
	if s.field == "" {
		return false
	}
	parsed, err := fields.ParseSelector(s.field)
	if err != nil {
		return false
	}
	var raw []byte
	for _, r := range parsed.Requirements() {
		var value string
		switch r.Field {
		case "metadata.name":
			value = o.GetName()
		case "metadata.namespace":
			value = o.GetNamespace()
		default:
			if raw == nil {
				if raw, err = encodeJSON(o); err != nil {
					return false
				}
			}
			var ok bool
			if value, ok = scalarAt(raw, r.Field); !ok {
				continue
			}
		}
		if (value == r.Value) == (r.Operator == selection.NotEquals) {
			return true
		}
	}
	return false
}

// scalarAt returns the value at a path of names in JSON, if it is a scalar.
func scalarAt(raw []byte, path string) (value string, ok bool) {
	first, rest, more := strings.Cut(path, ".")
	_ = scan.Members(raw, func(name string, v []byte) error { // it was just encoded
		switch {
		case name != first:
		case more:
			value, ok = scalarAt(v, rest)
		case v[0] == '"':
			value, ok = scan.Unquote(v), true
		default:
			value, ok = string(v), v[0] != '{' && v[0] != '[' && v[0] != 'n'
		}
		return nil
	})
	return value, ok
}

// inScope is an error for a namespace on a kind that has none.
func inScope(kind Kind, namespace string) error {
	if namespace != "" && kind.Scope == ClusterScoped {
		return fmt.Errorf("%w: %s is cluster-scoped, it has no namespace (%q was given): leave In out", ErrScope, kind.Kind, namespace)
	}
	return nil
}
