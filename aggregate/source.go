package aggregate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// The sources of views are read as kube-apiserver sends them: unlike package kube, nothing here
// recovers from an error or keeps an object. The client does that.

// object is the part of a source that every *S has.
type object interface {
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

// decoded is a source of a type that the library does not know. The library needs the methods of the
// embedded type, which stays empty.
type decoded[S any] struct {
	metav1.PartialObjectMetadata
	source S
}

// UnmarshalJSON decodes the source.
func (d *decoded[S]) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &d.source) }

// connect makes the client for the sources. If S is the library's type of a built-in kind, they are sent
// as protobuf.
func (v *views[S, T]) connect(config *rest.Config) (err error) {
	gv := v.Source.GroupVersion()
	v.known, config.AcceptContentTypes = scheme.Scheme, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if v.known.KnownTypes(gv)[v.Source.GVK.Kind] != reflect.TypeFor[S]() {
		v.known, config.AcceptContentTypes = runtime.NewScheme(), runtime.ContentTypeJSON
		metav1.AddToGroupVersion(v.known, gv)
		v.known.AddKnownTypeWithName(v.Source.GVK, new(decoded[S]))
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(v.known).WithoutConversion()
	config.GroupVersion, config.APIPath = &gv, dynamic.LegacyAPIPathResolverFunc(v.Source.GVK)
	v.sources, err = rest.RESTClientFor(config)
	return err
}

// get prepares a request for the sources in the namespace of a client's request, or for all.
func (v *views[S, T]) get(ctx context.Context, options runtime.Object) *rest.Request {
	namespace := request.NamespaceValue(ctx)
	return v.sources.Get().NamespaceIfScoped(namespace, namespace != "").Resource(v.Source.Plural).
		SpecificallyVersionedParams(options, metav1.ParameterCodec, metav1.SchemeGroupVersion)
}

// source returns the source that the library has decoded.
func (v *views[S, T]) source(of runtime.Object) object {
	source, _ := of.(object)
	if d, ok := of.(*decoded[S]); ok {
		source = any(&d.source).(object)
	}
	source.GetObjectKind().SetGroupVersionKind(v.Source.GVK) // some answers do not have it
	return source
}

// sourceName returns the name of the source of a view. A name that could be a step in a path
// would lead to other objects than sources, so it is the name of none.
func (v *views[S, T]) sourceName(view string) string {
	name, ok := strings.CutPrefix(view, v.Prefix)
	if !ok || name == "" || len(rest.IsValidPathSegmentName(name)) > 0 {
		return "-" // no object can have that name
	}
	return name
}

// explain returns an error for the client of a view. The client can do something about an
// expired version, a bad token for a page or a busy server, and nothing about the rights of this
// program.
func (v *views[S, T]) explain(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return apierrors.NewInternalError(fmt.Errorf("read %s: %w", v.Source.Plural, err))
	}
	return err
}

// Get reads one source. The key ends with the name of the view.
func (v *views[S, T]) Get(ctx context.Context, key string, o storage.GetOptions, into runtime.Object) error {
	of := &metav1.GetOptions{ResourceVersion: o.ResourceVersion}
	source, err := v.get(ctx, of).Name(v.sourceName(path.Base(key))).Do(ctx).Get()
	if apierrors.IsNotFound(err) {
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err != nil {
		return v.explain(err)
	}
	u, err := v.view(v.source(source), storage.Everything)
	if u != nil {
		*into.(*unstructured.Unstructured) = *u
		return nil
	}
	return cmp.Or[error](err, storage.NewKeyNotFoundError(key, 0))
}

// GetList reads sources page by page, as the client asks.
func (v *views[S, T]) GetList(ctx context.Context, _ string, o storage.ListOptions, into runtime.Object) error {
	q, err := v.query(o)
	if err != nil {
		return err
	}
	page, err := v.known.New(v.Source.GroupVersion().WithKind(v.Source.GVK.Kind + "List"))
	if err != nil {
		page = &struct { // the list of such a type may be of any kind
			metav1.PartialObjectMetadataList
			Items []decoded[S] `json:"items"` // they hide those of the embedded type
		}{}
	}
	if err := v.get(ctx, &q).Do(ctx).Into(page); err != nil {
		return v.explain(err)
	}
	from, err := meta.ListAccessor(page)
	if err != nil {
		return err
	}
	list := into.(*unstructured.UnstructuredList)
	list.SetResourceVersion(from.GetResourceVersion())
	list.SetContinue(from.GetContinue())
	err = meta.EachListItem(page, func(source runtime.Object) error {
		u, err := v.view(v.source(source), o.Predicate)
		if u != nil {
			list.Items = append(list.Items, *u)
		}
		return err
	})
	if len(list.Items) == meta.LenList(page) { // otherwise nobody knows how many of the remaining ones are shown
		list.SetRemainingItemCount(from.GetRemainingItemCount())
	}
	return err
}

// query returns the query for sources. It may find more than the client asks for.
func (v *views[S, T]) query(o storage.ListOptions) (q metav1.ListOptions, err error) {
	of, err := o.Predicate.Field.Transform(func(field, value string) (string, string, error) {
		switch field {
		case "metadata.name":
			return field, v.sourceName(value), nil
		case "metadata.namespace":
			return field, value, nil
		}
		return "", "", nil // a field of the view, which the source may not have
	})
	if err != nil {
		return q, err
	}
	return metav1.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Continue: o.Predicate.Continue, Limit: o.Predicate.Limit,
		LabelSelector: o.Predicate.Label.String(), FieldSelector: of.String(),
	}, nil
}

