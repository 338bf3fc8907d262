// Package pki makes certificate authorities, and the certificates of servers that they sign. Both
// have keys of ECDSA with P-256, and signatures with SHA-256. It also reads and writes them as PEM.
package pki

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"iter"
	"math/big"
	"net"
	"regexp"
	"slices"
	"time"
)

// The types of PEM blocks.
const (
	CertBlock = "CERTIFICATE"
	KeyBlock  = "PRIVATE KEY"
)

// MountDir is the directory of a pod at which the Secret of a certificate is mounted, unless
// the program names another.
const MountDir = "/etc/tls"

// SecretName returns the name of the Secret that has the certificate of a Service: the given
// one, or else the one that follows from the Service.
func SecretName(given, service string) string { return cmp.Or(given, service+"-tls") }

// Authority is a certificate authority.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey // nil: it signs no more
}

// name matches the names of the authorities that New makes.
var name = regexp.MustCompile(`^authority [0-9a-f]{16}$`)

// New makes an authority.
func New(now time.Time, life time.Duration) (Authority, error) {
	template := template(now, life)
	template.Subject = pkix.Name{CommonName: fmt.Sprintf("authority %x", template.SerialNumber.Bytes()[:8])}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	a, err := sign(template, Authority{Cert: template})
	if err != nil {
		return Authority{}, fmt.Errorf("make authority: %w", err)
	}
	return a, nil
}

// IsForeign reports that New has not made an authority.
func (a Authority) IsForeign() bool { return !name.MatchString(a.Cert.Subject.CommonName) }

// Serving makes the certificate of a server with names, which are DNS names and IP addresses. It
// ends with its authority at the latest.
func (a Authority) Serving(names []string, now time.Time, life time.Duration) (*tls.Certificate, error) {
	template := template(now, life)
	if template.NotAfter.After(a.Cert.NotAfter) {
		template.NotAfter = a.Cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	is, err := sign(template, a)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{is.Cert.Raw}, PrivateKey: is.Key, Leaf: is.Cert}, nil
}

// Signed reports whether an authority has signed the certificate of a server.
func (a Authority) Signed(c *tls.Certificate) bool { return c.Leaf.CheckSignatureFrom(a.Cert) == nil }

// Names returns the names in the certificate of a server.
func Names(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// Renewal returns when a certificate is replaced: after about two thirds of its life. The
// serial number spreads the renewals of certificates that were made together, and all
// processes agree about it.
func Renewal(c *x509.Certificate, life time.Duration) time.Time {
	serial := c.SerialNumber.Bytes()
	early := life / 10 / 256 * time.Duration(serial[len(serial)-1])
	return c.NotAfter.Add(-life/3 - early)
}

// IsPositive reports whether a certificate has a serial number as RFC 5280 wants it.
func IsPositive(c *x509.Certificate) bool { return c.SerialNumber != nil && c.SerialNumber.Sign() > 0 }

// Read returns the authorities in a text, with those of their keys that are in another. It leaves
// out all that it cannot read, and certificates that could sign nothing that a client trusts.
func Read(certs, keys []byte) (all []Authority) {
	var found []*ecdsa.PrivateKey
	for der := range blocks(keys, KeyBlock) {
		if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
			if key, ok := key.(*ecdsa.PrivateKey); ok {
				found = append(found, key)
			}
		}
	}
	for der := range blocks(certs, CertBlock) {
		cert, err := x509.ParseCertificate(der)
		if err != nil || !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0 || !IsPositive(cert) {
			continue
		}
		a := Authority{Cert: cert}
		if i := slices.IndexFunc(found, func(k *ecdsa.PrivateKey) bool { return k.PublicKey.Equal(cert.PublicKey) }); i >= 0 {
			a.Key = found[i]
		}
		all = append(all, a)
	}
	return all
}

// Bundle returns the certificates of authorities.
func Bundle(all []Authority) []byte {
	var bundle bytes.Buffer
	for _, a := range all {
		bundle.Write(pem.EncodeToMemory(&pem.Block{Type: CertBlock, Bytes: a.Cert.Raw}))
	}
	return bundle.Bytes()
}

// Keys returns the keys of authorities.
func Keys(all []Authority) ([]byte, error) {
	var keys bytes.Buffer
	for _, a := range all {
		if a.Key == nil {
			continue
		}
		text, err := Key(a.Key)
		if err != nil {
			return nil, err
		}
		keys.Write(text)
	}
	return keys.Bytes(), nil
}

// Key returns a private key as PKCS #8.
func Key(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: KeyBlock, Bytes: der}), nil
}

// blocks yields the PEM blocks of a type.
func blocks(text []byte, kind string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == kind && !yield(block.Bytes) {
				return
			}
		}
	}
}

// template returns the fields that all certificates have. They are valid since long ago, so that a
// clock which is ahead makes no certificate that others do not accept yet.
func template(now time.Time, life time.Duration) *x509.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial) // it never fails
	serial[0] = serial[0]&0x7f | 0x40
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), BasicConstraintsValid: true,
		NotBefore: now.Add(-life), NotAfter: now.Add(life),
	}
}

// sign makes a key and its certificate. An authority without a key means that the
// certificate signs itself.
func sign(template *x509.Certificate, by Authority) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	if by.Key == nil {
		by.Key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Cert, key.Public(), by.Key)
	if err != nil {
		return Authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return Authority{cert, key}, err
}

// Loopback makes the certificate of a server at 127.0.0.1, by an authority that nobody else has, and the
// bundle by which clients know it.
func Loopback(now time.Time, life time.Duration) (certificate *tls.Certificate, bundle []byte, err error) {
	authority, err := New(now, life)
	if err != nil {
		return nil, nil, err
	}
	certificate, err = authority.Serving([]string{"127.0.0.1"}, now, life)
	return certificate, Bundle([]Authority{authority}), err
}
