// Package trust makes the certificates by which the programs of a cluster know each other: a
// certificate authority in one Secret, and a certificate for each server in another.
//
// The programs read the certificates of their servers again by themselves, and the authorities
// that they trust only at their start. So an authority gets its successor long before it ends,
// and the successor signs nothing until all programs have been restarted with it:
//
//	trusted   certificates of
//	A         A
//	B A       A   B is added, and the programs are restarted one by one
//	B A       B   all programs trust B; the key of A is gone
//	B         B   A has expired
//
// compute_ctl reads a key only as upstream's own cert-manager writes it: ECDSA with P-256 in SEC 1,
// in a certificate that is signed with ECDSA and SHA-256, or Ed25519 in PKCS #8. With any other it
// waits for ever: see [Check].
package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pintle-go/pintle/internal/pki"
)

// The keys of the Secrets. The first three are also files, in the directory of the certificate.
const (
	Cert   = "tls.crt"
	Key    = "tls.key"
	Bundle = "ca.crt"

	bundleKeys = "ca.key"
)

// Dir is the directory of the certificate in all pods.
const Dir = "/tls"

// Terms are the times of the certificates. The zero value has the usual ones.
type Terms struct {
	// Serving is the life of a server's certificate, which is replaced after two thirds of it.
	// Default: 90 days.
	Serving time.Duration
	// Authority is the life of an authority. Its successor is made after two thirds of it.
	// Default: 5 years.
	Authority time.Duration
	// Propagation is the time after which the files of all pods have a new authority: the operator
	// looks at each Secret within an hour, and the kubelet within minutes. Default: 2 hours.
	Propagation time.Duration
}

func (t Terms) or() Terms {
	if t.Serving == 0 {
		t.Serving = 90 * 24 * time.Hour
	}
	if t.Authority == 0 {
		t.Authority = 5 * 365 * 24 * time.Hour
	}
	if t.Propagation == 0 {
		t.Propagation = 2 * time.Hour
	}
	return t
}

// Authorities are those that the programs of a cluster trust, the newest first. The last one with
// a key signs.
type Authorities []pki.Authority

// Read returns the authorities in a Secret.
func Read(data map[string][]byte) Authorities { return pki.Read(data[Bundle], data[bundleKeys]) }

// Recall returns the authorities of a cluster in its Secret. If none of them can sign, because somebody
// has deleted or changed the Secret, those beside the certificates of servers are added: the programs
// that run trust no others. Authorities that this package has not made are left out.
func Recall(data map[string][]byte, servers ...map[string][]byte) Authorities {
	own := func(bundle []byte) Authorities {
		return slices.DeleteFunc(pki.Read(bundle, data[bundleKeys]), pki.Authority.IsForeign)
	}
	all := own(data[Bundle])
	if _, err := all.signer(); err == nil {
		return all
	}
	for _, server := range servers {
		for _, one := range own(server[Bundle]) {
			if !all.has(one) {
				all = append(all, one)
			}
		}
	}
	return all
}

func (a Authorities) has(one pki.Authority) bool {
	return slices.ContainsFunc(a, func(a pki.Authority) bool { return bytes.Equal(a.Cert.Raw, one.Cert.Raw) })
}

// Data returns the content of the Secret with the authorities.
func (a Authorities) Data() (map[string][]byte, error) {
	keys, err := pki.Keys(a)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{Bundle: pki.Bundle(a)}
	if len(keys) > 0 {
		data[bundleKeys] = keys
	}
	return data, nil
}

// Newest names the newest authority. Programs that were started with it trust all others as well.
func (a Authorities) Newest() string {
	if len(a) == 0 {
		return ""
	}
	sum := sha256.Sum256(a[0].Cert.Raw)
	return hex.EncodeToString(sum[:8])
}

// Next returns the authorities that follow. known says that all programs were started with the
// newest one.
func (t Terms) Next(a Authorities, now time.Time, known bool) (Authorities, error) {
	t = t.or()
	next := slices.DeleteFunc(slices.Clone(a), func(a pki.Authority) bool { return !now.Before(a.Cert.NotAfter) })
	if len(next) == 0 || next[0].Key == nil || !now.Before(pki.Renewal(next[0].Cert, t.Authority)) {
		successor, err := pki.New(now, t.Authority)
		if err != nil {
			return nil, err
		}
		return slices.Insert(next, 0, successor), nil
	}
	if known && now.Sub(made(next[0].Cert)) >= t.Propagation {
		for i := range next[1:] {
			next[i+1].Key = nil
		}
	}
	return next, nil
}

// made returns when an authority of package pki was made: in the middle of its life, because it is
// valid since one life before.
func made(c *x509.Certificate) time.Time { return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 2) }

// signer returns the authority that signs.
func (a Authorities) signer() (pki.Authority, error) {
	for _, one := range slices.Backward(a) {
		if one.Key != nil {
			return one, nil
		}
	}
	return pki.Authority{}, errors.New("the key of the authority is missing")
}

