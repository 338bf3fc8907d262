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

// Reader reads the objects of a kind: it cannot write. Readers are values; a method that
// narrows a Reader returns a copy. Its counterpart is client.Reader of
// controller-runtime.
//
// If making a handle fails, for example because its type does not name its kind, each of
// its methods returns the error before any request.
type Reader[T any] struct{ handle handle }

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
	base() handle
}

// Handle is a [Reader], [View] or [Resource] of T. Its counterparts are client.Client of
// controller-runtime, which is of any type, and kube::Api of kube-rs.
type Handle[T any] interface {
	AnyHandle
	ReadOnly() Reader[T]
	of(*T)
}

func (r Reader[T]) base() handle { return r.handle }
func (r Reader[T]) of(*T)        {}

// handle is the common part of handles of all types. It does the work of their methods: Go
// compiles a generic method for each type, and in each package that uses the type.
type handle struct {
	client     *Client
	kind       Kind
	codec      *wire.Codec
	view       bool // the type has only some of the kind's fields
	goType     reflect.Type
	newObject  func() object // makes an empty object of the type
	namespaces []string      // empty: all
	selector   selector
	write      WriteOptions
	err        error
}

// metadata returns a handle that reads only the metadata of the objects.
func (h handle) metadata() handle {
	h.codec, h.newObject = h.codec.Metadata(), newObject[metav1.PartialObjectMetadata]
	return h
}

// For returns a handle for the objects of a kind. T has all fields of the kind, embeds
// [Object], or metav1.TypeMeta and metav1.ObjectMeta, and names its kind itself or is a
// type of k8s.io/api; see [Kind]. The handle covers all namespaces until [Resource.In]
// narrows it. Its counterparts are the typed clients of client-go and Api::all of
// kube-rs.
func For[T any, P embedsKubeObject[T]](c *Client) Resource[T] {
	return ForKind[T, P](c, Kind{})
}

// ForKind is [For] with a declared kind, for a T that does not name its own: a type of
// another API package, or unstructured.Unstructured. Its counterparts are Api::all_with
// of kube-rs and an unstructured object of controller-runtime's client.
func ForKind[T any, P embedsKubeObject[T]](c *Client, kind Kind) Resource[T] {
	h := newHandle(c, reflect.TypeFor[T](), newObject[T], kind, false)
	return Resource[T]{View[T]{Reader[T]{h}}}
}

// ViewOf returns a handle for a struct that has some of the fields of a kind, and a GVK
// method that names the kind:
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
// Fields that the struct does not have are neither decoded nor kept. For a view of a
// built-in kind, and for any struct without the method, use [ViewOfKind].
//
// A view of metadata only stands for metav1.PartialObjectMetadata.
func ViewOf[T any, P embedsKubeObject[T]](c *Client) View[T] {
	return ViewOfKind[T, P](c, Kind{})
}

// ViewOfKind is [ViewOf] for a struct without a GVK method. Use it with [KindOf] for a
// view of a built-in kind:
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
// sends only metadata. The counterpart of such a view is OnlyMetadata of
// controller-runtime.
func ViewOfKind[T any, P embedsKubeObject[T]](c *Client, kind Kind) View[T] {
	h := newHandle(c, reflect.TypeFor[T](), newObject[T], kind, true)
	return View[T]{Reader[T]{h}}
}

func isUnstructured(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[runtime.Unstructured]())
}

func newHandle(c *Client, t reflect.Type, newObject func() object, declared Kind, view bool) handle {
	h := handle{client: c, goType: t, newObject: newObject, view: view}
	if h.kind, h.err = declared.identify(t); h.err != nil {
		return h
	}
	switch {
	case c == nil:
		h.err = errors.New("the client is nil: was the error of Connect checked?")
		h.client = &Client{logger: slog.Default()} // for methods that run before the error is seen
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

// Kind returns the parts of the kind that are known without a request to the server:
// plural and scope may be empty.
func (r Reader[T]) Kind() Kind { return r.handle.kind }

// Namespaces returns the namespaces to which In has narrowed the handle. None means all.
func (r Reader[T]) Namespaces() []string { return slices.Clone(r.handle.namespaces) }

// Client returns the client that made the handle, or nil for a zero handle.
func (r Reader[T]) Client() *Client {
	if r.handle.codec == nil {
		return nil
	}
	return r.handle.client
}

// Err returns the mistake in making the handle, or nil if there is none.
func (r Reader[T]) Err() error {
	err := r.handle.err
	if err == nil && r.handle.codec == nil {
		err = errNoHandle
	}
	if err == nil {
		return nil
	}
	return &Error{Verb: "use", Kind: r.handle.kindName(), Err: err}
}

// Scope returns whether the objects of the handle live in namespaces. If the answer is
// not known, it asks the server. The error wraps [ErrNotServed] if the server does not
// know the kind. Its counterpart is IsObjectNamespaced of controller-runtime's client.
func (r Reader[T]) Scope(ctx context.Context) (Scope, error) {
	if err := r.Err(); err != nil {
		return "", err
	}
	kind, err := r.handle.client.discovery.resolve(ctx, r.handle.kind)
	if err != nil {
		return "", &Error{Verb: "discover", Kind: r.handle.kindName(), Err: err}
	}
	return kind.Scope, nil
}

// In returns the handle narrowed to one or several namespaces, as client.InNamespace of
// controller-runtime does for one call. Reading or writing one object by name needs
// exactly one namespace, unless the kind is cluster-scoped. The namespaces replace those of
// an earlier In; without any the handle covers all namespaces.
func (r Reader[T]) In(namespaces ...string) Reader[T] {
	return Reader[T]{r.handle.in(namespaces)}
}

// In is [Reader.In].
func (v View[T]) In(namespaces ...string) View[T] {
	return View[T]{Reader[T]{v.handle.in(namespaces)}}
}

// In is [Reader.In].
func (r Resource[T]) In(namespaces ...string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.handle.in(namespaces)}}}
}

