package aggregate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/uuid"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Projection is a kind whose objects are views of the objects of another kind. It can be
// read: get, list and watch. Each request of a client becomes one request to
// kube-apiserver, with the rights of this program.
//
// An object has the labels, the resource version and the times of its source, and a UID that
// follows from the source's. Its name is the source's with Prefix before it. So label
// selectors, pages, bookmarks and the error 410 are those of the source.
type Projection[S, T any] struct {
	// Definition describes the kind. [crd.Of] makes it. It is not installed.
	Definition *crd.Definition
	// Source is the kind of the sources. S decodes their JSON. It need not have all their
	// fields.
	Source kube.Kind
	// Prefix is put before the names of the sources.
	Prefix string
	// View returns the view of a source, or nil if the source has none. It must always
	// return the same for the same source. Of the metadata that it sets, annotations are
	// kept.
	View func(source *S) *T
	// Subresources are subresources of the program's own.
	Subresources []Subresource[T]
}

func (p Projection[S, T]) resource(s Server) (*resource, error) {
	r, err := newResource(p.Definition)
	if err != nil {
		return nil, err
	}
	r.verbs = metav1.Verbs{"get", "list", "watch"}
	for i := range r.definition.Spec.Versions {
		r.definition.Spec.Versions[i].Subresources = nil
	}
	_, isObject := any(new(S)).(metav1.Object)
	scope := apiextensionsv1.ResourceScope(p.Source.Scope)
	switch {
	case p.View == nil:
		err = errors.New("the field View is missing")
	case !isObject:
		err = errors.New("the type of the source has no metadata: embed kube.Object in it")
	case p.Source.Err() != nil:
		err = p.Source.Err()
	case p.Source.Plural == "":
		err = fmt.Errorf("the plural of %s is not known: declare it with kube.Kind", p.Source.Kind)
	case scope != r.definition.Spec.Scope:
		err = fmt.Errorf("the scope is %s, but that of the source is %q", r.definition.Spec.Scope, scope)
	}
	if err != nil {
		return nil, fmt.Errorf("projection %s: %w", p.Definition.Name, err)
	}
	from, err := openSource(s.Client, p.Source)
	if err != nil {
		return nil, fmt.Errorf("projection %s: %w", p.Definition.Name, err)
	}
	gvk := schema.GroupVersionKind{Group: r.definition.Spec.Group, Version: r.storageVersion(), Kind: r.definition.Spec.Names.Kind}
	r.of = p.Source
	r.source = &views[S, T]{Projection: p, gvk: gvk, from: from}
	return r, addSubresources(r, p.Subresources)
}

// views are the objects of a Projection, in the place of a storage.
type views[S, T any] struct {
	Projection[S, T]
	gvk  schema.GroupVersionKind
	from *source
	readOnly
}

// view returns the view of a source as the server handles objects, or nil.
func (v *views[S, T]) view(of *S) (*unstructured.Unstructured, error) {
	t := v.View(of)
	if t == nil {
		return nil, nil
	}
	fields, err := content(t)
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", kube.KeyOf(any(of).(metav1.Object)), err)
	}
	u := &unstructured.Unstructured{Object: fields}
	annotations := u.GetAnnotations()
	*u = *v.bare(of)
	for name, value := range fields {
		if name != "metadata" && name != "apiVersion" && name != "kind" {
			u.Object[name] = value
		}
	}
	u.SetAnnotations(annotations)
	return u, nil
}

// bare returns the metadata of a source's view.
func (v *views[S, T]) bare(of *S) *unstructured.Unstructured {
	o := any(of).(metav1.Object)
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v.gvk)
	u.SetName(v.Prefix + o.GetName())
	u.SetNamespace(o.GetNamespace())
	u.SetUID(types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(v.gvk.GroupKind().String()+"/"+string(o.GetUID()))).String()))
	u.SetResourceVersion(o.GetResourceVersion())
	u.SetGeneration(o.GetGeneration())
	u.SetCreationTimestamp(o.GetCreationTimestamp())
	u.SetDeletionTimestamp(o.GetDeletionTimestamp())
	u.SetDeletionGracePeriodSeconds(o.GetDeletionGracePeriodSeconds())
	if labels := o.GetLabels(); len(labels) > 0 {
		u.SetLabels(labels)
	}
	return u
}

