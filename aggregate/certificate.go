package aggregate

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

// Certificate is the certificate that the server shows, and the authorities by which
// kube-apiserver checks it. Both functions are called again and again, so that certificates
// and authorities can be replaced while the server runs.
type Certificate struct {
	// Get returns the current certificate, as tls.Config.GetCertificate does. Its key is one
	// that package crypto/x509 can encode. It is called every minute with an empty hello.
	Get func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle returns the certificates of the authorities as PEM, for the caBundle of
	// the APIService. While an authority is replaced it has the old one and the new one.
	// Without Bundle somebody else keeps the caBundle right.
	Bundle func() []byte
}

// identity is the certificate as the server's library asks for it.
type identity struct {
	get    func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	bundle func() []byte

	crt, key []byte // the last that get returned
}

var _ dynamiccertificates.CertKeyContentProvider = (*identity)(nil)

// identity returns the certificate of the server. Without one it makes one for the names
// of the Service, with an authority of its own that signs nothing else. It waits until there
// is a certificate, because another part of the program may be making it.
func (s Server) identity(ctx context.Context, r Registration) (*identity, error) {
	if s.Certificate.Get == nil {
		host := cmp.Or(r.host(), "localhost")
		crt, key, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, []string{"localhost"})
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(crt, key)
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		s.Certificate.Get = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
		s.Certificate.Bundle = func() []byte { return crt }
	}
	i := &identity{get: s.Certificate.Get, bundle: s.Certificate.Bundle}
	for waited := false; ; waited = true {
		_, _, err := i.encode()
		if err == nil {
			return i, nil
		}
		if !waited {
			s.Logger.Warn("the API server waits for its certificate", "error", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for certificate: %w", err)
		}
	}
}

// encode returns certificate and key as PEM.
func (i *identity) encode() (crt, key []byte, err error) {
	pair, err := i.get(new(tls.ClientHelloInfo))
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range pair.Certificate {
		crt = append(crt, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})...)
	}
	i.crt, i.key = crt, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return i.crt, i.key, nil
}

// CurrentCertKeyContent returns the certificate and its key. One goroutine calls it. If the
// certificate cannot be read, the last one stays.
func (i *identity) CurrentCertKeyContent() (crt, key []byte) {
	if crt, key, err := i.encode(); err == nil {
		return crt, key
	}
	return i.crt, i.key
}

// Name names the certificate in logs.
func (i *identity) Name() string { return "serving certificate" }

// AddListener does nothing: the server reads the certificate again every minute.
func (i *identity) AddListener(dynamiccertificates.Listener) {}
