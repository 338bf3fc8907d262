package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
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
// single connection, it is closed, klog logs it, and the others go on. A connection that is
// cut is reset, so that its local program does not take a part of the data for all of it. The
// counterparts are portforward of client-go and Api::portforward of kube-rs.
func PortForward[T any](ctx context.Context, pods kube.Handle[T], name string, port int, o PortForwardOptions) error {
	at, err := kube.Locate(ctx, pods, "forward port of", name, "portforward")
	if err != nil {
		return err
	}
	if port < 1 || port > 65535 || o.Local < 0 || o.Local > 65535 {
		return at.Wrap(fmt.Errorf("from %d to %d: ports are between 1 and 65535", o.Local, port))
	}
	tunnel, err := fallback(ctx,
		func() (httpstream.Connection, error) { return webSocketTunnel(ctx, at) },
		func() (httpstream.Connection, error) {
			return dialSPDY(ctx, at, portforward.PortForwardProtocolV1Name)
		},
	)
	if err == nil {
		err = (&forwarder{tunnel: tunnel, port: port}).run(ctx, o)
	}
	if err == nil || ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx is how it is meant to end
	}
	return at.Wrap(err)
}

// webSocketTunnel opens a tunnel of SPDY in a websocket. It differs from client-go's dialer
// only by its context.
func webSocketTunnel(ctx context.Context, at *kube.Location) (httpstream.Connection, error) {
	ws, err := dialWebSocket(ctx, at, constants.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	conn := quiet{portforward.NewTunnelingConnection("client", ws)}
	made, err := spdy.NewClientConnectionWithPings(conn, portforward.PingPeriod)
	return tunnel{made, conn}, err
}

// tunnel ends with its connection: SPDY alone would wait without end for the answer to a stream
// that begins, and for a peer that does not read.
type tunnel struct {
	httpstream.Connection
	conn net.Conn
}

func (t tunnel) Close() error {
	time.AfterFunc(closeDelay, func() { _ = t.conn.Close() })
	return t.Connection.Close()
}

// quiet closes without an error: SPDY would keep a goroutine for minutes to tell it.
type quiet struct{ net.Conn }

func (q quiet) Close() error {
	_ = q.Conn.Close()
	return nil
}

// forwarder differs from client-go's in the ends of connections: client-go ends all
// when the pod refuses one, and ends a connection that is cut like one that has ended.
type forwarder struct {
	tunnel httpstream.Connection
	port   int

	work sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
	over bool
}

var errLostPod = errors.New("lost connection to pod")

func (f *forwarder) run(ctx context.Context, o PortForwardOptions) error {
	defer f.end()
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Local)))
	if err != nil {
		return err
	}
	defer listener.Close()
	if o.Ready != nil {
		o.Ready(listener.Addr().(*net.TCPAddr).Port)
	}
	failed := make(chan error, 1)
	go func() { failed <- f.accept(ctx, listener) }()
	select {
	case <-ctx.Done():
		return nil
	case <-f.tunnel.CloseChan():
		return errLostPod
	case err := <-failed:
		return err
	}
}

// end cuts all connections. It waits at most a second, because client-go's SPDY waits for a peer
// that does not read.
func (f *forwarder) end() {
	f.mu.Lock()
	f.over = true
	for local := range f.open {
		reset(local)
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		_ = f.tunnel.Close() // nothing is left to be sent
		f.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeDelay):
	}
}

func (f *forwarder) accept(ctx context.Context, listener net.Listener) error {
	for id := 0; ; id++ {
		local, err := listener.Accept()
		if err != nil {
			return err
		}
		f.mu.Lock()
		if f.over {
			f.mu.Unlock()
			reset(local)
			return nil
		}
		if f.open == nil {
			f.open = map[net.Conn]bool{}
		}
		f.open[local] = true
		f.work.Add(1)
		f.mu.Unlock()
		go f.serve(ctx, local, id)
	}
}

func (f *forwarder) serve(ctx context.Context, local net.Conn, id int) {
	defer f.work.Done()
	received, err := f.relay(local, id)
	f.mu.Lock()
	delete(f.open, local)
	over := f.over
	f.mu.Unlock()
	if err == nil || received == 0 { // a reset may come before the local program has connected
		local.Close()
	} else {
		reset(local)
	}
	if err != nil && !over {
		utilruntime.HandleErrorWithContext(ctx, err, "A forwarded connection was cut", "port", f.port)
	}
}

func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0) // it is closed anyway
	conn.Close()
}

// relay moves a connection's bytes both ways until the pod's have ended.
func (f *forwarder) relay(local net.Conn, id int) (received int64, err error) {
	trouble, err := f.stream(corev1.StreamTypeError, id)
	if err != nil {
		return 0, err
	}
	defer f.tunnel.RemoveStreams(trouble)
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(trouble) // it ends without an error
		said <- string(text)
	}()
	_ = trouble.Close() // nothing is written to it
	data, err := f.stream(corev1.StreamTypeData, id)
	if err != nil {
		_ = trouble.Reset() // ends said
		return 0, err
	}
	defer f.tunnel.RemoveStreams(data)
	go func() {
		_, err := io.Copy(data, local)
		if err == nil {
			err = data.Close()
		}
		if err != nil {
			_ = data.Reset() // ends the copy below
		}
	}()
	received, err = io.Copy(local, data)
	// Data that still comes would hold up the other stream.
	_ = data.Reset()
	if text := <-said; text != "" {
		return received, errors.New(text)
	}
	select {
	case <-f.tunnel.CloseChan(): // all streams then end alike
		return received, errLostPod
	default:
		return received, err
	}
}

func (f *forwarder) stream(kind string, id int) (httpstream.Stream, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, kind)
	headers.Set(corev1.PortHeader, strconv.Itoa(f.port))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	return f.tunnel.CreateStream(headers)
}
