// Package pki issues the certificates of a local cluster.
//
// An [Authority] is one certificate authority, kept in two files. A cluster has three, as
// a real one does: one for the API server and its clients, one for etcd and its clients,
// one for the front proxy. Authorities and the service account key outlive a cluster's
// processes; their certificates are issued again at each start.
//
// Private keys are written with mode 0600, into directories with mode 0700.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour

	// Clocks of containers and virtual machines may lag a little.
	backdate = time.Hour
)

// A Pair names the files of a certificate and its private key.
type Pair struct {
	CertFile string
	KeyFile  string
}

// An Authority is a certificate authority. It is safe for concurrent use.
type Authority struct {
	// Pair has the authority's own certificate and key.
	Pair

	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// OpenAuthority reads the authority in dir/name.crt and dir/name.key, or makes it if
// neither file exists.
func OpenAuthority(dir, name string) (*Authority, error) {
	files := Pair{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
	a, err := readAuthority(files)
	if errors.Is(err, fs.ErrNotExist) && !exists(files.CertFile) {
		a, err = newAuthority(files, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open certificate authority %s: %w", name, err)
	}
	return a, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return a.pem }

// An Identity describes the holder of a certificate.
type Identity struct {
	CommonName    string   // the user name, for a client
	Organizations []string // the groups, for a client

	// Names and addresses at which a server is reached. A certificate with any of them
	// can be a server's; every certificate can be a client's.
	DNSNames []string
	IPs      []net.IP
}

// Issue makes a key and a certificate for it and writes both to base.crt and base.key,
// replacing existing files.
func (a *Authority) Issue(base string, id Identity) (Pair, error) {
	files := Pair{CertFile: base + ".crt", KeyFile: base + ".key"}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate key of %s: %w", id.CommonName, err)
	}
	template, err := a.template(id)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate of %s: %w", id.CommonName, err)
	}
	if err := writeKey(files.KeyFile, key); err != nil {
		return Pair{}, err
	}
	if err := WriteFile(files.CertFile, encodeCert(der), 0o644); err != nil {
		return Pair{}, err
	}
	return files, nil
}

func (a *Authority) template(id Identity) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.DNSNames)+len(id.IPs) > 0 {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id.CommonName, Organization: id.Organizations},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usage,
		DNSNames:     id.DNSNames,
		IPAddresses:  id.IPs,
	}, nil
}

func readAuthority(files Pair) (*Authority, error) {
	certPEM, err := os.ReadFile(files.CertFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate", files.CertFile)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", files.CertFile, err)
	}
	if left := time.Until(cert.NotAfter); left < leafLife {
		return nil, fmt.Errorf("%s expires on %s", files.CertFile, cert.NotAfter.Format(time.DateOnly))
	}
	key, err := readKey(files.KeyFile)
	if err != nil {
		return nil, err
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("%s is not the key of %s", files.KeyFile, files.CertFile)
	}
	return &Authority{Pair: files, cert: cert, key: key, pem: certPEM}, nil
}

func newAuthority(files Pair, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	// The certificate is written last: an authority without a certificate is made again.
	if err := writeKey(files.KeyFile, key); err != nil {
		return nil, err
	}
	if err := WriteFile(files.CertFile, encodeCert(der), 0o644); err != nil {
		return nil, err
	}
	return readAuthority(files)
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generate serial number: %w", err)
	}
	return serial, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
