package pod_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
)

// relayed is one forwarded connection as the kubelet sees it.
type relayed struct{ data, trouble httpstream.Stream }

// kubelet serves forwarded connections, in a websocket or by SPDY, until lose is closed.
func kubelet(t *testing.T, webSocket bool, lose <-chan bool, serve func(c relayed)) kube.Resource[corev1.Pod] {
	t.Helper()
	pair := func(s session) {
		half := map[string]httpstream.Stream{}
		for {
			select {
			case <-s.CloseChan():
				return
			case <-lose:
				s.conn.Close() // without a word
				<-s.CloseChan()
				return
			case stream := <-s.streams:
				id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
				other := half[id]
				if other == nil {
					half[id] = stream
					continue
				}
				c := relayed{stream, other}
				if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
					c = relayed{other, stream}
				}
				go func() {
					serve(c)
					_ = c.data.Close()
					_ = c.trouble.Close()
				}()
			}
		}
	}
	if !webSocket {
		return spdyOnly(t, portforward.PortForwardProtocolV1Name, pair)
	}
	up := websocket.Upgrader{Subprotocols: []string{"SPDY/3.1+" + portforward.PortForwardProtocolV1Name}}
	return played(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		s := session{conn: ws.NetConn(), streams: make(chan httpstream.Stream, 100)}
		s.Connection, err = spdy.NewServerConnection(portforward.NewTunnelingConnection("server", ws),
			func(stream httpstream.Stream, _ <-chan struct{}) error {
				s.streams <- stream
				return nil
			})
		if err != nil {
			t.Error(err)
			return
		}
		pair(s)
		s.end()
	})
}

// forward runs PortForward and returns how to connect, how to end it, and its error.
func forward(t *testing.T, pods kube.Resource[corev1.Pod]) (dial func() *net.TCPConn, stop func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	port, done := make(chan int, 1), make(chan error, 1)
	go func() {
		done <- pod.PortForward(ctx, pods, "p", 80, pod.PortForwardOptions{Ready: func(p int) { port <- p }})
	}()
	select {
	case p := <-port:
		return func() *net.TCPConn {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if err != nil {
				t.Fatalf("it listens no more: %v", err)
			}
			t.Cleanup(func() { c.Close() })
			return c.(*net.TCPConn)
		}, cancel, done
	case err := <-done:
		t.Fatal(err)
	}
	return nil, nil, nil
}

func echo(c relayed) { _, _ = io.Copy(c.data, c.data) }

// TestForwardParallel sends much through many connections, each to its end.
func TestForwardParallel(t *testing.T) {
	for _, webSocket := range []bool{true, false} {
		dial, stop, ended := forward(t, kubelet(t, webSocket, nil, echo))
		var all sync.WaitGroup
		for i := range 30 {
			c := dial()
			all.Go(func() {
				text := strings.Repeat(fmt.Sprint(i), 50_000)
				go func() {
					write(c, text)
					_ = c.CloseWrite()
				}()
				if got, err := io.ReadAll(c); err != nil || string(got) != text {
					t.Errorf("%d: %v, %d of %d bytes came back", i, err, len(got), len(text))
				}
			})
		}
		all.Wait()
		open := dial()
		write(open, "x")
		if _, err := io.ReadFull(open, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended by its context: %v", err)
		}
		if _, err := open.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the open connection: %v", err)
		}
		if c, err := net.Dial("tcp", open.RemoteAddr().String()); err == nil {
			c.Close()
			t.Error("it still listens")
		}
	}
}

// TestForwardRefused has a pod that refuses some connections.
func TestForwardRefused(t *testing.T) {
	for _, webSocket := range []bool{true, false} {
		var mu sync.Mutex
		refuse := 3
		dial, stop, ended := forward(t, kubelet(t, webSocket, nil, func(c relayed) {
			mu.Lock()
			refuse--
			refused := refuse >= 0
			mu.Unlock()
			if refused {
				write(c.trouble, "dial tcp4 127.0.0.1:80: connect: connection refused")
				return
			}
			echo(c)
		}))
		for range 3 {
			if _, err := dial().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a refused connection: %v", err)
			}
		}
		c := dial()
		write(c, "x")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("the next connection: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended by its context: %v", err)
		}
	}
}

// TestForwardLost loses the tunnel in the middle of an answer.
func TestForwardLost(t *testing.T) {
	for _, webSocket := range []bool{true, false} {
		lose := make(chan bool)
		dial, _, ended := forward(t, kubelet(t, webSocket, lose, func(c relayed) {
			write(c.data, halfLine)
			_, _ = io.Copy(io.Discard, c.data) // until it is lost
		}))
		c := dial()
		if _, err := io.ReadFull(c, make([]byte, len(halfLine))); err != nil {
			t.Fatal(err)
		}
		close(lose)
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("half an answer ended with %d bytes, %v", n, err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "lost connection to pod") {
			t.Errorf("got error %v", err)
		}
	}
}
