package kube

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pintle-go/pintle/kube/internal/scan"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// In returns the handle narrowed to one or several namespaces, as client.InNamespace of
// controller-runtime does for one call. Reading or writing one object by name needs
// exactly one namespace, unless the kind is cluster-scoped.
//
// In only narrows: a second In keeps the namespaces that both name. If there is none, each
// method of the handle returns an error that wraps [ErrScope]. So does a handle from an In
// without a namespace, or with an empty one: a setting that is empty by mistake must not
// widen the handle to the cluster. For all namespaces, leave In out.
func (r Reader[T]) In(namespaces ...string) Reader[T] {
	return Reader[T]{r.base().in(namespaces)}
}

// In is [Reader.In].
func (v View[T]) In(namespaces ...string) View[T] {
	return View[T]{Reader[T]{v.base().in(namespaces)}}
}

// In is [Reader.In].
func (r Resource[T]) In(namespaces ...string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.base().in(namespaces)}}}
}

// Labeled returns the handle narrowed to objects whose labels match a selector, as in
// "app=web,tier in (front,back)". Its counterpart is client.MatchingLabelsSelector of
// controller-runtime. Labeled only narrows: the objects match the selector and also those of
// an earlier Labeled. An empty selector matches all objects.
//
// The selector narrows reads, stores, DeleteAll and the reads of Modify. Create, Update, Apply,
// Ensure and Modify refuse to write an object whose labels do not match, because the handle
// would not read that object back. The error wraps [ErrScope]. Labeled does not add labels to
// an object. Delete, Patch, and the writes of a status or another subresource except Modify
// do not know the labels of the object that they name, and do not ask for them.
func (r Reader[T]) Labeled(selector string) Reader[T] {
	return Reader[T]{r.base().labeled(selector)}
}

// Labeled is [Reader.Labeled].
func (v View[T]) Labeled(selector string) View[T] {
	return View[T]{Reader[T]{v.base().labeled(selector)}}
}

// Labeled is [Reader.Labeled].
func (r Resource[T]) Labeled(selector string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.base().labeled(selector)}}}
}

// Fielded returns the handle narrowed to objects whose fields match a selector, as in
// "status.phase=Running". The server supports metadata.name and metadata.namespace for
// every kind, and a few more fields for some kinds. Its counterpart is
// client.MatchingFieldsSelector of controller-runtime. Fielded only narrows: the objects
// match the selector and also those of an earlier Fielded.
//
// The selector narrows reads, stores, DeleteAll and the reads of Modify. The other writes name
// an object, and do not look at its fields.
func (r Reader[T]) Fielded(selector string) Reader[T] {
	return Reader[T]{r.base().fielded(selector)}
}

// Fielded is [Reader.Fielded].
func (v View[T]) Fielded(selector string) View[T] {
	return View[T]{Reader[T]{v.base().fielded(selector)}}
}

// Fielded is [Reader.Fielded].
func (r Resource[T]) Fielded(selector string) Resource[T] {
	return Resource[T]{View[T]{Reader[T]{r.base().fielded(selector)}}}
}

// Wide returns a handle that reads all objects of the kind of another handle, in all
// namespaces. In, Labeled and Fielded cannot widen a handle: Wide is for code that gets a
// handle from its caller and has to see objects that have left the handle's selectors, as a
// controller does before it decides that an object is gone. An error of the other handle
// stays.
func Wide[T any](h Handle[T]) Reader[T] {
	wide := *h.base()
	wide.namespaces, wide.wide, wide.selector = nil, nil, selector{}
	return Reader[T]{&wide}
}

// Unselected returns a handle that reads the metadata of all objects in the namespaces of
// another handle, whatever their labels and fields. It also returns whether an object can
// leave the other handle while it exists: an object changes its labels and fields, but
// neither its name nor its namespace. A selector of names stays, because rights may be
// limited to names. Unselected is for a controller that must see the end of objects that
// have left its handle. An error of the other handle stays.
func Unselected(h AnyHandle) (all Reader[Object], leave bool) {
	base := h.base()
	wide := ViewOf[Object](base.client, base.kind).handle // nobody else has it yet
	wide.namespaces = base.namespaces
	if base.err != nil {
		wide.err = base.err
	}
	leave = base.selector.label != ""
	if base.selector.fields == nil {
		return Reader[Object]{wide}, leave
	}
	for _, r := range base.selector.fields.Requirements() {
		switch {
		case r.Field != "metadata.name" && r.Field != "metadata.namespace":
			leave = true
		case r.Operator == selection.NotEquals:
			wide = wide.fieldedBy(fields.OneTermNotEqualSelector(r.Field, r.Value))
		default:
			wide = wide.fieldedBy(fields.OneTermEqualSelector(r.Field, r.Value))
		}
	}
	return Reader[Object]{wide}, leave
}

func (h *handle) in(namespaces []string) *handle {
	is := *h
	if h.err == nil {
		is.err = h.mayNarrow(namespaces)
	}
	if len(namespaces) == 0 {
		return &is
	}
	narrowed := slices.Compact(slices.Sorted(slices.Values(namespaces)))
	if len(h.namespaces) > 0 {
		narrowed = slices.DeleteFunc(narrowed, func(ns string) bool { return !slices.Contains(h.namespaces, ns) })
	}
	if len(narrowed) == 0 {
		return is.failed(fmt.Errorf("%w: In(%q) of a handle that is narrowed to %q leaves no namespace",
			ErrScope, namespaces, h.namespaces))
	}
	is.wide, is.namespaces = h.namespaces, narrowed
	return &is
}

