package pod_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/pintle-go/pintle/kube"
)

const (
	success  = `{"metadata":{},"status":"Success"}`
	exit7    = `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`
	stdin    = 0
	stdout   = 1
	stderr   = 2
	status   = 3
	resize   = 4
	closed   = 255
	halfLine = "half of the out"
)

// played connects to a server that plays the API server's part, and ends both with the test.
func played(t *testing.T, handler http.HandlerFunc) kube.Resource[corev1.Pod] {
	t.Helper()
	var running sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		handler(w, r)
	}))
	t.Cleanup(running.Wait)
	t.Cleanup(s.Close)
	client, err := kube.Config{Rest: &rest.Config{Host: s.URL}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kube.For[corev1.Pod](client).In("default")
}

// channels plays v5.channel.k8s.io in a websocket, which it ends as the API server does.
func channels(t *testing.T, command func(ws *websocket.Conn)) kube.Resource[corev1.Pod] {
	t.Helper()
	up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	return played(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		command(ws)
		_ = ws.WriteControl(websocket.CloseMessage,
			websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Minute))
		untilGone(ws)
	})
}

func send(ws *websocket.Conn, channel byte, text string) {
	_ = ws.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)) // the client may be gone
}

func untilGone(ws *websocket.Conn) {
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return
		}
	}
}

// session is a SPDY connection. A test may break its conn.
type session struct {
	httpstream.Connection
	conn    net.Conn
	streams chan httpstream.Stream
}

// spdyOnly plays a server, or a proxy, that does not make websockets.
func spdyOnly(t *testing.T, protocol string, play func(s session)) kube.Resource[corev1.Pod] {
	t.Helper()
	return played(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Error(w, "no websockets here", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{protocol}); err != nil {
			t.Error(err)
			return
		}
		s := session{streams: make(chan httpstream.Stream, 100)}
		kept := &hijackKeeper{ResponseWriter: w}
		s.Connection = spdy.NewResponseUpgrader().UpgradeResponse(kept, r,
			func(stream httpstream.Stream, _ <-chan struct{}) error {
				s.streams <- stream
				return nil
			})
		s.conn = kept.conn
		play(s)
		s.end()
	})
}

// end closes a connection that has not ended. The library waits for minutes if it is closed twice.
func (s session) end() {
	select {
	case <-s.CloseChan():
	default:
		s.Close()
		<-s.CloseChan()
	}
}

// open waits for the streams of a command.
func (s session) open(n int) map[string]httpstream.Stream {
	streams := map[string]httpstream.Stream{}
	for range n {
		stream := <-s.streams
		streams[stream.Headers().Get(corev1.StreamType)] = stream
	}
	return streams
}

func write(to io.Writer, text string) { _, _ = io.WriteString(to, text) } // the client may be gone

// hijackKeeper keeps the connection that a handler takes over.
type hijackKeeper struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijackKeeper) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, rw, err
}
