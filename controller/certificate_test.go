package controller

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// mount is a directory as the kubelet mounts a Secret: its files are links through
// ..data, and ..data is changed in one step.
type mount struct {
	*testing.T
	dir string
}

func newMount(t *testing.T) mount {
	m := mount{t, t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key"} {
		m.check(os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
	}
	return m
}

func (m mount) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// swap replaces the files.
func (m mount) swap(version string, crt, key []byte) {
	m.Helper()
	dir := filepath.Join(m.dir, ".."+version)
	m.check(errors.Join(
		os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), crt, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
		os.Symlink(filepath.Base(dir), filepath.Join(m.dir, "..data_tmp")),
		os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")),
	))
}

// selfSigned returns a certificate with a serial number, and its key.
func selfSigned(t *testing.T, serial int64) (crt, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"op.test"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// A renewed certificate is served within moments. A certificate that cannot be read
// leaves the old one in place, and is reported once.
func TestCertificateIsReadAgain(t *testing.T) {
	m := newMount(t)
	crt1, key1 := selfSigned(t, 1)
	crt2, key2 := selfSigned(t, 2)
	synctest.Test(t, func(t *testing.T) {
		m.swap("first", crt1, key1)
		var log bytes.Buffer
		c, err := newCertificate(m.dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		serves := func(want int64) {
			t.Helper()
			time.Sleep(certificateAge)
			got, err := c.get(nil)
			if err != nil || got.Leaf.SerialNumber.Int64() != want {
				t.Errorf("%v, %v, want %d", got.Leaf.SerialNumber, err, want)
			}
		}
		serves(1)
		m.swap("second", crt2, key2)
		serves(2)
		m.swap("mixed", crt1, key2)
		serves(2)
		serves(2)
		if n := strings.Count(log.String(), "cannot read the renewed certificate"); n != 1 {
			t.Errorf("that it cannot be read was said %d times:\n%s", n, &log)
		}
		m.swap("third", crt1, key1)
		serves(1)
	})
}

// A program serves the certificate in CertDir, and does not start without one.
func TestServeCertificate(t *testing.T) {
	m := newMount(t)
	p := &program{Options: Options{CertDir: m.dir, Logger: slog.New(slog.DiscardHandler)}}
	if _, err := p.encryption(); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("without a certificate: %v", err)
	}
	m.swap("first", certificateOf(selfSigned(t, 7)), nil)
	if _, err := p.encryption(); err == nil {
		t.Error("without a key: no error")
	}
	crt, key := selfSigned(t, 7)
	m.swap("second", crt, key)
	config, err := p.encryption()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(theirs, config).HandshakeContext(t.Context()) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(crt)
	client := tls.Client(ours, &tls.Config{RootCAs: roots, ServerName: "op.test", NextProtos: []string{"h2", "http/1.1"}})
	if err := errors.Join(client.HandshakeContext(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	if state := client.ConnectionState(); state.PeerCertificates[0].SerialNumber.Int64() != 7 ||
		state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("certificate %v, protocol %q", state.PeerCertificates[0].SerialNumber, state.NegotiatedProtocol)
	}
}

func certificateOf(crt, _ []byte) []byte { return crt }

// A client that names no server gets the certificate in CertDir too, with any other
// configuration of the program.
func TestServeCertificateWithoutName(t *testing.T) {
	m := newMount(t)
	crt, key := selfSigned(t, 7)
	m.swap("first", crt, key)
	old, err := tls.X509KeyPair(selfSigned(t, 1))
	m.check(err)
	p := &program{Options: Options{
		CertDir: m.dir, Logger: slog.New(slog.DiscardHandler),
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{old}},
	}}
	config, err := p.encryption()
	m.check(err)
	ours, theirs := net.Pipe()
	defer ours.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(theirs, config).HandshakeContext(t.Context()) }()
	client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the test itself looks at the certificate
	m.check(client.HandshakeContext(t.Context()))
	if serial := client.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); serial != 7 {
		t.Errorf("certificate %d", serial)
	}
	m.check(<-done)
}
