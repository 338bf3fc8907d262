package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// Get reads an object from the server. If the kind is namespaced, the handle must be
// narrowed to the object's namespace. Its counterparts are Get of controller-runtime's
// client.Reader and Api::get of kube-rs.
//
// An object that the handle's selectors do not match is not found, as in a store. Get looks
// at the fields that the answer shows.
func (r Reader[T]) Get(ctx context.Context, name string) (*T, error) {
	o := new(T)
	return result(o, r.base().get(ctx, name, asObject(o)))
}

func (h *handle) get(ctx context.Context, name string, answer object) error {
	req, err := h.one(ctx, "get", http.MethodGet, name)
	if err != nil {
		return err
	}
	if _, err := h.exchange(ctx, req, answer); err != nil {
		return err
	}
	if err := h.selected(req.resource, answer); err != nil {
		return req.wrap(err)
	}
	return nil
}

// selected returns the error NotFound for an object that the handle's selectors do not match.
func (h *handle) selected(kind Kind, o object) error {
	if excludes, _ := h.selector.excludes(o); h.selector.fits(o) && !excludes {
		return nil
	}
	return apierrors.NewNotFound(kind.groupResource(), o.GetName())
}

// exchange sends a request and decodes the object in the answer. It also returns that object as
// it was encoded.
func (h *handle) exchange(ctx context.Context, req *request, answer object) (raw wire.Raw, err error) {
	body, contentType, err := h.client.roundTrip(ctx, req)
	if err != nil {
		return raw, err
	}
	reflect.ValueOf(answer).Elem().SetZero() // it may hold the answer to an earlier request
	if err := h.decodeAnswer(req, contentType, body, answer); err != nil {
		return raw, req.wrap(err)
	}
	raw, _ = wire.Unwrap(contentType, body) // it was decoded
	return raw, nil
}

// decodeAnswer decodes the answer to a request for one object. An object of another kind,
// name or namespace is an error: a proxy or a cache between the server and the program may
// answer with what belongs to another request.
func (h *handle) decodeAnswer(req *request, contentType string, body []byte, answer object) error {
	if err := h.codec.DecodeAnswer(contentType, body, answer); err != nil {
		return err
	}
	name, namespace := answer.GetName(), answer.GetNamespace()
	switch {
	case name == "" && (req.method == http.MethodGet || req.method == http.MethodPut || req.method == http.MethodPatch):
		return fmt.Errorf("%w: an object without a name", wire.ErrAnswer)
	case name != "" && req.name != "" && name != req.name, // the server makes a name if none is given
		namespace != "" && namespace != req.namespace: // kinds that are not stored may have none
		return fmt.Errorf("%w: the object is %s", wire.ErrAnswer, KeyOf(answer))
	}
	return nil
}

// List yields the objects of the handle. It reads them from the server page by page as
// the loop goes on, and holds one page, of 500 objects. If the handle has several
// namespaces, List reads one after the other. Its counterparts are List of
// controller-runtime's client.Reader and ListPager of client-go.
//
// The objects of a namespace are of one moment, unless the loop takes so long (minutes)
// that the server's history of that moment ends. Then the rest of the objects is of a
// later moment. No object is yielded twice. An error ends the sequence. An object that
// does not decode is yielded with its error, and the sequence goes on.
func (r Reader[T]) List(ctx context.Context) iter.Seq2[*T, error] {
	return typedSeq[T](r.base().listAll(ctx))
}

func (h *handle) listAll(ctx context.Context) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		for ns := range h.eachNamespace() {
			if _, ok := h.list(ctx, ns, yield); !ok {
				return
			}
		}
	}
}

// eachNamespace yields the namespaces of the handle, or "" for all.
func (h *handle) eachNamespace() iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(h.namespaces) == 0 {
			yield("")
			return
		}
		for _, ns := range h.namespaces {
			if !yield(ns) {
				return
			}
		}
	}
}

// list yields the objects in a namespace. It returns the resource version of the first
// page, and false if the loop has to end.
func (h *handle) list(ctx context.Context, namespace string, yield func(object, error) bool) (rv string, ok bool) {
	req, err := h.request(ctx, "list", http.MethodGet, namespace)
	if err != nil {
		yield(nil, err)
		return "", false
	}
	req.accept = h.codec.Accept(wire.AList)
	req.query = url.Values{"limit": {strconv.Itoa(pageSize)}}
	h.selector.set(req.query)
	var pages pages
	for {
		var first Key
		objects := 0
		meta, ok := h.listPage(ctx, req, func(o object, err error) bool {
			if objects++; first == (Key{}) && o != nil {
				first = KeyOf(o)
			}
			if err == nil && !h.selector.fits(o) { // the server ignores selectors
				return true
			}
			return yield(o, err)
		})
		rv = cmp.Or(rv, meta.ResourceVersion)
		switch {
		case !ok:
			return "", false
		case meta.Continue == "":
			return rv, true
		}
		if err := pages.goOn(meta.Continue, first, objects); err != nil {
			yield(nil, req.wrap(err))
			return "", false
		}
		req.query.Set("continue", meta.Continue)
	}
}

