package wire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// certificate is that of two files. It is read again for each connection, which the real
// programs do each minute. Files that do not fit each other change nothing.
type certificate struct {
	cert, key string

	mu    sync.Mutex
	texts [2][]byte
	pair  *tls.Certificate
}

func (c *certificate) load() error {
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return fmt.Errorf("load certificate: %w", err)
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("load certificate: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && bytes.Equal(cert, c.texts[0]) && bytes.Equal(key, c.texts[1]) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("load certificate: %w", err)
	}
	c.pair, c.texts = &pair, [2][]byte{cert, key}
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	_ = c.load() // the former one stays
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, nil
}

// ServerTLS serves the certificate and the key of two files.
func ServerTLS(cert, key string) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key}
	if err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}, nil
}

// ListenTLS listens on an address with the certificate and the key of two files.
func ListenTLS(address, cert, key string) (net.Listener, error) {
	config, err := ServerTLS(cert, key)
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", address, config)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// Trusting trusts the authorities in a file, as they are then, and no others.
func Trusting(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read CA: %s holds no certificate", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// ClientTrusting returns an HTTP client for the programs whose authorities are in a file. Without a file
// it trusts those of the system.
func ClientTrusting(file string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if file != "" {
		config, err := Trusting(file)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	return &http.Client{Transport: transport}, nil
}

// sslRequest is the code of the message by which clients of PostgreSQL's protocol ask for TLS.
const sslRequest = 80877103

// ListenPostgres returns a listener whose clients may ask for TLS as in PostgreSQL's protocol.
// TLS is not forced, as in the real programs.
func ListenPostgres(l net.Listener, config *tls.Config) net.Listener { return &postgres{l, config} }

type postgres struct {
	net.Listener
	config *tls.Config
}

func (l *postgres) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &asking{Conn: c, now: c, config: l.config}, nil
}

// asking is a connection whose client has not said yet whether it wants TLS.
type asking struct {
	net.Conn
	config *tls.Config
	begin  sync.Once
	early  []byte // was read, and belongs to the protocol
	now    net.Conn
	failed error
}

func (a *asking) Read(p []byte) (int, error) {
	a.begin.Do(func() { a.failed = a.answer() })
	switch {
	case a.failed != nil:
		return 0, a.failed
	case len(a.early) > 0:
		n := copy(p, a.early)
		a.early = a.early[n:]
		return n, nil
	}
	return a.now.Read(p)
}

func (a *asking) Write(p []byte) (int, error) { return a.now.Write(p) }

// answer reads the first message, if it asks for TLS.
func (a *asking) answer() error {
	first := make([]byte, 1, 8)
	if _, err := io.ReadFull(a.Conn, first); err != nil {
		return err
	}
	if first[0] != 0 { // no message of PostgreSQL
		a.early = first
		return nil
	}
	first = first[:8]
	if _, err := io.ReadFull(a.Conn, first[1:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(first[4:]) != sslRequest {
		a.early = first
		return nil
	}
	if _, err := a.Conn.Write([]byte("S")); err != nil {
		return err
	}
	a.now = tls.Server(a.Conn, a.config)
	return nil
}

// ErrNoTLS is the error of a server that does not serve TLS.
var ErrNoTLS = errors.New("server does not support SSL, but SSL was required")

// AskTLS asks a server for TLS as in PostgreSQL's protocol, and checks its certificate.
func AskTLS(c net.Conn, config *tls.Config) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	request := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, sslRequest)
	if _, err := c.Write(request); err != nil {
		return nil, fmt.Errorf("ask for TLS: %w", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, fmt.Errorf("ask for TLS: %w", err)
	}
	if answer[0] != 'S' {
		return nil, ErrNoTLS
	}
	secure := tls.Client(c, config)
	if err := secure.Handshake(); err != nil {
		return nil, fmt.Errorf("begin TLS: %w", err)
	}
	return secure, c.SetDeadline(time.Time{})
}
