package pod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pintle-go/pintle/kube"
	"k8s.io/apimachinery/pkg/util/httpstream"                     //nolint:staticcheck // client-go v0.36 asks for these types
	httpstreamspdy "k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // the same
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
)

// PortForwardOptions tells where to listen. The zero value listens on a free port.
type PortForwardOptions struct {
	// Local is the port of the loopback interface to listen on. 0: a free port. Its counterpart
	// is Local of client-go's portforward.ForwardedPort.
	Local int
	// Ready, if it is set, is called with the local port once PortForward listens.
	Ready func(local int)
}

// PortForward forwards connections from a local port to a port of a pod. It returns nil
// when ctx ends, once it has stopped listening and has cut its connections. It returns an
// error if it cannot begin or loses its connection to the pod. If the pod refuses a
// single connection, that connection is closed and klog logs it. The counterparts are
// portforward of client-go and Api::portforward of kube-rs.
func PortForward[T any](ctx context.Context, pods kube.Handle[T], name string, port int, o PortForwardOptions) error {
	at, err := kube.Locate(ctx, pods, "forward port of", name, "portforward")
	if err != nil {
		return err
	}
	if port < 1 || port > 65535 || o.Local < 0 || o.Local > 65535 {
		return at.Wrap(fmt.Errorf("from %d to %d: ports are between 1 and 65535", o.Local, port))
	}
	d := &dialer{ctx: ctx, at: at}
	ready := make(chan struct{})
	var trouble bytes.Buffer // the reason why it does not listen
	forwarder, err := portforward.NewOnAddresses(d, []string{"127.0.0.1"}, []string{fmt.Sprintf("%d:%d", o.Local, port)},
		ctx.Done(), ready, io.Discard, &trouble)
	if err != nil {
		return at.Wrap(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
		if o.Ready != nil {
			ports, err := forwarder.GetPorts()
			if err == nil {
				o.Ready(int(ports[0].Local))
			}
		}
		err = <-ended
	case err = <-ended:
	}
	switch {
	case ctx.Err() != nil || err == nil:
		return nil //nolint:nilerr // the end of ctx is how it is meant to end
	case d.err != nil: // client-go keeps only its text
		err = d.err
	case trouble.Len() > 0:
		err = errors.New(strings.TrimSpace(trouble.String()))
	}
	return at.Wrap(err)
}

// dialer is client-go's tunnel of SPDY in a websocket, with plain SPDY as the fallback.
// It differs from client-go's dialer only by its context.
type dialer struct {
	ctx context.Context //nolint:containedctx // client-go's Dial has none, and one dialer serves one call
	at  *kube.Location
	err error
}

func (d *dialer) Dial(protocols ...string) (conn httpstream.Connection, protocol string, err error) {
	err = fallback(
		func() (err error) { conn, protocol, err = d.tunnel(protocols); return err },
		func() (err error) { conn, protocol, err = d.spdy(protocols); return err },
	)
	d.err = err
	return conn, protocol, err
}

func (d *dialer) tunnel(protocols []string) (httpstream.Connection, string, error) {
	transport, holder, err := websocket.RoundTripperFor(d.at.Config)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(d.ctx, http.MethodGet, d.at.URL.String(), nil)
	if err != nil {
		return nil, "", err
	}
	tunnelled := make([]string, len(protocols))
	for i, p := range protocols {
		tunnelled[i] = constants.WebsocketsSPDYTunnelingPrefix + p
	}
	ws, err := websocket.Negotiate(transport, holder, req, tunnelled...)
	if err != nil {
		return nil, "", err
	}
	conn, err := httpstreamspdy.NewClientConnectionWithPings(portforward.NewTunnelingConnection("client", ws),
		portforward.PingPeriod)
	return conn, strings.TrimPrefix(ws.Subprotocol(), constants.WebsocketsSPDYTunnelingPrefix), err
}

func (d *dialer) spdy(protocols []string) (httpstream.Connection, string, error) {
	transport, upgrader, err := spdy.RoundTripperFor(d.at.Config)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(d.ctx, http.MethodPost, d.at.URL.String(), nil)
	if err != nil {
		return nil, "", err
	}
	return spdy.Negotiate(upgrader, &http.Client{Transport: transport}, req, protocols...)
}
