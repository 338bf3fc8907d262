package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// waker is an operator that wakes endpoints after a while.
type waker struct {
	address string
	delay   time.Duration
	calls   atomic.Int64
	ended   atomic.Int64 // the calls whose client went away
}

func (w *waker) Wake(ctx context.Context, endpoint string) (string, error) {
	w.calls.Add(1)
	if endpoint != "ep-1" {
		return "", fmt.Errorf("%w: %s", ErrUnknown, endpoint)
	}
	select {
	case <-ctx.Done():
		w.ended.Add(1)
		return "", ctx.Err()
	case <-time.After(w.delay):
		return w.address, nil
	}
}

// served is a proxy in front of a real PostgreSQL with the role app.
type served struct {
	t     *testing.T
	waker *waker
	proxy *Proxy
	port  int
	stop  func()
}

func serveProxy(t *testing.T, c Config, only string) *served {
	t.Helper()
	server := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.Local("cloud_admin", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "create role app login password '"+spec.Verifier("secret")+"'"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, waker: &waker{address: fmt.Sprintf("127.0.0.1:%d", server.Port)}}
	c.Waker = s.waker
	s.proxy = New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.proxy.Serve(ctx, l, only) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

// config returns how a client connects.
func (s *served) config(options string) *pgx.ConnConfig {
	s.t.Helper()
	text := fmt.Sprintf("host=127.0.0.1 port=%d user=app password=secret dbname=postgres sslmode=disable", s.port)
	config, err := pgx.ParseConfig(text)
	if err != nil {
		s.t.Fatal(err)
	}
	if options != "" {
		config.RuntimeParams["options"] = options
	}
	return config
}

func (s *served) query(config *pgx.ConnConfig, statement string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	var text string
	err = conn.QueryRow(ctx, statement).Scan(&text)
	return text, errors.Join(err, conn.Close(ctx))
}

func TestClientsThatNameTheEndpoint(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "")
	for options, want := range map[string]string{
		"endpoint=ep-1":                         "4MB",
		"-c endpoint=ep-1 -c work_mem=5MB":      "5MB",
		"-c work_mem=6MB endpoint=ep-1":         "6MB",
		"-cendpoint=ep-1 -c work_mem=7MB":       "7MB",
		"endpoint%3Dep-1 --work_mem=8MB":        "8MB",
		"-c statement_timeout=9s endpoint=ep-1": "4MB",
	} {
		if got, err := s.query(s.config(options), "show work_mem"); err != nil || got != want {
			t.Errorf("options %s: %s, %v, want %s", options, got, err, want)
		}
	}
}

func TestClientsOfAnEndpointsListener(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "ep-1")
	s.waker.delay = time.Second
	if got, err := s.query(s.config(""), "select current_user::text"); err != nil || got != "app" {
		t.Errorf("%s, %v", got, err)
	}
	// PostgreSQL's own client, which asks for an encryption first.
	psql := exec.CommandContext(t.Context(), "psql", "-At", "-c", "select 'through'",
		fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=postgres", s.port))
	psql.Env = append(os.Environ(), "PGPASSWORD=secret")
	if said, err := psql.CombinedOutput(); err != nil || string(said) != "through\n" {
		t.Errorf("psql: %s, %v", said, err)
	}
	config := s.config("")
	config.Password = "wrong"
	var refusal *pgconn.PgError
	if _, err := s.query(config, "select 1"); !errors.As(err, &refusal) || refusal.Code != "28P01" {
		t.Errorf("with a wrong password: %v", err)
	}
}

// certificate is one that signs itself.
func certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestClientsWithTLS(t *testing.T) {
	t.Parallel()
	own := certificate(t, "*.db.example.com")
	s := serveProxy(t, Config{TLS: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}}, "")
	s.waker.delay = 300 * time.Millisecond
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	config := s.config("")
	config.TLSConfig = &tls.Config{ServerName: "ep-1.db.example.com", RootCAs: roots, MinVersion: tls.VersionTLS12}
	if got, err := s.query(config, "select 'by SNI'"); err != nil || got != "by SNI" {
		t.Errorf("%s, %v", got, err)
	}
	config.TLSConfig.ServerName = "ep-2.db.example.com"
	var refusal *pgconn.PgError
	if _, err := s.query(config, "select 1"); !errors.As(err, &refusal) || refusal.Code != codeUnknown {
		t.Errorf("another endpoint: %v", err)
	}
}

