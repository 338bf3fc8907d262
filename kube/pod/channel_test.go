package pod

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// FuzzMessage demultiplexes messages of any bytes.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		"", "\x01", "\x01text", "\x02text", "\x03{}", "\x09x", "\xff", "\xff\x01", "\xff\x03more", "\xff\xff",
	} {
		f.Add([]byte(seed), []byte("\x01after"))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := demux{}
		for _, channel := range []byte{remotecommand.StreamStdOut, remotecommand.StreamStdErr, remotecommand.StreamErr} {
			d[channel] = newPipe()
		}
		want, ended := map[byte]string{}, map[byte]bool{}
		for _, message := range [][]byte{first, second} {
			if len(message) > heldBytes {
				t.Skip("would wait for a reader")
			}
			err := d.message(bytes.NewReader(message), make([]byte, 7))
			var bad bool
			switch {
			case len(message) == 0 || message[0] == remotecommand.StreamClose && len(message) == 1:
				bad = true
			case message[0] == remotecommand.StreamClose:
				ended[message[1]] = true
			case d[message[0]] == nil:
			case ended[message[0]]:
				bad = len(message) > 1
			default:
				want[message[0]] += string(message[1:])
			}
			if (err != nil) != bad {
				t.Fatalf("%q: got error %v", message, err)
			}
		}
		d.end(io.ErrUnexpectedEOF)
		for channel, p := range d {
			got, err := io.ReadAll(p)
			if string(got) != want[channel] {
				t.Errorf("channel %d: got %q, want %q", channel, got, want[channel])
			}
			lost := channel == remotecommand.StreamErr && !ended[channel]
			if (err != nil) != lost {
				t.Errorf("channel %d ended with %v", channel, err)
			}
		}
	})
}

// FuzzResult decodes a status of any bytes.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		"", "{", "{}", `{"status":"Success"}`, `{"status":"Failure"}`, `{"status":"Failure","reason":"NonZeroExitCode"}`,
		`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, message []byte, cut bool) {
		var lost error
		if cut {
			lost = io.ErrClosedPipe
		}
		exit, none := result(message, lost)
		if exit != nil && none != nil {
			t.Errorf("%q: both %v and %v", message, exit, none)
		}
		if exit == nil && none == nil && !bytes.Contains(bytes.ToLower(message), []byte("success")) &&
			!bytes.Contains(message, []byte(`\`)) {
			t.Errorf("%q is a success", message)
		}
	})
}

// inMemory has the two ends of a websocket in virtual time.
func inMemory(t *testing.T) (client, server *websocket.Conn) {
	t.Helper()
	a, b := net.Pipe()
	made := make(chan *websocket.Conn)
	go func() {
		r := bufio.NewReader(b)
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Error(err)
		}
		var up websocket.Upgrader
		ws, err := up.Upgrade(hijacked{httptest.NewRecorder(), b, r}, req, nil)
		if err != nil {
			t.Error(err)
		}
		made <- ws
	}()
	//nolint:staticcheck // the only one that takes a connection
	client, _, err := websocket.NewClient(a, &url.URL{Scheme: "ws", Host: "x"}, nil, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return client, <-made
}

type hijacked struct {
	http.ResponseWriter
	conn net.Conn
	r    *bufio.Reader
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(h.r, bufio.NewWriter(h.conn)), nil
}

// TestSilentPeer has a peer that no longer answers.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := inMemory(t)
		defer server.Close()
		s := &Streams{Stdout: io.Discard}
		begun := time.Now()
		err := s.converse(t.Context(), s.channels(client))
		if !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(begun) != readTimeout {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}

// TestSlowWriter has a Write that takes longer than a peer may be silent, and more output
// than is held.
func TestSlowWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := inMemory(t)
		defer server.Close()
		const messages = 100
		go func() {
			for range messages {
				_ = server.WriteMessage(websocket.BinaryMessage, append([]byte{1}, make([]byte, 32<<10)...))
			}
			_ = server.WriteMessage(websocket.BinaryMessage, []byte("\x03{\"status\":\"Success\"}"))
			_ = server.Close()
		}()
		go func() { // answers pings
			for {
				if _, _, err := server.ReadMessage(); err != nil {
					return
				}
			}
		}()
		w := new(slow)
		s := &Streams{Stdout: w}
		if err := s.converse(t.Context(), s.channels(client)); err != nil || w.n != messages*32<<10 {
			t.Errorf("%v: %d bytes", err, w.n)
		}
	})
}

// slow takes its time for the first Write.
type slow struct{ n int }

func (s *slow) Write(p []byte) (int, error) {
	if s.n == 0 {
		time.Sleep(time.Hour)
	}
	s.n += len(p)
	return len(p), nil
}

// TestMutePod ends a tunnel whose pod reads, but does not answer a stream that begins.
func TestMutePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conn, err := spdy.NewClientConnection(quiet{near})
		if err != nil {
			t.Fatal(err)
		}
		f := &forwarder{tunnel: tunnel{conn, near}, port: 80}
		ended, refused := make(chan bool), make(chan bool)
		go func() {
			defer close(refused)
			if _, err := f.stream(corev1.StreamTypeError, 0); err == nil {
				t.Error("nobody has answered it")
			}
		}()
		go func() {
			_, _ = io.Copy(io.Discard, far)
			close(ended)
		}()
		synctest.Wait()
		f.end()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Error("its connection stays")
			near.Close()
		}
		<-refused
	})
}
