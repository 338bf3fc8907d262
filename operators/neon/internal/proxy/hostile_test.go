package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
)

// message is one without a kind, as a client begins with.
func message(version uint32, rest string) []byte {
	text := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	return append(binary.BigEndian.AppendUint32(text, version), rest...)
}

// dial connects to the proxy. Reads and writes end after a while.
func (s *served) dial() *net.TCPConn {
	s.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// send writes a text and returns all that comes back.
func (s *served) send(conn net.Conn, text []byte) string {
	s.t.Helper()
	if _, err := conn.Write(text); err != nil {
		s.t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Fatalf("the proxy keeps the connection open, and says %q", said)
	}
	return string(said)
}

// TestStrangeGreetings has first messages that no honest client sends. None reaches an endpoint, and
// those that can be honest mistakes are answered.
func TestStrangeGreetings(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{StartupTimeout: 5 * time.Second}, "")
	long := "user\x00app\x00options\x00endpoint=ep-1 " + strings.Repeat("-c a=b ", 2000) + "\x00\x00"
	for name, c := range map[string]struct {
		text []byte
		code string // that it answers with, empty for none
	}{
		"version 2":              {message(2<<16, "user\x00app\x00\x00"), "0A000"},
		"version 4":              {message(4<<16, "user\x00app\x00\x00"), "0A000"},
		"no end":                 {message(3<<16, "user\x00app.ep-1\x00"), codeProtocol},
		"more after the end":     {message(3<<16, "user\x00app.ep-1\x00\x00more\x00x\x00"), codeProtocol},
		"a name without a value": {message(3<<16, "user\x00\x00"), codeProtocol},
		"a name twice":           {message(3<<16, "user\x00app.ep-1\x00user\x00postgres\x00\x00"), codeProtocol},
		"options without end":    {message(3<<16, long), ""},
		"a cancel without key":   {message(versionOfCancel, "1234"), ""},
		"a cancel with a novel":  {message(versionOfCancel, strings.Repeat("x", 5000)), ""},
		"a cancel of nobody":     {message(versionOfCancel, "12345678"), ""},
		"the least":              {message(3<<16, "\x00"), codeProtocol},
		"a zero":                 {[]byte{0, 0, 0, 0, 0, 0, 0, 0}, ""},
		"many wishes":            {bytes.Repeat(message(versionOfGSS, ""), 5), ""},
	} {
		said := strings.TrimLeft(s.send(s.dial(), c.text), "N")
		if (said == "") != (c.code == "") || !strings.Contains(said, "\x00C"+c.code) && c.code != "" {
			t.Errorf("%s: %q, want code %q", name, said, c.code)
		}
	}
	if n := s.waker.calls.Load(); n != 0 {
		t.Errorf("the endpoint was woken %d times", n)
	}
}

// TestLaterMinorVersions sees that PostgreSQL itself negotiates the minor version of the protocol.
func TestLaterMinorVersions(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "")
	conn := s.dial()
	if _, err := conn.Write(message(3<<16|9, "user\x00app.ep-1\x00database\x00postgres\x00_pq_.later\x00on\x00\x00")); err != nil {
		t.Fatal(err)
	}
	first, err := readMessage(conn)
	if err != nil || first[0] != 'v' || !bytes.Contains(first, []byte("_pq_.later")) {
		t.Errorf("PostgreSQL's first message is %q, %v", first, err)
	}
}