// mayNarrow returns an error if namespaces cannot narrow the handle.
func (h *handle) mayNarrow(namespaces []string) error {
	if len(namespaces) == 0 {
		return fmt.Errorf("%w: In without a namespace for %s; leave In out for all namespaces", ErrScope, h.kind.Kind)
	}
	for _, ns := range namespaces {
		switch {
		case ns == "":
			return fmt.Errorf("%w: an empty namespace for %s; leave In out for all namespaces", ErrScope, h.kind.Kind)
		case len(validation.IsDNS1123Label(ns)) > 0:
			return fmt.Errorf("%w: %q cannot be a namespace", ErrScope, ns)
		}
	}
	return inScope(h.kind, namespaces[0])
}

func (h *handle) labeled(s string) *handle {
	parsed, err := labels.Parse(s)
	if err != nil {
		return h.failed(fmt.Errorf("parse label selector %q: %w", s, err))
	}
	is := *h
	if is.selector.labels == nil {
		is.selector.labels = labels.NewSelector()
	}
	also, _ := parsed.Requirements()
	for _, r := range also {
		if r.Operator() == selection.DoubleEquals {
			r, _ = equals(r) // it was parsed
		}
		has, _ := is.selector.labels.Requirements()
		if !slices.ContainsFunc(has, r.Equal) {
			is.selector.labels = is.selector.labels.Add(r)
		}
	}
	is.selector.label = is.selector.labels.String()
	return &is
}

// failed returns the handle with a mistake, unless it has one already.
func (h *handle) failed(err error) *handle {
	is := *h
	if is.err == nil {
		is.err = err
	}
	return &is
}

// equals returns the requirement key=value for key==value.
func equals(r labels.Requirement) (labels.Requirement, error) {
	same, err := labels.NewRequirement(r.Key(), selection.Equals, r.Values().UnsortedList())
	if err != nil {
		return r, err
	}
	return *same, nil
}

func (h *handle) fielded(s string) *handle {
	parsed, err := fields.ParseSelector(s)
	if err != nil {
		return h.failed(fmt.Errorf("parse field selector %q: %w", s, err))
	}
	return h.fieldedBy(parsed)
}

func (h *handle) fieldedBy(also fields.Selector) *handle {
	var terms []fields.Selector
	if h.selector.fields != nil {
		terms = append(terms, h.selector.fields)
	}
	for _, r := range also.Requirements() {
		if h.selector.fields != nil && slices.Contains(h.selector.fields.Requirements(), r) {
			continue
		}
		term := fields.OneTermEqualSelector(r.Field, r.Value)
		if r.Operator == selection.NotEquals {
			term = fields.OneTermNotEqualSelector(r.Field, r.Value)
		}
		terms = append(terms, term)
	}
	if len(terms) == 0 {
		return h
	}
	is := *h
	is.selector.fields = fields.AndSelectors(terms...)
	is.selector.field = is.selector.fields.String()
	return &is
}

// selector narrows lists and watches.
type selector struct {
	label, field string          // labels and fields, as they are sent
	labels       labels.Selector // nil: everything
	fields       fields.Selector // nil: everything
}

func (s selector) set(q url.Values) {
	if s.label != "" {
		q.Set("labelSelector", s.label)
	}
	if s.field != "" {
		q.Set("fieldSelector", s.field)
	}
}

// holds reports whether each object whose labels match other also matches s, because other
// has each requirement of s.
func (s selector) holds(other selector) bool {
	if s.label == "" || s.label == other.label {
		return true
	}
	if other.labels == nil {
		return false
	}
	has, _ := s.labels.Requirements()
	wanted, _ := other.labels.Requirements()
	return !slices.ContainsFunc(has, func(r labels.Requirement) bool {
		return !slices.ContainsFunc(wanted, r.Equal)
	})
}

// fits reports whether the labels of an object match. It does not look at the object's
// fields.
func (s selector) fits(o metav1.Object) bool {
	return s.labels == nil || s.labels.Matches(labels.Set(o.GetLabels()))
}

// excludes reports that the field selector does not match an object, as far as the
// object's JSON shows. With few exceptions the selector names fields by their path in the
// JSON. A field that is not in the JSON may have a default. Only the server knows the value of
// such a field: if there is one, known is false, unless another field does not match.
func (s selector) excludes(o metav1.Object) (excludes, known bool) {
	known = true
	if s.field == "" {
		return false, true
	}
	var raw []byte
	for _, r := range s.fields.Requirements() {
		var value string
		switch r.Field {
		case "metadata.name":
			value = o.GetName()
		case "metadata.namespace":
			value = o.GetNamespace()
		default:
			if raw == nil {
				var err error
				if raw, err = wire.EncodeJSON(o); err != nil {
					return false, false
				}
			}
			var ok bool
			if value, ok = scalarAt(raw, r.Field); !ok {
				known = false
				continue
			}
		}
		if (value == r.Value) == (r.Operator == selection.NotEquals) {
			return true, true
		}
	}
	return false, known
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
