package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Subresource reads and writes a part of objects that has a path and a type of its own,
// such as scale. Its counterpart is SubResourceClient of controller-runtime.
type Subresource[S any] struct {
	handle *handle
	name   string
}

// Sub returns a handle for a subresource, named as in its URL:
//
//	scales := kube.Sub[autoscalingv1.Scale](deployments, "scale")
//	tokens := kube.Sub[authenticationv1.TokenRequest](serviceAccounts, "token")
//
// S is the type of the subresource's requests and answers. It may be of another group
// than the objects. It is sent and received as JSON. The counterpart is
// Client.SubResource of controller-runtime.
func Sub[S, T any](of Handle[T], name string) Subresource[S] {
	return Subresource[S]{of.base(), name}
}

// Get reads the subresource of an object.
func (s Subresource[S]) Get(ctx context.Context, name string) (*S, error) {
	return s.exchange(ctx, "get", http.MethodGet, name, "", nil)
}

// Create posts to the subresource of an object, as eviction, binding and token require,
// and returns the answer.
func (s Subresource[S]) Create(ctx context.Context, name string, o *S) (*S, error) {
	return s.send(ctx, "create", http.MethodPost, name, o)
}

// Update replaces the subresource of an object.
func (s Subresource[S]) Update(ctx context.Context, name string, o *S) (*S, error) {
	return s.send(ctx, "update", http.MethodPut, name, o)
}

// Patch changes the subresource of an object; see [View.Patch].
func (s Subresource[S]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte) (*S, error) {
	return s.exchange(ctx, "patch", http.MethodPatch, name, string(kind), patch)
}

func (s Subresource[S]) send(ctx context.Context, verb, method, name string, o *S) (*S, error) {
	s.handle = s.handle.orNone()
	if o == nil {
		return nil, &Error{Verb: verb, Kind: s.handle.kindName() + "/" + s.name, Name: name, Err: errNoObject}
	}
	// Servers need apiVersion and kind, which values of the types of k8s.io/api do not
	// carry by themselves.
	if acc, ok := any(o).(object); ok {
		if kind, err := (Kind{}).identify(reflect.TypeFor[S]()); err == nil {
			acc.GetObjectKind().SetGroupVersionKind(kind.GVK)
		}
	}
	body, err := wire.EncodeJSON(o)
	if err != nil {
		return nil, &Error{Verb: verb, Kind: s.handle.kindName() + "/" + s.name, Name: name, Err: err}
	}
	return s.exchange(ctx, verb, method, name, wire.TypeJSON, body)
}

func (s Subresource[S]) exchange(ctx context.Context, verb, method, name, contentType string, body []byte) (*S, error) {
	s.handle = s.handle.orNone()
	req, err := s.handle.part(ctx, verb, method, name, s.name)
	if err != nil {
		return nil, err
	}
	req.accept, req.contentType, req.body = wire.TypeJSON, contentType, body
	if method != http.MethodGet {
		req.query = s.handle.writeQuery()
		if contentType == string(types.ApplyYAMLPatchType) && !s.handle.write.NoForce {
			req.query.Set("force", "true")
		}
	}
	if method == http.MethodGet || s.handle.write.DryRun {
		return s.ask(ctx, req)
	}
	var o *S
	err = s.handle.client.stores.executing(req.resource, Key{req.namespace, req.name}, func() (err error) {
		o, err = s.ask(ctx, req)
		return err
	})
	s.wrote(ctx, req, o, err)
	return o, err
}

// ask sends a request and returns the answer.
func (s Subresource[S]) ask(ctx context.Context, req *request) (*S, error) {
	answer, _, err := s.handle.client.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	o := new(S)
	if status, ok := wire.DecodeStatus(answer); ok && reflect.TypeFor[S]() != reflect.TypeFor[metav1.Status]() {
		if status.Status == metav1.StatusFailure {
			return nil, req.wrap(wire.StatusError(status))
		}
		return o, nil // the server answers evictions and bindings with success, not with an S
	}
	if err := json.Unmarshal(answer, o, jsonfields.ReadOptions(reflect.TypeFor[S]())); err != nil {
		return nil, req.wrap(err)
	}
	return o, nil
}

// wrote tells the stores of the objects, and the recorder, that an object was written
// through the subresource. So later reads of the stores are not stale.
func (s Subresource[S]) wrote(ctx context.Context, req *request, answer *S, err error) {
	stores, key := &s.handle.client.stores, Key{req.namespace, req.name}
	if err != nil {
		stores.lost(req.resource, key, err)
		return
	}
	// A scale or a status has the identity and the version of the object that it belongs
	// to.
	if o, ok := any(answer).(object); ok && o.GetUID() != "" && o.GetResourceVersion() != "" {
		stores.wrotePart(req.resource, o)
		confirmed(ctx, o)
		return
	}
	// The write was successful, but the answer has no version. A new token of a
	// ServiceAccount leaves the ServiceAccount as it is.
	if s.name != "token" {
		stores.unsure(req.resource, key)
	}
}

// part prepares a request for a subresource of an object.
func (h *handle) part(ctx context.Context, verb, method, name, subresource string) (*request, error) {
	req, err := h.one(ctx, verb, method, name)
	if err != nil {
		return nil, err
	}
	req.subresource = subresource
	for segment := range strings.SplitSeq(subresource, "/") { // pods/proxy has a path behind it
		if segment == "" || !validName(segment) {
			return nil, req.wrap(fmt.Errorf("%q cannot be a subresource", subresource))
		}
	}
	return req, nil
}

// Stream reads a subresource that is not an object, such as a pod's log, until the caller
// closes it or ctx ends. The client's transport neither limits nor repeats the request.
// Its counterpart is Stream of client-go's rest.Request.
func Stream[T any](
	ctx context.Context, of Handle[T], name, subresource string, query url.Values,
) (io.ReadCloser, error) {
	h := of.base()
	req, err := h.part(ctx, "get", http.MethodGet, name, subresource)
	if err != nil {
		return nil, err
	}
	req.query, req.accept, req.once = query, "*/*", true
	resp, err := h.client.do(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Location tells where a subresource of an object is served.
type Location struct {
	URL *url.URL
	// Config tells how to connect. The caller of Locate owns it and may change it.
	Config *rest.Config

	request *request
}

// Locate finds a subresource for protocols that are no HTTP requests, such as those of
// exec and port-forward, and for proxy, which has paths of its own. The verb is for the
// errors of [Location.Wrap].
func Locate[T any](ctx context.Context, of Handle[T], verb, name, subresource string) (*Location, error) {
	h := of.base()
	req, err := h.part(ctx, verb, "", name, subresource)
	if err != nil {
		return nil, err
	}
	u := h.client.base.JoinPath(req.resource.path(req.namespace, name, subresource))
	return &Location{u, h.client.Config().Rest, req}, nil
}

// Wrap returns err as an [Error] that names the operation and the object.
func (l *Location) Wrap(err error) error {
	return l.request.wrap(unreachable(err, l.URL))
}
