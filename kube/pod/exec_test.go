package pod_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
)

func exec(ctx context.Context, pods kube.Resource[corev1.Pod], s pod.Streams) error {
	return pod.Exec(ctx, pods, "p", []string{"x"}, s)
}

// TestNoStatus ends connections before the command's status.
func TestNoStatus(t *testing.T) {
	webSocket := func(end func(ws *websocket.Conn)) kube.Resource[corev1.Pod] {
		return channels(t, func(ws *websocket.Conn) {
			send(ws, stdout, halfLine)
			end(ws)
		})
	}
	spdy := func(end func(s session)) kube.Resource[corev1.Pod] {
		return spdyOnly(t, "v4.channel.k8s.io", func(s session) {
			out := s.open(2)[corev1.StreamTypeStdout]
			write(out, halfLine)
			end(s)
		})
	}
	for name, pods := range map[string]kube.Resource[corev1.Pod]{
		"websocket closed":         webSocket(func(*websocket.Conn) {}),
		"websocket without a FIN":  webSocket(func(ws *websocket.Conn) { _ = ws.NetConn().(*net.TCPConn).Close() }),
		"websocket, half a status": webSocket(func(ws *websocket.Conn) { send(ws, status, success[:10]) }),
		"websocket, no status":     webSocket(func(ws *websocket.Conn) { send(ws, status, "{}") }),
		"websocket, half a message": webSocket(func(ws *websocket.Conn) {
			_, _ = ws.NetConn().Write([]byte{0x82, 40, status, '{'})
			ws.Close()
		}),
		"websocket, a message without a channel": webSocket(func(ws *websocket.Conn) {
			_ = ws.WriteMessage(websocket.BinaryMessage, nil)
			send(ws, status, success)
		}),
		"websocket, a text": webSocket(func(ws *websocket.Conn) {
			_ = ws.WriteMessage(websocket.TextMessage, []byte("\x03"+success))
		}),
		"SPDY closed": spdy(func(session) {}),
		"SPDY, FIN":   spdy(func(s session) { s.conn.Close(); <-s.CloseChan() }),
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := exec(t.Context(), pods, pod.Streams{Stdout: &out})
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "output may be incomplete") {
				t.Errorf("got error %v", err)
			}
			if out.String() != halfLine {
				t.Errorf("the output is %q", &out)
			}
		})
	}
	t.Run("SPDY, RST", func(t *testing.T) { // the data that was not read goes with it
		err := exec(t.Context(), spdy(func(s session) {
			_ = s.conn.(*net.TCPConn).SetLinger(0)
			s.conn.Close()
			<-s.CloseChan()
		}), pod.Streams{Stdout: io.Discard})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("attach", func(t *testing.T) {
		err := pod.Attach(t.Context(), webSocket(func(*websocket.Conn) {}), "p", pod.Streams{Stdout: io.Discard})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got error %v", err)
		}
	})
}

