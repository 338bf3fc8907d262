package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// serve serves on a loopback port with a certificate of authority a, requires clients of
// authority a, and answers with the client's name and groups.
func serve(t *testing.T, a *Authority) string {
	t.Helper()
	pair, err := a.Issue(filepath.Join(t.TempDir(), "server"), Identity{
		CommonName: "server", IPs: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		fmt.Fprint(w, subject.CommonName, " ", strings.Join(subject.Organization, ","))
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := OpenAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestKubeconfigAuthenticates(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir)
	server := serve(t, a)

	get := func(signer, trusted *Authority) (string, error) {
		client, err := signer.Issue(
			filepath.Join(dir, "client"), Identity{CommonName: "me", Organizations: []string{"one", "two"}},
		)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "sub", "kubeconfig")
		k := Kubeconfig{Name: "pintle-x", User: "me", Server: server, Authority: trusted, Client: client}
		if err := k.Write(file); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("mode of kubeconfig: %v %v", info.Mode(), err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		defer utilnet.CloseIdleConnectionsFor(c.Transport)
		response, err := c.Get(server)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}

	if got, err := get(a, a); err != nil || got != "me one,two" {
		t.Errorf("client of the authority: %q, %v", got, err)
	}
	if got, err := get(open(t, dir), a); err != nil || got != "me one,two" {
		t.Errorf("client of the authority, opened again: %q, %v", got, err)
	}
	other := open(t, t.TempDir())
	if got, err := get(other, a); err == nil {
		t.Errorf("client of another authority was let in: %q", got)
	}
	if got, err := get(a, other); err == nil {
		t.Errorf("client trusts a server of another authority: %q", got)
	}
}

func TestPrivateKeysArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := open(t, dir)
	if _, err := a.Issue(filepath.Join(dir, "leaf"), Identity{CommonName: "leaf"}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyPair(dir, "service-account"); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != 3 {
		t.Fatalf("keys: %v %v", keys, err)
	}
	for _, key := range append(keys, dir) {
		info, err := os.Stat(key)
		if err != nil {
			t.Fatal(err)
		}
		if open := info.Mode().Perm() & 0o077; open != 0 {
			t.Errorf("%s is open to others: %v", key, info.Mode())
		}
	}
}

func TestKeyPairStays(t *testing.T) {
	dir := t.TempDir()
	var contents [2]string
	for i := range contents {
		pair, err := OpenKeyPair(dir, "service-account")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{pair.PrivateFile, pair.PublicFile} {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			contents[i] += string(data)
		}
	}
	if contents[0] != contents[1] {
		t.Error("the key pair is another after it was opened again")
	}
}

func TestBrokenAuthority(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, dir string){
		"certificate is no certificate": func(t *testing.T, dir string) { write(t, dir, "ca.crt", "hello") },
		"key is no key":                 func(t *testing.T, dir string) { write(t, dir, "ca.key", "hello") },
		"key is gone": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
				t.Fatal(err)
			}
		},
		"key is another's": func(t *testing.T, dir string) {
			other := open(t, t.TempDir())
			data, err := os.ReadFile(other.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "ca.key", string(data))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			breakIt(t, dir)
			before, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := OpenAuthority(dir, "ca"); err == nil {
				t.Error("it was opened")
			}
			after, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
			if err != nil || string(before) != string(after) {
				t.Errorf("the certificate was written over the old one: %v", err)
			}
		})
	}
}

func TestAuthorityIsMadeAgainWithoutCertificate(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
