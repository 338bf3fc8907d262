package aggregate_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// signed is a certificate with its key, and the PEM of both.
type signed struct {
	certificate *x509.Certificate
	key         crypto.Signer
	crt, keyPEM []byte
}

// sign makes a certificate of an authority, or an authority if by is nil.
func sign(t *testing.T, name string, by *signed, hosts ...string) *signed {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := of, crypto.Signer(key)
	if by == nil {
		of.IsCA, of.BasicConstraintsValid, of.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	check(err)
	parsed, err := x509.ParseCertificate(der)
	check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	return &signed{
		parsed, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// rotating is a certificate that the test replaces.
type rotating struct {
	pair   atomic.Pointer[tls.Certificate]
	bundle atomic.Pointer[[]byte]
}

func (r *rotating) set(t *testing.T, s *signed) {
	t.Helper()
	pair, err := tls.X509KeyPair(s.crt, s.keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	r.pair.Store(&pair)
}

func (r *rotating) trust(all ...*signed) {
	var bundle []byte
	for _, s := range all {
		bundle = append(bundle, s.crt...)
	}
	r.bundle.Store(&bundle)
}

// TestSoakRotation replaces the serving certificate with its authority, and then the
// authority by which the server knows kube-apiserver, while clients read and write. No request
// fails.
func TestSoakRotation(t *testing.T) {
	var serving rotating
	server := plain(t)
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return serving.pair.Load(), nil }
	cluster := kubetest.Start(t, kubetest.Options{Private: true, ServerOnly: true})
	f := prepare(t, cluster)
	host := "samples-local." + f.namespace + ".svc"
	first, second := sign(t, "first", nil), sign(t, "second", nil)
	serving.set(t, sign(t, host, first, host))
	serving.trust(first)
	f.inject(&serving)
	f.start(server)

	requests, stop := f.load(0)
	t.Run("serving certificate", func(t *testing.T) {
		serving.trust(first, second)
		kubetest.Eventually(t, "the APIServices have both authorities", func() error { return f.trusted(first, second) })
		next := sign(t, host, second, host)
		serving.set(t, next)
		kubetest.Eventually(t, "the server shows the other certificate", func() error {
			if !bytes.Equal(f.shown(), next.certificate.Raw) {
				return errors.New("it shows the first")
			}
			return nil
		})
		serving.trust(second)
		kubetest.Eventually(t, "the APIServices have one authority", func() error { return f.trusted(second) })
	})
	t.Run("front proxy", func(t *testing.T) {
		dir := filepath.Dir(cluster.Kubeconfig())
		authority, client, key := find(t, dir, "front-proxy-ca.crt"), find(t, dir, "front-proxy-client.crt"), find(t, dir, "front-proxy-client.key")
		old, err := os.ReadFile(authority)
		f.ok(err)
		next := sign(t, "other front proxy", nil)
		f.replace(authority, append(bytes.Clone(old), next.crt...))
		kubetest.Eventually(t, "both authorities are published", func() error {
			return f.published(string(old), string(next.crt))
		})
		time.Sleep(5 * time.Second) // the server has no sign by which the test could know that it has read them
		identity := sign(t, "front-proxy-client", next)
		// kube-apiserver takes both files when they belong together.
		f.replace(key, identity.keyPEM)
		f.replace(client, identity.crt)
		time.Sleep(75 * time.Second) // it reads them every minute, and says so nowhere
		// From here on kube-apiserver trusts the other authority alone. It goes on to publish both.
		f.replace(authority, next.crt)
		time.Sleep(5 * time.Second) // as before
	})
	stop()
	t.Logf("%d requests", requests.Load())
	if requests.Load() < 1000 {
		t.Error("that is no load")
	}
}

// load reads and writes until stop. Each failed request is an error of the test.
//
// A server that ends a connection of HTTP/2 ignores requests that are on their way to it. The client
// repeats them by itself, unless it has sent a body that it cannot send again: kube-apiserver cannot. So
// a write may be turned away without an effect. Up to as many as turnedAway are repeated.
func (f *bench) load(turnedAway int64) (requests *atomic.Int64, stop func()) {
	requests = new(atomic.Int64)
	var repeated atomic.Int64
	do := func(method, path, body string) answer {
		got := f.do(method, path, body)
		if got.Code == http.StatusServiceUnavailable && strings.Contains(got.Body, "graceful shutdown GOAWAY") &&
			repeated.Add(1) <= turnedAway {
			got = f.do(method, path, body)
		}
		return got
	}
	var clients sync.WaitGroup
	end := make(chan struct{})
	for i := range 4 {
		clients.Go(func() {
			path := f.path(group, "")
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				case <-time.After(10 * time.Millisecond): // the pace of the load
				}
				name := fmt.Sprintf("sample-%d-%d", i, n)
				for _, got := range []answer{
					do("POST", path, strings.ReplaceAll(sample(name, `{"weight":1,"height":100}`), "{g}", group)),
					do("GET", path+"/"+name, ""),
					do("DELETE", path+"/"+name, ""),
				} {
					requests.Add(1)
					if got.Code != http.StatusOK && got.Code != http.StatusCreated {
						f.Errorf("%s: %d %s", name, got.Code, got.Body)
					}
				}
			}
		})
	}
	return requests, func() { close(end); clients.Wait() }
}

// inject keeps the caBundle of the APIServices right until the test ends, as an issuer does.
func (f *bench) inject(r *rotating) {
	ctx, stop := context.WithCancel(f.Context())
	var injector sync.WaitGroup
	f.Cleanup(func() { stop(); injector.Wait() })
	services := kube.For[apiService](f.client)
	injector.Go(func() {
		for ctx.Err() == nil {
			bundle := *r.bundle.Load()
			for s, err := range services.List(ctx) {
				if err == nil && s.Spec.Group == group && !bytes.Equal(s.Spec.CABundle, bundle) {
					body, _ := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": bundle}})
					_, _ = services.Patch(ctx, s.Name, types.MergePatchType, body)
				}
			}
			time.Sleep(100 * time.Millisecond) // the pace of the injector
		}
	})
}

// trusted reports whether all APIServices have exactly these authorities.
func (f *bench) trusted(authorities ...*signed) error {
	var r rotating
	r.trust(authorities...)
	for s, err := range kube.For[apiService](f.client).List(f.Context()) {
		f.ok(err)
		if s.Spec.Group == group && !bytes.Equal(s.Spec.CABundle, *r.bundle.Load()) {
			return fmt.Errorf("%s has a bundle of %d bytes, want %d", s.Name, len(s.Spec.CABundle), len(*r.bundle.Load()))
		}
	}
	return nil
}

// shown returns the certificate that the server shows.
func (f *bench) shown() []byte {
	f.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(f.address, "https://"), &tls.Config{InsecureSkipVerify: true}) // it is compared
	f.ok(err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Raw
}

// published reports whether kube-apiserver publishes these authorities of the front proxy.
func (f *bench) published(authorities ...string) error {
	c, err := kube.For[corev1.ConfigMap](f.client).In("kube-system").Get(f.Context(), "extension-apiserver-authentication")
	f.ok(err)
	text := c.Data["requestheader-client-ca-file"]
	for _, a := range authorities {
		if !strings.Contains(text, strings.TrimSpace(a)) {
			return fmt.Errorf("published is %s", text)
		}
	}
	return nil
}

// replace writes a file in one step.
func (f *bench) replace(file string, content []byte) {
	f.Helper()
	f.ok(os.WriteFile(file+".new", content, 0o600))
	f.ok(os.Rename(file+".new", file))
}

func find(t *testing.T, dir, name string) (path string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			path = file
		}
		return nil
	})
	if err != nil || path == "" {
		t.Fatalf("%s is not in %s: %v", name, dir, err)
	}
	return path
}