// TestStatus ends connections after the command's status.
func TestStatus(t *testing.T) {
	for said, want := range map[string]string{
		success: "",
		exit7:   "exec Pod/exec default/p: the command exited with status 7",
		strings.ReplaceAll(exit7, `"7"`, `"3221225786"`): "exec Pod/exec default/p: " +
			"the command exited with status 3221225786",
		`{"status":"Failure","reason":"InternalError","message":"no such file","code":500}`: "exec Pod/exec " +
			"default/p: no such file",
		strings.ReplaceAll(exit7, "details", "other"): "exec Pod/exec default/p: ",
	} {
		long := strings.Repeat("y", 10_000)
		by := map[string]kube.Resource[corev1.Pod]{
			"websocket": channels(t, func(ws *websocket.Conn) {
				send(ws, stdout, "")
				send(ws, 9, "a channel of later versions")
				for range 300 {
					send(ws, stdout, long)
				}
				send(ws, closed, string(rune(stdout)))
				send(ws, status, said[:20])
				send(ws, status, said[20:])
			}),
			"websocket, then lost": channels(t, func(ws *websocket.Conn) {
				for range 300 {
					send(ws, stdout, long)
				}
				send(ws, status, said)
				ws.Close()
			}),
			"SPDY": spdyOnly(t, "v4.channel.k8s.io", func(s session) {
				streams := s.open(2)
				for range 300 {
					write(streams[corev1.StreamTypeStdout], long)
				}
				write(streams[corev1.StreamTypeError], said)
				for _, stream := range streams {
					_ = stream.Close()
				}
				<-s.CloseChan()
			}),
		}
		for name, pods := range by {
			var out bytes.Buffer
			err := exec(t.Context(), pods, pod.Streams{Stdout: &out})
			if fmt.Sprint(err) != want && (err != nil || want != "") {
				t.Errorf("%s, %s: got error %v", name, said, err)
			}
			if out.Len() != 300*len(long) {
				t.Errorf("%s, %s: %d bytes", name, said, out.Len())
			}
		}
	}
}

// TestInput sends an input with its end, and the sizes of a terminal.
func TestInput(t *testing.T) {
	text := strings.Repeat("to and fro ", 20_000)
	for name, pods := range map[string]kube.Resource[corev1.Pod]{
		"websocket": channels(t, func(ws *websocket.Conn) {
			for {
				_, message, err := ws.ReadMessage()
				switch {
				case err != nil:
					return
				case message[0] == stdin:
					send(ws, stdout, string(message[1:]))
				case message[0] == closed && message[1] == stdin:
					send(ws, status, success)
					return
				}
			}
		}),
		"SPDY": spdyOnly(t, "v4.channel.k8s.io", func(s session) {
			streams := s.open(3)
			_, _ = io.Copy(streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStdin])
			write(streams[corev1.StreamTypeError], success)
			for _, stream := range streams {
				_ = stream.Close()
			}
			<-s.CloseChan()
		}),
	} {
		var out bytes.Buffer
		err := exec(t.Context(), pods, pod.Streams{Stdin: strings.NewReader(text), Stdout: &out})
		if err != nil || out.String() != text {
			t.Errorf("%s: %v, %d bytes came back", name, err, out.Len())
		}
	}
}

func TestResize(t *testing.T) {
	for name, pods := range map[string]kube.Resource[corev1.Pod]{
		"websocket": channels(t, func(ws *websocket.Conn) {
			for n := 0; n < 2; {
				_, message, err := ws.ReadMessage()
				if err != nil {
					return
				}
				if message[0] == resize {
					send(ws, stdout, string(message[1:]))
					n++
				}
			}
			send(ws, status, success)
		}),
		"SPDY": spdyOnly(t, "v4.channel.k8s.io", func(s session) {
			streams := s.open(3)
			buffer := make([]byte, 100)
			for range 2 {
				n, _ := streams[corev1.StreamTypeResize].Read(buffer)
				write(streams[corev1.StreamTypeStdout], string(buffer[:n]))
			}
			write(streams[corev1.StreamTypeError], success)
			for _, stream := range streams {
				_ = stream.Close()
			}
			<-s.CloseChan()
		}),
	} {
		sizes := make(chan pod.Size, 2)
		sizes <- pod.Size{Width: 99, Height: 30}
		sizes <- pod.Size{Width: 101, Height: 31}
		var out bytes.Buffer
		err := exec(t.Context(), pods, pod.Streams{Stdout: &out, Stderr: &out, TTY: true, Resize: sizes})
		want := `{"Width":99,"Height":30}` + "\n" + `{"Width":101,"Height":31}` + "\n"
		if err != nil || out.String() != want {
			t.Errorf("%s: %v, %q", name, err, &out)
		}
	}
}

var errDisk = errors.New("no space left on device")

// full takes some bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