// listPage yields the objects of one page and returns the metadata of the page. It
// reads the whole page first: the server cuts off a client that takes longer than a
// minute, and a loop may take that long.
func (h *handle) listPage(
	ctx context.Context, req *request, yield func(object, error) bool,
) (meta metav1.ListMeta, ok bool) {
	body, contentType, err := h.client.fetchPage(ctx, req)
	if err != nil {
		yield(nil, err)
		return meta, false
	}
	left := false
	each := func(item wire.Raw) error {
		if err := h.codec.CheckItem(item); err != nil {
			return err
		}
		o := h.newObject()
		err := h.codec.Decode(item, o)
		switch is := o.GetNamespace(); {
		case is != "" && req.namespace != "" && is != req.namespace:
			return fmt.Errorf("%w: the object is %s", wire.ErrAnswer, KeyOf(o))
		case err == nil && o.GetName() == "":
			err = req.wrap(fmt.Errorf("%w: an object without a name", wire.ErrAnswer))
		case err != nil:
			err = req.wrap(err)
		}
		if !yield(o, err) {
			left = true
			return errLeft
		}
		return nil
	}
	read := wire.ListReader{Codec: h.codec, MaxBytes: h.client.maxObject, Each: each}
	meta, err = read.Read(contentType, bytes.NewReader(body))
	switch {
	case left:
		return meta, false
	case err != nil:
		yield(nil, req.wrap(err))
		return meta, false
	}
	return meta, true
}

// fetchPage returns the whole body of a page. If the page's token has expired, the server
// offers to go on from the last key, at a later moment, and fetchPage takes the offer. The
// bound of an answer is meant for one object: if a page is over it, fetchPage asks for half
// as many objects, at last for one.
func (c *Client) fetchPage(ctx context.Context, req *request) (body []byte, contentType string, err error) {
	offered := false
	for {
		body, contentType, err = c.roundTrip(ctx, req)
		limit, _ := strconv.Atoi(req.query.Get("limit")) // it is set by this program
		status, expired := expiredPage(err)
		switch {
		case expired && status.Continue != "" && !offered:
			offered = true
			req.query.Set("continue", status.Continue)
		case errors.Is(err, wire.ErrTooLarge) && limit > 1:
			req.query.Set("limit", strconv.Itoa(limit/2))
		default:
			return body, contentType, err
		}
	}
}

// expiredPage reports that a continue token expired. It also returns the metadata of the
// server's answer.
func expiredPage(err error) (metav1.ListMeta, bool) {
	var status apierrors.APIStatus
	if !isExpired(err) || !errors.As(err, &status) {
		return metav1.ListMeta{}, false
	}
	return status.Status().ListMeta, true
}

// request prepares a request for the objects in a namespace, "" for all.
func (h *handle) request(ctx context.Context, verb, method, namespace string) (*request, error) {
	return h.requestFor(ctx, verb, method, Key{Namespace: namespace})
}

// requestFor prepares a request for an object, or for all objects in a namespace.
func (h *handle) requestFor(ctx context.Context, verb, method string, key Key) (*request, error) {
	return h.requestThat(ctx, verb, method, key, func(Kind) error { return nil })
}

// requestThat is requestFor with a further test of the kind's scope.
func (h *handle) requestThat(
	ctx context.Context, verb, method string, key Key, fits func(Kind) error,
) (*request, error) {
	namespace := key.Namespace
	req := &request{verb: verb, method: method, resource: h.kind, namespace: namespace, name: key.Name}
	req.resource.Kind = h.kindName()
	switch {
	case h.err != nil:
		return nil, req.wrap(h.err)
	case h.client == nil:
		return nil, req.wrap(errNoHandle)
	case !validName(namespace):
		return nil, req.wrap(fmt.Errorf("%q cannot be a namespace", namespace))
	}
	if err := h.checkManager(method); err != nil {
		return nil, req.wrap(err)
	}
	kind, err := h.client.discovery.resolveFor(ctx, h.kind, func(kind Kind) error {
		return cmp.Or(inScope(kind, namespace), fits(kind))
	})
	if err != nil {
		return nil, req.wrap(err)
	}
	req.resource = kind
	req.accept = h.codec.Accept(wire.OneObject)
	return req, nil
}

// one prepares a request for an object by name.
func (h *handle) one(ctx context.Context, verb, method, name string) (*request, error) {
	namespace := h.namespace()
	req, err := h.requestThat(ctx, verb, method, Key{namespace, name}, h.single)
	if err != nil {
		return nil, err
	}
	switch {
	case name == "":
		return nil, req.wrap(errors.New("no name is given"))
	case !validName(name):
		return nil, req.wrap(fmt.Errorf("%q cannot be a name", name))
	}
	return req, nil
}

// single returns an error if the handle does not tell in which namespace one object is.
func (h *handle) single(kind Kind) error {
	switch {
	case len(h.namespaces) > 1:
		return fmt.Errorf("%w: one object is in one namespace, the handle is in %d", ErrScope, len(h.namespaces))
	case len(h.namespaces) == 0 && kind.Scope == Namespaced:
		return fmt.Errorf("%w: %s is namespaced: set the namespace with In", ErrScope, kind.Kind)
	}
	return nil
}

// errNoHandle: kinds of handles are structs, so a program can make a zero one.
var errNoHandle = errors.New("the handle is a zero value: make it with For or ViewOf")

// validName refuses names that would change the path of the request's URL.
func validName(name string) bool {
	return name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}
