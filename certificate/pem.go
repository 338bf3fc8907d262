package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// The keys of the data of a Secret. The first two are those of every Secret of type
// kubernetes.io/tls. The bundle is where cert-manager has it.
const (
	servingCert = "tls.crt"
	servingKey  = "tls.key"
	bundleCerts = "ca.crt"
	bundleKeys  = "ca.key"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "PRIVATE KEY"
)

// errForeign is the error of a Secret with the certificate of another issuer.
var errForeign = errors.New("the Secret has a certificate of another issuer: name another Secret, " +
	"or mount this one and use the files (see Files)")

// decode reads the data of a Secret. It leaves out all that it cannot read.
func decode(data map[string][]byte) (state, error) {
	if len(data[servingCert]) > 0 && len(data[bundleKeys]) == 0 {
		return state{}, errForeign
	}
	var s state
	var keys []*ecdsa.PrivateKey
	for der := range blocks(data[bundleKeys], keyBlock) {
		if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
			if key, ok := key.(*ecdsa.PrivateKey); ok {
				keys = append(keys, key)
			}
		}
	}
	for der := range blocks(data[bundleCerts], certBlock) {
		cert, err := x509.ParseCertificate(der)
		if err != nil || !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0 || !positive(cert) {
			continue // it could sign nothing that a client trusts
		}
		a := authority{cert: cert}
		if i := slices.IndexFunc(keys, func(k *ecdsa.PrivateKey) bool { return k.PublicKey.Equal(cert.PublicKey) }); i >= 0 {
			a.key = keys[i]
		}
		s.authorities = append(s.authorities, a)
	}
	if pair, err := tls.X509KeyPair(data[servingCert], data[servingKey]); err == nil && positive(pair.Leaf) {
		s.serving = &pair
	}
	return s, nil
}

// whole reports whether a state has all that a Secret needs.
func (s state) whole() bool {
	return s.serving != nil && len(s.authorities) > 0 && s.authorities[0].key != nil &&
		slices.ContainsFunc(s.authorities, func(a authority) bool { return signed(a, s.serving) })
}

// positive reports whether a certificate has a serial number as RFC 5280 wants it.
func positive(c *x509.Certificate) bool { return c.SerialNumber != nil && c.SerialNumber.Sign() > 0 }

// blocks yields the PEM blocks of a type.
func blocks(text []byte, kind string) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == kind && !yield(block.Bytes) {
				return
			}
		}
	}
}

// encode returns the data of a Secret.
func (s state) encode() (map[string][]byte, error) {
	var keys bytes.Buffer
	private := func(key any) ([]byte, error) {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), err
	}
	for _, a := range s.authorities {
		if a.key == nil {
			continue
		}
		text, err := private(a.key)
		if err != nil {
			return nil, fmt.Errorf("encode key: %w", err)
		}
		keys.Write(text)
	}
	key, err := private(s.serving.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return map[string][]byte{
		servingCert: pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: s.serving.Certificate[0]}),
		servingKey:  key, bundleCerts: s.bundle(), bundleKeys: keys.Bytes(),
	}, nil
}

// bundle returns the certificates of the authorities.
func (s state) bundle() []byte {
	var bundle bytes.Buffer
	for _, a := range s.authorities {
		bundle.Write(pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: a.cert.Raw}))
	}
	return bundle.Bytes()
}

// newAuthority makes a certificate authority.
func newAuthority(now time.Time, life time.Duration) (authority, error) {
	template := template(now, life)
	template.Subject = pkix.Name{CommonName: fmt.Sprintf("authority %x", template.SerialNumber.Bytes()[:8])}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	a, err := sign(template, authority{cert: template})
	if err != nil {
		return authority{}, fmt.Errorf("make authority: %w", err)
	}
	return a, nil
}

// newServing makes a serving certificate that ends with its authority at the latest.
func newServing(by authority, names []string, now time.Time, life time.Duration) (*tls.Certificate, error) {
	template := template(now, life)
	if template.NotAfter.After(by.cert.NotAfter) {
		template.NotAfter = by.cert.NotAfter
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
	is, err := sign(template, by)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{is.cert.Raw}, PrivateKey: is.key, Leaf: is.cert}, nil
}

// namesOf returns the names in a serving certificate.
func namesOf(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
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
func sign(template *x509.Certificate, by authority) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	if by.key == nil {
		by.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return authority{cert, key}, err
}