func TestErrorsAreThoseOfPostgres(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{WakeTimeout: 500 * time.Millisecond}, "")
	for options, want := range map[string]string{"endpoint=ep-2": codeUnknown, "": codeProtocol} {
		var refusal *pgconn.PgError
		if _, err := s.query(s.config(options), "select 1"); !errors.As(err, &refusal) || refusal.Code != want {
			t.Errorf("options %q: %v, want code %s", options, err, want)
		}
	}
	s.waker.delay = time.Minute
	var refusal *pgconn.PgError
	if _, err := s.query(s.config("endpoint=ep-1"), "select 1"); !errors.As(err, &refusal) || refusal.Code != codeUnavailable {
		t.Errorf("an endpoint that does not start: %v", err)
	}
	if strings.Contains(refusal.Message, "127.0.0.1") {
		t.Errorf("the message tells addresses: %s", refusal.Message)
	}
}

func TestCancelRequestsReachTheSession(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "ep-1")
	conn, err := pgx.ConnectConfig(t.Context(), s.config(""))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "select pg_sleep(60)")
		failed <- err
	}()
	for goesOn, begun := true, time.Now(); goesOn; { // a request that comes before the query cancels nothing
		if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-failed:
			var refusal *pgconn.PgError
			if !errors.As(err, &refusal) || refusal.Code != "57014" {
				t.Errorf("the query ends with %v", err)
			}
			goesOn = false
		case <-time.After(300 * time.Millisecond):
			if time.Since(begun) > 50*time.Second {
				t.Fatal("the query goes on")
			}
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	kubetest.Eventually(t, "there is no key of a session", func() error {
		s.proxy.mu.Lock()
		defer s.proxy.mu.Unlock()
		if left := len(s.proxy.cancels); left > 0 {
			return fmt.Errorf("%d keys are left", left)
		}
		return nil
	})
}

func TestClientsThatAreTooMany(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{MaxWaiting: 1, MaxConnections: 2}, "ep-1")
	s.waker.delay = 5 * time.Second
	codes := make(chan string, 4)
	for range 4 {
		go func() {
			_, err := s.query(s.config(""), "select 'x'")
			var refusal *pgconn.PgError
			if errors.As(err, &refusal) {
				codes <- refusal.Code
			} else {
				codes <- fmt.Sprint(err)
			}
		}()
	}
	got := map[string]int{}
	for range 4 {
		got[<-codes]++
	}
	if got["<nil>"] != 1 || got[codeTooMany] != 3 {
		t.Errorf("answers: %v", got)
	}
}

func TestClientsThatLeaveWakeNothing(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "ep-1")
	s.waker.delay = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for s.waker.calls.Load() == 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // the test waits for its own connection meanwhile
		}
		cancel()
	}()
	if _, err := pgx.ConnectConfig(ctx, s.config("")); err == nil {
		t.Fatal("it is connected")
	}
	kubetest.Eventually(t, "the proxy waits no more", func() error {
		if ended, n := s.waker.ended.Load(), s.proxy.Connections(); ended == 0 || n > 0 {
			return fmt.Errorf("%d calls have ended, there are %d connections", ended, n)
		}
		return nil
	})
}

func TestTheEndOfTheProxyEndsSessions(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "ep-1")
	conn, err := pgx.ConnectConfig(t.Context(), s.config(""))
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the session goes on")
	}
	if n := s.proxy.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestSilentClientsAreCutOff(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{StartupTimeout: 200 * time.Millisecond}, "ep-1")
	for name, text := range map[string]string{"nothing": "", "a part": "\x00\x00", "nonsense": "GET / HTTP/1.1\r\n\r\n", "too long": "\x7f\xff\xff\xff1234"} {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) || len(said) > 0 {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		conn.Close()
	}
	if n := s.waker.calls.Load(); n != 0 {
		t.Errorf("they woke the endpoint %d times", n)
	}
}