// Labeled returns the handle narrowed to objects whose labels match a selector, as in
// "app=web,tier in (front,back)". Its counterpart is client.MatchingLabelsSelector of
// controller-runtime. The selector replaces the handle's earlier label selector: to ask
// for both, join them with a comma. An empty selector matches all objects.
//
// The selector narrows reads, stores and DeleteAll. It does not change the objects that
// the handle writes, and does not check their labels: an object that the program writes
// without the labels is missing in its own store.
func (r Reader[T]) Labeled(selector string) Reader[T] {
	return Reader[T]{r.handle.labeled(selector)}
}

// Labeled is [Reader.Labeled].
func (v View[T]) Labeled(selector string) View[T] {
	return View[T]{Reader[T]{v.handle.labeled(selector)}}
}

// Labeled is [Reader.Labeled].
func (r Resource[T]) Labeled(selector string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.handle.labeled(selector)}}}
}

// Fielded returns the handle narrowed to objects whose fields match a selector, as in
// "status.phase=Running". The server supports metadata.name and metadata.namespace for
// every kind, and a few more fields for some kinds. Its counterpart is
// client.MatchingFieldsSelector of controller-runtime. The selector replaces the handle's
// earlier field selector.
func (r Reader[T]) Fielded(selector string) Reader[T] {
	return Reader[T]{r.handle.fielded(selector)}
}

// Fielded is [Reader.Fielded].
func (v View[T]) Fielded(selector string) View[T] {
	return View[T]{Reader[T]{v.handle.fielded(selector)}}
}

// Fielded is [Reader.Fielded].
func (r Resource[T]) Fielded(selector string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.handle.fielded(selector)}}}
}

// WithManagedFields returns a handle whose stores and watches keep
// metadata.managedFields. Without it they drop this field, which is most of an object's
// metadata, as TransformStripManagedFields of controller-runtime's cache does.
func (r Reader[T]) WithManagedFields() Reader[T] {
	if r.handle.codec != nil {
		r.handle.codec = r.handle.codec.WithManagedFields()
	}
	return r
}

// With returns a handle that writes with options. Its counterparts are the options of a
// call of controller-runtime's client.Writer, such as client.DryRunAll and
// client.ForceOwnership.
func (v View[T]) With(o WriteOptions) View[T] {
	v.handle.write = o
	return v
}

// With is [View.With].
func (r Resource[T]) With(o WriteOptions) Resource[T] {
	r.handle.write = o
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

// fits reports whether the labels of an object match. It does not look at the object's
// fields.
func (s selector) fits(o metav1.Object) bool {
	return s.labels == nil || s.labels.Matches(labels.Set(o.GetLabels()))
}

// excludes reports that the field selector does not match an object, as far as the
// object's JSON shows. With few exceptions the selector names fields by their path in the
// JSON. A field that is not in the JSON may have a default. excludes ignores such a
// field, because only the server knows its value.
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

// scalarAt returns the value at a path of names in JSON, if that value is a scalar.
func scalarAt(raw []byte, path string) (value string, ok bool) {
	first, rest, more := strings.Cut(path, ".")
	_ = scan.Members(raw, func(name string, v []byte) error { // the JSON was just encoded
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

// inScope returns an error if a namespace is given for a cluster-scoped kind.
func inScope(kind Kind, namespace string) error {
	if namespace != "" && kind.Scope == ClusterScoped {
		return fmt.Errorf("%w: %s is cluster-scoped, it has no namespace (%q was given): leave In out", ErrScope, kind.Kind,
			namespace)
	}
	return nil
}