// TestManyGreetings has clients that connect and say nothing. They don't use up the proxy: one more
// is refused while they are open, and when they have gone others are served.
func TestManyGreetings(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{StartupTimeout: 30 * time.Second, MaxGreetings: 3}, "ep-1")
	connections := func(want int) func() error {
		return func() error {
			if n := s.proxy.Connections(); n != want {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		}
	}
	var silent []net.Conn
	for range 3 {
		silent = append(silent, s.dial())
	}
	kubetest.Eventually(t, "there are three connections", connections(3))
	if said := s.send(s.dial(), nil); said != "" {
		t.Errorf("one more: %q", said)
	}
	if s.proxy.Connections() < 3 {
		t.Error("the silent ones were cut off before one more was refused")
	}
	for _, c := range silent {
		c.Close()
	}
	kubetest.Eventually(t, "the silent ones have gone", connections(0))
	if got, err := s.query(s.config(""), "select 'later'"); err != nil || got != "later" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestHalfClosedClients has a client that has said all and waits for the answer.
func TestHalfClosedClients(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "ep-1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.waker.address = l.Addr().String()
	asked := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		head, err := readHead(conn)
		if err != nil {
			return
		}
		if _, err := readBody(conn, head); err != nil {
			return
		}
		_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I"))
		text, _ := io.ReadAll(conn)
		asked <- string(text)
		time.Sleep(300 * time.Millisecond) // a slow compute
		_, _ = conn.Write([]byte("the answer"))
	}()
	conn := s.dial()
	if _, err := conn.Write(append(message(3<<16, "user\x00app\x00\x00"), "the question"...)); err != nil {
		t.Fatal(err)
	}
	if head, err := readMessage(conn); err != nil || head[0] != 'R' {
		t.Fatalf("%q, %v", head, err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || !bytes.HasSuffix(rest, []byte("the answer")) {
		t.Errorf("the client reads %q, %v", rest, err)
	}
	if text := <-asked; text != "the question" {
		t.Errorf("the server reads %q", text)
	}
}

// TestTextBeforeTLS sends more after the wish for TLS, as somebody in between might, to have it taken
// for the client's.
func TestTextBeforeTLS(t *testing.T) {
	t.Parallel()
	own := certificate(t, "*.db.example.com")
	s := serveProxy(t, Config{TLS: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}}, "ep-1")
	said := s.send(s.dial(), append(message(versionOfTLS, ""), message(3<<16, "user\x00app\x00\x00")...))
	if strings.Contains(said, "SCRAM") || s.waker.calls.Load() != 0 {
		t.Errorf("the proxy says %q", said)
	}
}

// TestDirectTLS has clients that begin with TLS at once (sslnegotiation=direct).
func TestDirectTLS(t *testing.T) {
	t.Parallel()
	own := certificate(t, "*.db.example.com")
	config := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	s := serveProxy(t, Config{TLS: config}, "")
	client := &tls.Config{ServerName: "ep-1.db.example.com", InsecureSkipVerify: true, NextProtos: []string{"postgresql"}} //nolint:gosec // the test's own server
	secure := tls.Client(s.dial(), client)
	if _, err := secure.Write(message(3<<16, "user\x00app\x00database\x00postgres\x00\x00")); err != nil {
		t.Fatal(err)
	}
	first, err := readMessage(secure)
	if err != nil || !bytes.Contains(first, []byte("SCRAM-SHA-256")) {
		t.Errorf("PostgreSQL's first message is %q, %v", first, err)
	}
	if p := secure.ConnectionState().NegotiatedProtocol; p != "postgresql" {
		t.Errorf("the protocol is %q", p)
	}
	// A browser, or an attack that crosses protocols.
	client.NextProtos = []string{"h2", "http/1.1"}
	if err := tls.Client(s.dial(), client).Handshake(); err == nil {
		t.Error("the proxy speaks with a client of HTTP")
	}
	client.NextProtos = nil
	if err := handshake(tls.Client(s.dial(), client)); err == nil {
		t.Error("the proxy speaks with a client that names no protocol")
	}
	plain := serveProxy(t, Config{}, "")
	if said := plain.send(plain.dial(), []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")); said != "" {
		t.Errorf("without a certificate the proxy says %q", said)
	}
}

func handshake(c *tls.Conn) error {
	if err := c.Handshake(); err != nil {
		return err
	}
	_, err := readMessage(c)
	return err
}

// TestKeysOfSessions sees that no session takes the key of another.
func TestKeysOfSessions(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	k := key{process: 1, secret: "abcd"}
	if !p.remember(k, backend{"one"}) || p.remember(k, backend{"two"}) {
		t.Error("a key was taken twice, or not at all")
	}
	if b, ok := p.find(k); !ok || b.address != "one" {
		t.Errorf("the key is of %q", b.address)
	}
	p.forget(k)
	if _, ok := p.find(k); ok {
		t.Error("the key is still there")
	}
	if p.remember(key{secret: strings.Repeat("x", 257)}, backend{"one"}) {
		t.Error("a key is longer than the protocol allows")
	}
}
