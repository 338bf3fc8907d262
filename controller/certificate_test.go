package controller

import (
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
	"time"
)

// pairDir returns a directory with the files of a certificate.
func pairDir(t *testing.T, crt, key []byte) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "tls.crt"), crt, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
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

// A program serves the certificate in CertDir, and does not start without one.
func TestServeCertificate(t *testing.T) {
	crt, key := selfSigned(t, 7)
	p := &program{Options: Options{CertDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}}
	if _, err := p.encryption(); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("without a certificate: %v", err)
	}
	p.CertDir = pairDir(t, crt, nil)
	if _, err := p.encryption(); err == nil {
		t.Error("without a key: no error")
	}
	p.CertDir = pairDir(t, crt, key)
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

// A client that names no server gets the certificate in CertDir too, with any other
// configuration of the program.
func TestServeCertificateWithoutName(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old, err := tls.X509KeyPair(selfSigned(t, 1))
	check(err)
	crt, key := selfSigned(t, 7)
	p := &program{Options: Options{
		CertDir: pairDir(t, crt, key), Logger: slog.New(slog.DiscardHandler),
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{old}},
	}}
	config, err := p.encryption()
	check(err)
	ours, theirs := net.Pipe()
	defer ours.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(theirs, config).HandshakeContext(t.Context()) }()
	client := tls.Client(
		ours, &tls.Config{InsecureSkipVerify: true},
	) //nolint:gosec // the test itself looks at the certificate
	check(client.HandshakeContext(t.Context()))
	if serial := client.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); serial != 7 {
		t.Errorf("certificate %d", serial)
	}
	check(<-done)
}