// Server returns the content of the Secret of a server with names. The former certificate stays
// unless it has to be made again. All that the programs trust is beside it. known says that all who
// connect trust the newest authority. Until then a certificate of a former one stays, even if that
// cannot sign any more.
func (t Terms) Server(a Authorities, was map[string][]byte, names []string, now time.Time, known bool) (map[string][]byte, error) {
	t = t.or()
	by, err := a.signer()
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{Cert: was[Cert], Key: was[Key], Bundle: pki.Bundle(a)}
	of := a
	if known {
		of = Authorities{by}
	}
	if leaf := of.served(data, names, now); leaf != nil &&
		(now.Before(pki.Renewal(leaf, t.Serving)) || !by.Cert.NotAfter.After(leaf.NotAfter)) {
		return data, nil
	}
	is, err := by.Serving(names, now, t.Serving)
	if err != nil {
		return nil, err
	}
	key, ok := is.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key of a certificate is %T", is.PrivateKey)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	data[Cert] = pem.EncodeToMemory(&pem.Block{Type: pki.CertBlock, Bytes: is.Certificate[0]})
	data[Key] = pem.EncodeToMemory(&pem.Block{Type: sec1Block, Bytes: der})
	return data, nil
}

const sec1Block = "EC PRIVATE KEY"

// served returns a server's certificate, if it is for names, one of the authorities has signed it, and
// all programs can read it. It is nil otherwise.
func (a Authorities) served(data map[string][]byte, names []string, now time.Time) *x509.Certificate {
	pair, err := tls.X509KeyPair(data[Cert], data[Key])
	if err != nil || !pki.IsPositive(pair.Leaf) || readable(pair.Leaf, data[Key]) != nil {
		return nil
	}
	alone := bytes.Equal(data[Cert], pem.EncodeToMemory(&pem.Block{Type: pki.CertBlock, Bytes: pair.Leaf.Raw}))
	signed := slices.ContainsFunc(a, func(a pki.Authority) bool { return a.Signed(&pair) })
	if !alone || !signed || !slices.Equal(pki.Names(pair.Leaf), names) || !now.Before(pair.Leaf.NotAfter) {
		return nil
	}
	return pair.Leaf
}

// Due returns when to look again, in at most an hour. data are the contents of the servers' Secrets.
func (t Terms) Due(a Authorities, now time.Time, data ...map[string][]byte) time.Duration {
	t = t.or()
	due := now.Add(time.Hour)
	at := func(when time.Time) {
		if when.After(now) && when.Before(due) {
			due = when
		}
	}
	for i, one := range a {
		at(one.Cert.NotAfter)
		if i == 0 {
			at(pki.Renewal(one.Cert, t.Authority))
			at(made(one.Cert).Add(t.Propagation))
		}
	}
	for _, d := range data {
		if pair, err := tls.X509KeyPair(d[Cert], d[Key]); err == nil && pki.IsPositive(pair.Leaf) {
			at(pki.Renewal(pair.Leaf, t.Serving))
		}
	}
	return due.Sub(now) + time.Millisecond
}

// Check returns why a program of Neon cannot serve with the content of a server's Secret, which
// somebody else has made.
func Check(data map[string][]byte, names []string, now time.Time) error {
	for _, key := range []string{Cert, Key, Bundle} {
		if len(data[key]) == 0 {
			return fmt.Errorf("the key %s is missing", key)
		}
	}
	pair, err := tls.X509KeyPair(data[Cert], data[Key])
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	leaf := pair.Leaf
	for _, name := range names {
		if err := leaf.VerifyHostname(name); err != nil {
			return err
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[Bundle])
	if err := chain(pair, roots, now); err != nil {
		return fmt.Errorf("the certificate is not of the authority in %s: %w", Bundle, err)
	}
	return readable(leaf, data[Key])
}

// chain returns an error unless an authority among roots has signed a server's certificate, itself
// or by the certificates that are beside it.
func chain(pair tls.Certificate, roots *x509.CertPool, now time.Time) error {
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	return err
}

// readable returns why compute_ctl cannot read a key.
func readable(leaf *x509.Certificate, key []byte) error {
	block, _ := pem.Decode(key)
	switch public := leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		switch {
		case leaf.SignatureAlgorithm != x509.ECDSAWithSHA256:
			return fmt.Errorf("the certificate is signed with %s: computes need an issuer with an ECDSA key of P-256",
				leaf.SignatureAlgorithm)
		case public.Curve != elliptic.P256():
			return fmt.Errorf("the key is of curve %s: computes need P-256", public.Curve.Params().Name)
		case block == nil || block.Type != sec1Block:
			return fmt.Errorf("the key is not of the encoding PKCS1, which is %q for ECDSA", sec1Block)
		}
		return nil
	case ed25519.PublicKey:
		if leaf.SignatureAlgorithm == x509.PureEd25519 {
			return nil
		}
		return fmt.Errorf("the certificate is signed with %s: computes need Ed25519 for such a key", leaf.SignatureAlgorithm)
	}
	return fmt.Errorf("the key is %s: computes need ECDSA or Ed25519", leaf.PublicKeyAlgorithm)
}

// Join returns the authorities that are trusted when another bundle is added to them. The new ones
// come first. Those that have expired leave.
func Join(a Authorities, bundle []byte, now time.Time) Authorities {
	next := slices.DeleteFunc(slices.Clone(a), func(a pki.Authority) bool { return !now.Before(a.Cert.NotAfter) })
	for _, one := range pki.Read(bundle, nil) {
		if now.Before(one.Cert.NotAfter) && !next.has(one) {
			next = slices.Insert(next, 0, one)
		}
	}
	return next
}