// TestCallersErrors has streams of the caller that fail.
func TestCallersErrors(t *testing.T) {
	output := func(channel byte, end string) kube.Resource[corev1.Pod] {
		return channels(t, func(ws *websocket.Conn) {
			for range 10 {
				send(ws, channel, strings.Repeat("x", 1000))
			}
			send(ws, status, end)
		})
	}
	endless := func(channel byte) kube.Resource[corev1.Pod] {
		return channels(t, func(ws *websocket.Conn) {
			for ws.WriteMessage(websocket.BinaryMessage, []byte{channel, 'y'}) == nil {
			}
		})
	}
	spdy := spdyOnly(t, "v4.channel.k8s.io", func(s session) {
		streams := s.open(2)
		for range 10 {
			write(streams[corev1.StreamTypeStdout], strings.Repeat("x", 1000))
		}
		write(streams[corev1.StreamTypeError], success)
		for _, stream := range streams {
			_ = stream.Close()
		}
		<-s.CloseChan()
	})
	ended := make(chan bool, 2)
	half := func(err error) io.Reader {
		return io.MultiReader(strings.NewReader("insert;\n"), iotest.ErrReader(err))
	}
	cutOff := fmt.Errorf("read backup.sql: %w", io.EOF)
	psql := channels(t, func(ws *websocket.Conn) {
		for {
			_, message, err := ws.ReadMessage()
			if err != nil {
				ended <- false
				return
			}
			if message[0] == closed {
				ended <- true
				send(ws, status, success)
				return
			}
		}
	})
	const diskFull = "write stdout: no space left on device"
	for name, c := range map[string]struct {
		pods    kube.Resource[corev1.Pod]
		streams pod.Streams
		is      error
		want    string
	}{
		"stdout": {output(stdout, success), pod.Streams{Stdout: &full{2500}}, errDisk, diskFull},
		"stderr": {output(stderr, success), pod.Streams{Stderr: &full{2500}}, errDisk,
			"write stderr: no space left on device"},
		"exit, too":      {output(stdout, exit7), pod.Streams{Stdout: &full{2500}}, errDisk, diskFull},
		"endless output": {endless(stdout), pod.Streams{Stdout: &full{2500}}, errDisk, diskFull},
		"short write": {output(stdout, success), pod.Streams{Stdout: shortWriter{}}, io.ErrShortWrite,
			"write stdout: short write"},
		"stdout by SPDY": {spdy, pod.Streams{Stdout: &full{2500}}, errDisk, diskFull},
		"stdin": {psql, pod.Streams{Stdin: half(errDisk)}, errDisk,
			"read stdin: no space left on device"},
		"stdin, cut off": {psql, pod.Streams{Stdin: half(cutOff)}, cutOff, "read stdin: read backup.sql: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			err := exec(t.Context(), c.pods, c.streams)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v", err)
			}
		})
	}
	for range 2 {
		if <-ended {
			t.Error("the command was told that half of its input is the whole")
		}
	}
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) / 2, nil }

