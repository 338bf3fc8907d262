package compute

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// The files in the data directory that PostgreSQL serves TLS with. Upstream copies them there.
const (
	serverCert = "server.crt"
	serverKey  = "server.key"
)

// serves returns the certificate that a configuration asks for. Upstream heeds it only with a
// feature.
func serves(c spec.Config) *spec.TLS {
	if !slices.Contains(c.Spec.Features, spec.FeatureTLS) {
		return nil
	}
	return c.ComputeCtl.TLS
}

// certify brings the certificate into the data directory. It waits for a good one, for ever.
func (n *node) certify(ctx context.Context, from *spec.TLS) error {
	for {
		err := copyCertificate(from, n.options.data)
		if err == nil {
			return nil
		}
		n.log.Error("could not load certs", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// renew brings the certificate to PostgreSQL until that ends: once it runs, and each time it changes.
// Upstream looks once a minute, and is configured again each time, so that it takes no other
// configuration meanwhile.
func (n *node) renew(ctx context.Context, from *spec.TLS, p *postgres) {
	var was []byte
	for {
		is, err := os.ReadFile(from.CertPath)
		if err == nil && !bytes.Equal(is, was) && n.setStatus(statusRunning, statusConfiguration) {
			was = is
			if n.certify(ctx, from) != nil || n.reconfigure(ctx, n.config) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-p.done:
			return
		case <-time.After(time.Second):
		}
	}
}

func copyCertificate(from *spec.TLS, data string) error {
	cert, err := os.ReadFile(from.CertPath)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	key, err := os.ReadFile(from.KeyPath)
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	if err := readable(cert, key); err != nil {
		return err
	}
	for name, text := range map[string][]byte{serverKey: key, serverCert: cert} {
		if err := os.WriteFile(filepath.Join(data, name), text, 0o600); err != nil {
			return fmt.Errorf("write certificate: %w", err)
		}
	}
	return nil
}

// readable returns an error for all keys but the two kinds that upstream's compute_tools/src/tls.rs
// reads.
func readable(cert, key []byte) error {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(key)
	switch pair.Leaf.SignatureAlgorithm {
	case x509.ECDSAWithSHA256:
		if k, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok || k.Curve != elliptic.P256() || block.Type != "EC PRIVATE KEY" {
			return errors.New("parse key")
		}
	case x509.PureEd25519:
		if _, ok := pair.PrivateKey.(ed25519.PrivateKey); !ok {
			return errors.New("parse key")
		}
	default:
		return fmt.Errorf("unknown TLS key type: %s", pair.Leaf.SignatureAlgorithm)
	}
	return nil
}

// setting returns the value of a setting.
func setting(c spec.Config, name string) string {
	for _, option := range c.Spec.Cluster.Settings {
		if strings.EqualFold(option.Name, name) {
			return option.Value
		}
	}
	return ""
}

// demands returns how a PostgreSQL of Neon's checks the certificates of safekeepers and of
// pageservers. It is nil for those that it does not ask for TLS. base backups never do.
func demands(c spec.Config) (safekeepers, pageservers *tls.Config, err error) {
	options := map[string]string{}
	for field := range strings.FieldsSeq(setting(c, "neon.safekeeper_conninfo_options")) {
		name, value, _ := strings.Cut(field, "=")
		options[name] = value
	}
	if safekeepers, err = checking(options["sslmode"], options["sslrootcert"]); err != nil {
		return nil, nil, err
	}
	first, _, _ := strings.Cut(setting(c, "neon.pageserver_connstring"), ",")
	u, err := url.Parse(first)
	if err != nil {
		return nil, nil, fmt.Errorf("read address of pageserver: %w", err)
	}
	pageservers, err = checking(u.Query().Get("sslmode"), u.Query().Get("sslrootcert"))
	return safekeepers, pageservers, err
}

func checking(mode, file string) (*tls.Config, error) {
	switch mode {
	case "":
		return nil, nil
	case "verify-full":
		return wire.Trusting(file)
	}
	return nil, fmt.Errorf("sslmode %s is not one that the stand-in knows", mode)
}