// Versioner tells how versions are compared.
func (*views[S, T]) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// ReadinessCheck returns nil: there is nothing to wait for.
func (*views[S, T]) ReadinessCheck() error { return nil }

// Watch passes on the events of sources: an event of a source is an event of its view.
func (v *views[S, T]) Watch(ctx context.Context, _ string, o storage.ListOptions) (watch.Interface, error) {
	q, err := v.query(o)
	if err != nil {
		return nil, err
	}
	q.Watch, q.AllowWatchBookmarks, q.SendInitialEvents = true, o.Predicate.AllowWatchBookmarks, o.SendInitialEvents
	if o.SendInitialEvents != nil {
		q.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	sources, err := v.get(ctx, &q).Watch(ctx)
	if err != nil {
		return nil, v.explain(err)
	}
	e := &events[S, T]{views: v, sources: sources, predicate: o.Predicate, hidden: map[kube.Key]bool{}}
	return watch.NewStreamWatcher(e, nil), nil // it has no error to report but io.EOF
}

// events makes the events of views from those of their sources.
type events[S, T any] struct {
	*views[S, T]
	sources   watch.Interface
	predicate storage.SelectionPredicate
	// hidden holds sources that are known to have no view that the client asked for.
	hidden map[kube.Key]bool
}

// Close ends the watch of the sources.
func (e *events[S, T]) Close() { e.sources.Stop() }

// Decode returns the next event that the client need know. The end of the source's watch is the
// end of this one.
func (e *events[S, T]) Decode() (watch.EventType, runtime.Object, error) {
	for ev := range e.sources.ResultChan() {
		switch {
		case ev.Type == watch.Error && apierrors.HasStatusCause(apierrors.FromObject(ev.Object), "ClientWatchDecoding"):
			return "", nil, io.EOF // the connection has ended
		case ev.Type == watch.Error:
			return ev.Type, ev.Object, nil
		}
		source := e.source(ev.Object)
		if ev.Type == watch.Bookmark {
			m := &metav1.ObjectMeta{ResourceVersion: source.GetResourceVersion(), Annotations: source.GetAnnotations()}
			return ev.Type, e.named(map[string]any{}, m), nil
		}
		if kind, object := e.change(ev.Type, source); kind != "" {
			return kind, object, nil
		}
	}
	return "", nil, io.EOF
}

// change makes the event of a view, or none. A view may appear and disappear while its source
// changes. If the watch has not seen the source before, it may report that something
// disappeared that was not there; clients ignore that. Such an event tells which object has
// disappeared, and nothing else of it: the client may never have been shown it.
func (e *events[S, T]) change(kind watch.EventType, source object) (watch.EventType, runtime.Object) {
	key := kube.KeyOf(source)
	wasHidden := e.hidden[key]
	delete(e.hidden, key)
	u, err := e.view(source, e.predicate)
	if err != nil {
		return watch.Error, &apierrors.NewInternalError(err).ErrStatus
	}
	shown := u != nil && kind != watch.Deleted
	if u == nil {
		u = e.named(map[string]any{}, e.identity(source))
		if kind != watch.Deleted {
			e.hidden[key] = true
		}
	}
	switch {
	case shown && wasHidden:
		kind = watch.Added
	case shown:
	case wasHidden || kind == watch.Added:
		return "", nil
	default:
		kind = watch.Deleted
	}
	return kind, u
}