// Get reads one source. The key ends with the name of the view.
func (v *views[S, T]) Get(ctx context.Context, key string, o storage.GetOptions, into runtime.Object) error {
	name, ok := strings.CutPrefix(path.Base(key), v.Prefix)
	if !ok || name == "" {
		return storage.NewKeyNotFoundError(key, 0)
	}
	of := new(S)
	err := v.from.get(ctx, request.NamespaceValue(ctx), name, query{"resourceVersion": o.ResourceVersion}, of)
	if isMissing(err) {
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err != nil {
		return err
	}
	u, err := v.view(of)
	if err != nil {
		return err
	}
	if u == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	*into.(*unstructured.Unstructured) = *u
	return nil
}

// GetList reads sources page by page, as the client asks.
func (v *views[S, T]) GetList(ctx context.Context, key string, o storage.ListOptions, into runtime.Object) error {
	q, none := v.query(key, o)
	if none {
		// The list is empty, but needs a resource version.
		q = query{"limit": "1"}
	}
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []S             `json:"items"`
	}
	if err := v.from.get(ctx, request.NamespaceValue(ctx), "", q, &page); err != nil {
		return err
	}
	list := into.(*unstructured.UnstructuredList)
	list.SetResourceVersion(page.Metadata.ResourceVersion)
	if none {
		return nil
	}
	list.SetContinue(page.Metadata.Continue)
	hidden := false
	for i := range page.Items {
		u, err := v.view(&page.Items[i])
		if err != nil {
			return err
		}
		shown, err := matches(u, o.Predicate)
		switch {
		case err != nil:
			return err
		case shown:
			list.Items = append(list.Items, *u)
		default:
			hidden = true
		}
	}
	if !hidden { // otherwise nobody knows how many of the remaining ones are shown
		list.SetRemainingItemCount(page.Metadata.RemainingItemCount)
	}
	return nil
}

// matches reports whether a view is one that the client asked for.
func matches(u *unstructured.Unstructured, p storage.SelectionPredicate) (bool, error) {
	if u == nil {
		return false, nil
	}
	return p.Matches(u)
}

// query returns the query for sources, or none if no source can have a view that the client
// asks for. It may find more than that.
func (v *views[S, T]) query(key string, o storage.ListOptions) (q query, none bool) {
	q = query{
		"resourceVersion":      o.ResourceVersion,
		"resourceVersionMatch": string(o.ResourceVersionMatch),
		"continue":             o.Predicate.Continue,
		"labelSelector":        o.Predicate.Label.String(),
	}
	if o.Predicate.Limit > 0 {
		q["limit"] = fmt.Sprint(o.Predicate.Limit)
	}
	var of []fields.Selector
	for _, r := range o.Predicate.Field.Requirements() {
		equal := r.Operator != selection.NotEquals
		value := r.Value
		switch r.Field {
		default:
			continue // a field of the view, which the source may not have
		case "metadata.name":
			name, ok := strings.CutPrefix(value, v.Prefix)
			if !ok || name == "" {
				if equal {
					return nil, true
				}
				continue
			}
			value = name
		case "metadata.namespace":
		}
		if equal {
			of = append(of, fields.OneTermEqualSelector(r.Field, value))
		} else {
			of = append(of, fields.OneTermNotEqualSelector(r.Field, value))
		}
	}
	q["fieldSelector"] = fields.AndSelectors(of...).String()
	return q, false
}

// GetCurrentResourceVersion returns the version of the newest source.
func (v *views[S, T]) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	if err := v.from.get(ctx, "", "", query{"limit": "1"}, &page); err != nil {
		return 0, err
	}
	return v.Versioner().ParseResourceVersion(page.Metadata.ResourceVersion)
}

// readOnly is the part of a storage that views do not have. The handler refuses requests
// that would need it.
type readOnly struct{}

var errReadOnly = errors.New("the objects of a projection are changed by changing their sources")

func (readOnly) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (readOnly) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errReadOnly
}

func (readOnly) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc, runtime.Object, storage.DeleteOptions) error {
	return errReadOnly
}

func (readOnly) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc, runtime.Object) error {
	return errReadOnly
}

func (readOnly) Stats(context.Context) (storage.Stats, error)        { return storage.Stats{}, nil }
func (readOnly) ReadinessCheck() error                               { return nil }
func (readOnly) RequestWatchProgress(context.Context) error          { return nil }
func (readOnly) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }
func (readOnly) CompactRevision() int64                              { return 0 }