// TestBlockedWriter ends a call while the caller's Write blocks.
func TestBlockedWriter(t *testing.T) {
	hello := func(until func(ws *websocket.Conn)) kube.Resource[corev1.Pod] {
		return channels(t, func(ws *websocket.Conn) {
			send(ws, stdout, "hello")
			until(ws)
		})
	}
	lost := make(chan bool)
	in, broken := io.Pipe()
	for name, c := range map[string]struct {
		pods  kube.Resource[corev1.Pod]
		stdin io.Reader
		end   func() // instead of the end of ctx
		is    error
	}{
		"ctx": {pods: hello(untilGone), is: context.Canceled},
		"ctx, by SPDY": {pods: spdyOnly(t, "v4.channel.k8s.io", func(s session) {
			write(s.open(2)[corev1.StreamTypeStdout], "hello")
			<-s.CloseChan()
		}), is: context.Canceled},
		"ctx, with much behind it": {pods: channels(t, func(ws *websocket.Conn) {
			for ws.WriteMessage(websocket.BinaryMessage, append([]byte{stdout}, make([]byte, 10_000)...)) == nil {
			}
		}), is: context.Canceled},
		"ctx, after the command": {pods: hello(func(ws *websocket.Conn) { send(ws, status, exit7) }),
			is: context.Canceled},
		"loss": {pods: hello(func(*websocket.Conn) { <-lost }), end: func() { close(lost) },
			is: io.ErrUnexpectedEOF},
		"stdin": {pods: hello(untilGone), stdin: in, end: func() { broken.CloseWithError(errDisk) },
			is: errDisk},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := &blocked{begun: make(chan bool), until: make(chan bool)}
			defer close(w.until)
			done := make(chan error, 1)
			go func() { done <- exec(ctx, c.pods, pod.Streams{Stdin: c.stdin, Stdout: w}) }()
			<-w.begun
			if c.end == nil {
				c.end = cancel
			}
			c.end()
			if err := <-done; !errors.Is(err, c.is) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// blocked is a writer that is called once.
type blocked struct{ begun, until chan bool }

func (b *blocked) Write(p []byte) (int, error) {
	close(b.begun)
	<-b.until
	return len(p), nil
}

// TestTwoPipes reads one pipe after the other, as with StdoutPipe and StderrPipe of os/exec.
func TestTwoPipes(t *testing.T) {
	warnings := strings.Repeat("warning\n", 100)
	pods := channels(t, func(ws *websocket.Conn) {
		for range 100 {
			send(ws, stderr, warnings)
		}
		send(ws, stdout, "output")
		send(ws, status, success)
	})
	out, outTo := io.Pipe()
	errs, errsTo := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- exec(t.Context(), pods, pod.Streams{Stdout: outTo, Stderr: errsTo})
		outTo.Close()
		errsTo.Close()
	}()
	if _, err := io.ReadFull(out, make([]byte, len("output"))); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(errs)
	if err != nil || string(text) != strings.Repeat(warnings, 100) {
		t.Errorf("%v: %d bytes", err, len(text))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOneWriter gives both outputs to a writer that only one may write at a time.
func TestOneWriter(t *testing.T) {
	pods := channels(t, func(ws *websocket.Conn) {
		for range 1000 {
			send(ws, stderr, "e")
			send(ws, stdout, "o")
		}
		send(ws, status, success)
	})
	var both bytes.Buffer
	if err := exec(t.Context(), pods, pod.Streams{Stdout: &both, Stderr: &both}); err != nil || both.Len() != 2000 {
		t.Errorf("%v: %d bytes", err, both.Len())
	}
	var out, errs strings.Builder
	type notComparable struct {
		io.Writer
		_ []int
	}
	streams := pod.Streams{Stdout: notComparable{Writer: &out}, Stderr: notComparable{Writer: &errs}}
	if err := exec(t.Context(), pods, streams); err != nil || out.Len() != 1000 || errs.Len() != 1000 {
		t.Errorf("%v: %d and %d bytes", err, out.Len(), errs.Len())
	}
}

// TestSilentServer ends ctx while a server that was connected by SPDY says nothing.
func TestSilentServer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, pods kube.Resource[corev1.Pod]) error{
		"exec": func(ctx context.Context, pods kube.Resource[corev1.Pod]) error {
			if err := exec(ctx, pods, pod.Streams{Stdout: io.Discard}); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("got error %w", err)
			}
			return nil
		},
		"forward": func(ctx context.Context, pods kube.Resource[corev1.Pod]) error {
			return pod.PortForward(ctx, pods, "p", 80, pod.PortForwardOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := make(chan bool)
			pods := played(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					cancel()
					<-answer
				}
				http.Error(w, "no", http.StatusBadRequest)
			})
			if err := call(ctx, pods); err != nil {
				t.Error(err)
			}
			close(answer)
		})
	}
}
