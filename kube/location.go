package kube

import (
	"context"
	"net/url"

	"k8s.io/client-go/rest"
)

// Location is where a subresource of an object is served.
type Location struct {
	URL *url.URL
	// Config says how to connect. It is the caller's own to change.
	Config *rest.Config

	request *request
}

// Locate finds a subresource for protocols that are no HTTP requests, such as
// those of exec and port-forward. The verb is for the errors of [Location.Wrap].
func Locate[T any](ctx context.Context, of Handle[T], verb, name, subresource string) (*Location, error) {
	h := of.base()
	req, err := h.part(ctx, verb, "", name, subresource)
	if err != nil {
		return nil, err
	}
	u := h.client.base.JoinPath(req.resource.path(req.namespace, name, subresource))
	return &Location{u, h.client.Config().Rest, req}, nil
}

// Wrap returns err as an [Error] that says what was being done to which object.
func (l *Location) Wrap(err error) error {
	return l.request.wrap(unreachable(err, l.URL))
}