func FuzzGreet(f *testing.F) {
	startup := func(version uint32, rest string) []byte {
		text := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
		return append(binary.BigEndian.AppendUint32(text, version), rest...)
	}
	f.Add(startup(196608, "user\x00app\x00options\x00endpoint=ep-1 -c a=b\x00\x00"))
	f.Add(startup(versionOfCancel, "12345678"))
	f.Add(append(startup(versionOfTLS, ""), startup(196608, "user\x00app\x00\x00")...))
	f.Fuzz(func(t *testing.T, text []byte) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, client) }()
			_, _ = client.Write(text)
			client.Close()
		}()
		g, err := New(Config{}).greet(server)
		if err == nil && g.cancel == nil {
			_, _ = g.endpoint("", New(Config{}).config)
			encoded := g.message.encode()
			if strings.Contains(g.message.get("options"), " endpoint=") {
				t.Errorf("the endpoint stays in the options: %q", encoded)
			}
			if again, err := parseStartup(encoded[4:]); err == nil && !bytes.Equal(again.encode(), encoded) {
				t.Errorf("%q is read as %q", encoded, again.encode())
			}
		}
	})
}

// TestUsersThatNameTheEndpoint has clients that are given values one by one, as PG* variables are.
func TestUsersThatNameTheEndpoint(t *testing.T) {
	t.Parallel()
	s := serveProxy(t, Config{}, "")
	psql := exec.CommandContext(t.Context(), "psql", "-At", "-c", "select current_user")
	psql.Env = append(os.Environ(), "PGHOST=127.0.0.1", fmt.Sprintf("PGPORT=%d", s.port), "PGUSER=app.ep-1",
		"PGPASSWORD=secret", "PGDATABASE=postgres")
	if said, err := psql.CombinedOutput(); err != nil || string(said) != "app\n" {
		t.Errorf("psql: %s, %v", said, err)
	}
	config := s.config("")
	config.User = "app.ep-2"
	var refusal *pgconn.PgError
	if _, err := s.query(config, "select 1"); !errors.As(err, &refusal) || refusal.Code != codeUnknown {
		t.Errorf("another endpoint: %v", err)
	}
	config.User = "app." + strings.Repeat("Q\n", 200)
	if _, err := s.query(config, "select 1"); !errors.As(err, &refusal) || strings.Contains(refusal.Message, "Q") {
		t.Errorf("a name that is none: %v", err)
	}
	config.User, config.RuntimeParams = "app.ep-1", map[string]string{"options": "endpoint=ep-1"}
	if got, err := s.query(config, "select current_user::text"); err != nil || got != "app" {
		t.Errorf("named twice: %s, %v", got, err)
	}
}

// TestTLSOnly sees that nothing goes in clear if there is a certificate, and that sslmode=require
// is all that a client needs.
func TestTLSOnly(t *testing.T) {
	t.Parallel()
	own := certificate(t, "*.db.example.com")
	s := serveProxy(t, Config{TLS: &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}}, "")
	run := func(options ...string) (string, error) {
		psql := exec.CommandContext(t.Context(), "psql", "-At", "-c", "select current_user", strings.Join(append([]string{ //nolint:gosec // a test's own
			fmt.Sprintf("host=localhost hostaddr=127.0.0.1 port=%d user=app.ep-1 dbname=postgres", s.port)}, options...), " "))
		psql.Env = append(os.Environ(), "PGPASSWORD=secret")
		said, err := psql.CombinedOutput()
		return string(said), err
	}
	for _, mode := range []string{"", "sslmode=require", "sslmode=prefer"} {
		if said, err := run(mode); err != nil || said != "app\n" {
			t.Errorf("%q: %s, %v", mode, said, err)
		}
	}
	if said, err := run("sslmode=disable"); err == nil || !strings.Contains(said, "set sslmode=require") {
		t.Errorf("in clear: %s, %v", said, err)
	}
	if n := s.waker.calls.Load(); n != 3 {
		t.Errorf("the endpoint was woken %d times", n)
	}
}
