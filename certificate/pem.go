package certificate

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"slices"

	"github.com/pintle-go/pintle/internal/pki"
)

// The keys of the data of a Secret. The first two are those of every Secret of type
// kubernetes.io/tls. The bundle is where cert-manager has it.
const (
	servingCert = "tls.crt"
	servingKey  = "tls.key"
	bundleCerts = "ca.crt"
	bundleKeys  = "ca.key"
)

// errForeign is the error of a Secret with the certificate of another issuer.
var errForeign = errors.New("the Secret has a certificate of another issuer: name another Secret, " +
	"or mount this one and use the files (see Files)")

// decode reads the data of a Secret. It leaves out all that it cannot read. A Secret that has lost
// the keys of its authorities is damaged, if the authorities are those of an Issuer.
func decode(data map[string][]byte) (state, error) {
	s := read(data)
	if len(data[servingCert]) > 0 && len(data[bundleKeys]) == 0 &&
		(!s.consistent() || slices.ContainsFunc(s.authorities, authority.IsForeign)) {
		return state{}, errForeign
	}
	return s, nil
}

// read reads the data of a Secret.
func read(data map[string][]byte) state {
	s := state{authorities: pki.Read(data[bundleCerts], data[bundleKeys])}
	if pair, err := tls.X509KeyPair(data[servingCert], data[servingKey]); err == nil && pki.IsPositive(pair.Leaf) {
		s.serving = &pair
	}
	return s
}

// whole reports whether a state has all that a Secret needs.
func (s state) whole() bool {
	return s.consistent() && s.authorities[0].Key != nil
}

// consistent reports whether an authority of a state has signed its serving certificate.
func (s state) consistent() bool {
	return s.serving != nil && slices.ContainsFunc(s.authorities, func(a authority) bool { return a.Signed(s.serving) })
}

// encode returns the data of a Secret.
func (s state) encode() (map[string][]byte, error) {
	keys, err := pki.Keys(s.authorities)
	if err != nil {
		return nil, err
	}
	key, err := pki.Key(s.serving.PrivateKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		servingCert: pem.EncodeToMemory(&pem.Block{Type: pki.CertBlock, Bytes: s.serving.Certificate[0]}),
		servingKey:  key, bundleCerts: s.bundle(), bundleKeys: keys,
	}, nil
}

// bundle returns the certificates of the authorities.
func (s state) bundle() []byte { return pki.Bundle(s.authorities) }
