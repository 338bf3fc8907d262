package aggregate

import (
	"context"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	json "github.com/go-json-experiment/json/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// source reads the objects of a kind as kube-apiserver sends them: unlike package kube it
// recovers from nothing, because the client does that.
type source struct {
	client *rest.RESTClient
	kind   kube.Kind
}

// query holds the parameters of a request. Empty ones are not sent.
type query map[string]string

func openSource(client *kube.Client, kind kube.Kind) (*source, error) {
	config := rest.CopyConfig(client.Config().Rest)
	config.QPS = -1
	config.Timeout = 0 // watches
	config.AcceptContentTypes, config.ContentType = "application/json", "application/json"
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &source{c, kind}, nil
}

// request prepares a request for one object, or for those in a namespace, or for all.
func (s *source) request(namespace, name string, q query) *rest.Request {
	steps := []string{"apis", s.kind.Group, s.kind.Version}
	if s.kind.Group == "" {
		steps = []string{"api", s.kind.Version}
	}
	if namespace != "" && s.kind.Scope == kube.Namespaced {
		steps = append(steps, "namespaces", namespace)
	}
	steps = append(steps, s.kind.Plural)
	if name != "" {
		steps = append(steps, name)
	}
	r := s.client.Get().AbsPath(steps...)
	for key, value := range q {
		if value != "" {
			r.Param(key, value)
		}
	}
	return r
}

// get reads an object or a list.
func (s *source) get(ctx context.Context, namespace, name string, q query, into any) error {
	data, err := s.request(namespace, name, q).Do(ctx).Raw()
	if err != nil {
		return s.explain(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", s.kind.Plural, err)
	}
	return nil
}

// explain returns an error for the client of a view. The client can do something about an
// expired version, a bad token for a page or a busy server, and nothing about the rights of this
// program.
func (s *source) explain(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return apierrors.NewInternalError(fmt.Errorf("read %s: %w", s.kind.Plural, err))
	}
	return err
}

func isMissing(err error) bool { return apierrors.IsNotFound(err) }

// Watch passes on the events of sources: an event of a source is an event of its view.
func (v *views[S, T]) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	q, none := v.query(key, o)
	if none {
		// No source can match. The watch of a name that is no name brings bookmarks only.
		q = query{"resourceVersion": o.ResourceVersion, "fieldSelector": "metadata.name=-"}
	}
	q["watch"] = "true"
	if o.Predicate.AllowWatchBookmarks {
		q["allowWatchBookmarks"] = "true"
	}
	if o.SendInitialEvents != nil {
		q["sendInitialEvents"] = fmt.Sprint(*o.SendInitialEvents)
		q["resourceVersionMatch"] = string(metav1.ResourceVersionMatchNotOlderThan)
	}
	ctx, stop := context.WithCancel(ctx)
	stream, err := v.from.request(request.NamespaceValue(ctx), "", q).Stream(ctx)
	if err != nil {
		stop()
		return nil, v.from.explain(err)
	}
	w := &watcher[S, T]{views: v, predicate: o.Predicate, hidden: map[kube.Key]bool{}, events: make(chan watch.Event), stop: stop}
	go w.run(ctx, stream)
	return w, nil
}

// watcher is a watch of views.
type watcher[S, T any] struct {
	views     *views[S, T]
	predicate storage.SelectionPredicate
	// hidden holds sources that are known to have no view that the client asked for.
	hidden map[kube.Key]bool
	events chan watch.Event
	stop   context.CancelFunc
}

// Stop ends the watch.
func (w *watcher[S, T]) Stop() { w.stop() }

// ResultChan yields the events. It is closed when the source has no more.
func (w *watcher[S, T]) ResultChan() <-chan watch.Event { return w.events }

// run passes on events until the source ends or the client stops.
func (w *watcher[S, T]) run(ctx context.Context, stream io.ReadCloser) {
	defer close(w.events)
	defer stream.Close()
	defer w.stop()
	frames := jsontext.NewDecoder(stream)
	for {
		frame, err := frames.ReadValue()
		if err != nil {
			return // the end of the source's watch is the end of this one
		}
		ev, err := w.event(frame)
		if err != nil {
			ev = &watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}
		}
		if ev == nil {
			continue
		}
		select {
		case w.events <- *ev:
		case <-ctx.Done():
			return
		}
	}
}

// event makes an event of a view from that of its source. It returns nil if the client
// need not know.
func (w *watcher[S, T]) event(frame []byte) (*watch.Event, error) {
	var raw struct {
		Type   watch.EventType `json:"type"`
		Object jsontext.Value  `json:"object"`
	}
	if err := json.Unmarshal(frame, &raw); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	switch raw.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		of := new(S)
		if err := json.Unmarshal(raw.Object, of); err != nil {
			return nil, fmt.Errorf("decode %s: %w", w.views.from.kind.Kind, err)
		}
		return w.change(raw.Type, of)
	case watch.Bookmark:
		mark := &unstructured.Unstructured{Object: map[string]any{}}
		var of struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := json.Unmarshal(raw.Object, &of); err != nil {
			return nil, fmt.Errorf("decode bookmark: %w", err)
		}
		mark.SetGroupVersionKind(w.views.gvk)
		mark.SetResourceVersion(of.Metadata.ResourceVersion)
		mark.SetAnnotations(of.Metadata.Annotations)
		return &watch.Event{Type: watch.Bookmark, Object: mark}, nil
	case watch.Error:
		status := new(metav1.Status)
		if err := json.Unmarshal(raw.Object, status); err != nil {
			return nil, fmt.Errorf("decode error: %w", err)
		}
		return &watch.Event{Type: watch.Error, Object: status}, nil
	}
	return nil, fmt.Errorf("unknown type of event %q", raw.Type)
}

// change makes the event of a view. A view may appear and disappear while its source
// changes. If the watch has not seen the source before, it may report that something
// disappeared that was not there; clients ignore that.
func (w *watcher[S, T]) change(kind watch.EventType, of *S) (*watch.Event, error) {
	key := kube.KeyOf(any(of).(metav1.Object))
	wasHidden := w.hidden[key]
	delete(w.hidden, key)
	u, err := w.views.view(of)
	if err != nil {
		return nil, err
	}
	shown, err := matches(u, w.predicate)
	if err != nil {
		return nil, err
	}
	if u == nil {
		u = w.views.bare(of)
	}
	switch {
	case kind == watch.Deleted && wasHidden:
		return nil, nil
	case kind == watch.Deleted:
	case shown && wasHidden:
		kind = watch.Added
	case shown:
	case kind == watch.Added || wasHidden:
		w.hidden[key] = true
		return nil, nil
	default:
		w.hidden[key] = true
		kind = watch.Deleted
	}
	return &watch.Event{Type: kind, Object: u}, nil
}
