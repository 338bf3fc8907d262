package aggregate

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Projection is a kind whose objects are views of the objects of another kind. It can be
// read: get, list and watch. It cannot be written, because a view has no way back to its source.
// A subresource can change the source. Each request of a client becomes one request to
// kube-apiserver, with the rights of this program. So a read is as fresh as one of the source:
// a get or a list that names no resource version sees all earlier writes. There is no store that
// could lag behind.
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
	scope := apiextensionsv1.ResourceScope(p.Source.Scope)
	_, isObject := any(new(S)).(object)
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
	v := &views[S, T]{Projection: p, gvk: r.kind}
	if err == nil {
		err = v.connect(s.connection())
	}
	if err != nil {
		return nil, fmt.Errorf("projection %s: %w", p.Definition.Name, err)
	}
	r.of, r.source = p.Source, v
	return r, addSubresources(r, p.Subresources)
}

// views are the objects of a Projection, in the place of a storage.
type views[S, T any] struct {
	Projection[S, T]
	gvk     schema.GroupVersionKind
	sources *rest.RESTClient
	known   *runtime.Scheme // the types as which sources are decoded
	// Interface is nil. It has the methods that write, and those of storages below a cache. The
	// handler refuses requests that would need them.
	storage.Interface
}

// view returns the view of a source as the server handles objects, or nil if it has none that a client
// asked for.
func (v *views[S, T]) view(source object, p storage.SelectionPredicate) (u *unstructured.Unstructured, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("view %s %s: %w", v.Source.Kind, kube.KeyOf(source), err)
		}
	}()
	t := v.View(any(source).(*S))
	if t == nil {
		return nil, nil
	}
	fields, err := convert[map[string]any](t)
	if err != nil {
		return nil, err
	}
	m := v.identity(source)
	m.Labels, m.Generation, m.CreationTimestamp = source.GetLabels(), source.GetGeneration(), source.GetCreationTimestamp()
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = source.GetDeletionTimestamp(), source.GetDeletionGracePeriodSeconds()
	m.Annotations = (&unstructured.Unstructured{Object: *fields}).GetAnnotations()
	u = v.named(*fields, m)
	if shown, err := p.Matches(u); !shown {
		return nil, err
	}
	return u, nil
}

// identity returns the metadata of a view by which clients know it. It follows from that of the source.
func (v *views[S, T]) identity(of metav1.Object) *metav1.ObjectMeta {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(v.gvk.GroupKind().String()+"/"+string(of.GetUID())))
	return &metav1.ObjectMeta{
		Name: v.Prefix + of.GetName(), Namespace: of.GetNamespace(), UID: types.UID(id.String()),
		ResourceVersion: of.GetResourceVersion(),
	}
}

// named returns an object of the kind with the metadata.
func (v *views[S, T]) named(fields map[string]any, m *metav1.ObjectMeta) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	fields["metadata"], _ = runtime.DefaultUnstructuredConverter.ToUnstructured(m) // it is no type that fails
	u.SetGroupVersionKind(v.gvk)
	return u
}
