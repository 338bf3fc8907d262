package pod

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/gorilla/websocket"
	"github.com/pintle-go/pintle/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/transport/spdy"
	wstransport "k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
)

// fallback tries a websocket. If the server or a proxy did not make one, it tries SPDY. A
// user who may create pods/exec but not get it is refused only the websocket. The result
// is closed if ctx ends first, because client-go's SPDY transport does not heed a context.
func fallback[C io.Closer](ctx context.Context, webSocket, spdy func() (C, error)) (C, error) {
	made, failed := make(chan C), make(chan error, 1)
	go func() {
		c, err := choose(webSocket, spdy)
		if err != nil {
			failed <- err
			return
		}
		select {
		case made <- c:
		case <-ctx.Done():
			_ = c.Close() // nobody waits for it
		}
	}()
	var none C
	select {
	case c := <-made:
		return c, nil
	case err := <-failed:
		return none, err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

func choose[C io.Closer](webSocket, spdy func() (C, error)) (C, error) {
	c, err := webSocket()
	var refused *httpstream.UpgradeFailureError
	switch {
	case err == nil:
		return c, nil
	case errors.As(err, &refused):
		err = refused.Cause
	case !httpstream.IsHTTPSProxyError(err):
		return c, err
	}
	if apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) {
		return c, err
	}
	c, again := spdy()
	var status apierrors.APIStatus
	if again != nil && errors.As(err, &status) {
		// The server says the same to both, but client-go keeps only the text of the SPDY
		// answer.
		return c, err
	}
	return c, again
}

func dialWebSocket(ctx context.Context, at *kube.Location, protocol string) (*websocket.Conn, error) {
	transport, holder, err := wstransport.RoundTripperFor(at.Config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	return wstransport.Negotiate(transport, holder, req, protocol)
}

func dialSPDY(ctx context.Context, at *kube.Location, protocol string) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(at.Config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, got, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, req, protocol)
	if err == nil && got != protocol {
		_ = conn.Close() // it was of no use
		return nil, errors.New("the server speaks SPDY, but not " + protocol)
	}
	return conn, err
}
