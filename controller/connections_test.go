package controller

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/metrics"
)

// pipes is a listener whose connections are in memory, for virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.closed); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns a connection to the listener's server.
func (l *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	l.conns <- theirs
	t.Cleanup(func() { ours.Close() })
	return ours
}

// request sends a request and returns the answer.
func (l *pipes) request(t *testing.T, head, body string) (code int, text string) {
	t.Helper()
	conn := l.dial(t)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, head+"\r\nHost: x\r\nConnection: close\r\n\r\n"+body) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// serveHere serves a program's port on connections in memory until the test ends.
func serveHere(t *testing.T, p *program) *pipes {
	t.Helper()
	p.Logger = slog.New(slog.DiscardHandler)
	if p.Metrics == nil {
		p.Metrics = metrics.New()
	}
	s, err := p.newServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return startHere(t, s, p.TLS)
}

// probesHere is serveHere for the probes' port.
func probesHere(t *testing.T, p *program) *pipes {
	t.Helper()
	p.Logger = slog.New(slog.DiscardHandler)
	return startHere(t, p.newProbes(t.Context()), nil)
}

func startHere(t *testing.T, s *server, config *tls.Config) *pipes {
	l := newPipes()
	s.start(l, config)
	t.Cleanup(s.close)
	return l
}

// say sends a text.
func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// answered reads an answer, and leaves the connection open.
func answered(t *testing.T, conn net.Conn) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
}

// Idle connections keep no probe out, whether or not bytes were sent on them. Only as
// many of them are closed as necessary, the oldest first.
func TestProbesBesideIdleConnections(t *testing.T) {
	const request = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	for name, begin := range map[string]func(t *testing.T, conn net.Conn){
		"nothing is said":     func(*testing.T, net.Conn) {},
		"half a header":       func(t *testing.T, conn net.Conn) { say(t, conn, request) },
		"a request, answered": func(t *testing.T, conn net.Conn) { say(t, conn, request+"\r\n"); answered(t, conn) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := serveHere(t, new(program))
				var idle []net.Conn
				for range maxConnections {
					conn := l.dial(t)
					begin(t, conn)
					synctest.Wait() // this connection is idle, after the earlier ones
					idle = append(idle, conn)
				}
				for range 10 {
					asked := time.Now()
					if code, _ := l.request(t, "GET /healthz HTTP/1.1", ""); code != http.StatusOK {
						t.Errorf("a probe: %d", code)
					}
					if took := time.Since(asked); took > 600*time.Millisecond {
						t.Fatalf("a probe is answered after %s", took)
					}
					synctest.Wait() // the connection is closed
				}
				synctest.Wait()
				closed := 0
				for i, conn := range idle {
					err := conn.SetReadDeadline(time.Now())
					if err == nil {
						_, err = conn.Read(make([]byte, 1))
					}
					if errors.Is(err, os.ErrDeadlineExceeded) {
						continue
					}
					closed++
					if i > 0 {
						t.Errorf("connection %d is closed before older ones: %v", i, err)
					}
				}
				if closed != 1 {
					t.Errorf("%d connections were closed for one that is open at a time", closed)
				}
			})
		})
	}
}

// A connection is not closed for another one while its request is being answered. The
// other one waits.
func TestBusyConnectionsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		waits := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn })
		l := serveHere(t, &program{Options: Options{Routes: []Route{{Pattern: "GET /wait", Handler: waits}}}})
		var busy []net.Conn
		for range maxConnections {
			conn := l.dial(t)
			say(t, conn, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
			busy = append(busy, conn)
		}
		probed := make(chan int, 1)
		go func() {
			code, _ := l.request(t, "GET /healthz HTTP/1.1", "")
			probed <- code
		}()
		time.Sleep(5 * time.Second)
		select {
		case code := <-probed:
			t.Errorf("the connection was taken while all are busy: %d", code)
		default:
		}
		close(goOn)
		for _, conn := range busy {
			answered(t, conn)
		}
		if code := <-probed; code != http.StatusOK {
			t.Errorf("then: %d", code)
		}
	})
}

// The same holds over TLS.
func TestProbesBesideIdleConnectionsOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair, err := tls.X509KeyPair(selfSigned(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		l := serveHere(t, &program{Options: Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}}})
		for range maxConnections {
			conn := tls.Client(l.dial(t), &tls.Config{InsecureSkipVerify: true})
			say(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			answered(t, conn)
		}
		time.Sleep(time.Second)
		asked := time.Now()
		conn := tls.Client(l.dial(t), &tls.Config{InsecureSkipVerify: true})
		say(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		answered(t, conn)
		if took := time.Since(asked); took > 100*time.Millisecond {
			t.Errorf("a probe is answered after %s", took)
		}
	})
}

// The listener can be closed while it has no room.
func TestListenerIsClosedWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipes()
		l := limitConnections(pipes, 1, time.Second)
		accepted := make(chan error)
		accept := func() { _, err := l.Accept(); accepted <- err }
		go accept()
		pipes.dial(t)
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
		go accept()
		late := pipes.dial(t)
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept returns %v", err)
		}
		if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection that waited: %v", err)
		}
	})
}
