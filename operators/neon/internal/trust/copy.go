package trust

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/pintle-go/pintle/internal/pki"
)

// Copy returns the content of the Secret of a server with names, whose certificate somebody else has
// issued. The former certificate stays until all programs trust the authority of the issued one.
// known says that they do. The error tells why the issued one cannot be used.
func Copy(a Authorities, was, issued map[string][]byte, names []string, now time.Time, known bool) (map[string][]byte, error) {
	stays := verifies(a, was, names, now)
	data := map[string][]byte{Cert: was[Cert], Key: was[Key], Bundle: pki.Bundle(a)}
	if err := Check(issued, names, now); err != nil {
		if stays {
			return data, nil // its issuer is seen to be in trouble by its Certificate
		}
		return nil, err
	}
	switch {
	case !verifies(a, issued, names, now):
		if stays {
			return data, nil
		}
		return nil, fmt.Errorf("the authority of the certificate is not among those of the cluster")
	case stays && !known && !verifies(a[1:], issued, names, now) && !verifies(a[:1], was, names, now):
		return data, nil // programs that run may not trust the newest authority
	}
	data[Cert], data[Key] = issued[Cert], issued[Key]
	return data, nil
}

// verifies reports that a client which trusts authorities accepts a server.
func verifies(a Authorities, data map[string][]byte, names []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(data[Cert], data[Key])
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	for _, one := range a {
		roots.AddCert(one.Cert)
	}
	return chain(pair, roots, now) == nil && !slices.ContainsFunc(names, func(name string) bool { return pair.Leaf.VerifyHostname(name) != nil })
}
