package aggregate

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"

	"github.com/pintle-go/pintle/internal/pki"
)

// identity returns the certificate of the server as the server's library asks for it. Without one
// it makes one for the names of the Service, with an authority of its own that signs nothing
// else, and returns that as well. It waits until there is a certificate, because another part of
// the program may be making it.
func (s Server) identity(
	ctx context.Context, r Registration,
) (_ dynamiccertificates.CertKeyContentProvider, bundle []byte, err error) {
	if s.GetCertificate == nil {
		crt, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
			Host:         strings.Trim(r.Service.Name+"."+r.Service.Namespace+".svc", "."),
			AlternateIPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			AlternateDNS: []string{"localhost"}, MaxAge: 10 * 365 * 24 * time.Hour, // longer than any process runs
		})
		if err != nil {
			return nil, nil, fmt.Errorf("make certificate: %w", err)
		}
		made, err := dynamiccertificates.NewStaticCertKeyContent("serving certificate", crt, key)
		return made, crt, err
	}
	var told sync.Once
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		_, _, err := encode(s.GetCertificate)
		if err != nil {
			told.Do(func() { s.Logger.Warn("the API server waits for its certificate", "error", err) })
		}
		return err == nil, nil
	})
	return identity(s.GetCertificate), nil, err
}

// identity is a certificate that may change.
type identity func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// encode returns certificate and key as PEM.
func encode(get identity) (crt, key []byte, err error) {
	pair, err := get(new(tls.ClientHelloInfo))
	if err != nil || pair == nil {
		return nil, nil, cmp.Or(err, errors.New("there is no certificate"))
	}
	for _, c := range pair.Certificate {
		crt = append(crt, pem.EncodeToMemory(&pem.Block{Type: pki.CertBlock, Bytes: c})...)
	}
	key, err = pki.Key(pair.PrivateKey)
	return crt, key, err
}

// CurrentCertKeyContent returns the certificate and its key, or nothing if they cannot be read:
// then the server goes on with the last ones.
func (i identity) CurrentCertKeyContent() (crt, key []byte) {
	crt, key, _ = encode(i)
	return crt, key
}

// Name names the certificate in logs.
func (i identity) Name() string { return "serving certificate" }

// AddListener does nothing: the server reads the certificate again every minute.
func (i identity) AddListener(dynamiccertificates.Listener) {}
