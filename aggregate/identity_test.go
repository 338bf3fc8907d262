package aggregate_test

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// authority reads an authority of the cluster with its key.
func (f *bench) authority(name string) *signed {
	f.Helper()
	dir := filepath.Dir(f.cluster.Kubeconfig())
	crt, err := os.ReadFile(find(f.T, dir, name+".crt"))
	f.ok(err)
	key, err := os.ReadFile(find(f.T, dir, name+".key"))
	f.ok(err)
	block, _ := pem.Decode(crt)
	parsed, err := x509.ParseCertificate(block.Bytes)
	f.ok(err)
	block, _ = pem.Decode(key)
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		private, err = x509.ParseECPrivateKey(block.Bytes)
	}
	f.ok(err)
	return &signed{parsed, private.(crypto.Signer), crt, key}
}

// token returns a token of the service account "default", which has no rights.
func (f *bench) token() string {
	f.Helper()
	var got answer
	f.answers("there is a service account", http.StatusCreated, func() answer {
		got = f.do("POST", "/api/v1/namespaces/"+f.namespace+"/serviceaccounts/default/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)
		return got
	})
	var t struct{ Status struct{ Token string } }
	f.ok(json.Unmarshal([]byte(got.Body), &t))
	return t.Status.Token
}

// testForged calls the server directly, with a credential that is valid and names of somebody else in
// the headers that kube-apiserver uses. The names do not count. The answer for a user without
// rights is that of the twin.
func testForged(f *bench) {
	proxies, clients := f.authority("front-proxy-ca"), f.authority("ca")
	get := func(by *signed, header ...string) answer {
		f.Helper()
		config := &tls.Config{InsecureSkipVerify: true} // other tests check the server's certificate
		if by != nil {
			pair, err := tls.X509KeyPair(by.crt, by.keyPEM)
			f.ok(err)
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
		req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.address+f.path(group, ""), http.NoBody)
		f.ok(err)
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Add(name, value)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		f.ok(err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		f.ok(err)
		return answer{resp.StatusCode, string(body), resp.Header.Values("Warning")}
	}
	forged := []string{"X-Remote-User: admin", "X-Remote-Group: system:masters"}
	if got := get(sign(f.T, "front-proxy-client", proxies), forged...); got.Code != http.StatusOK {
		f.Errorf("with the certificate of kube-apiserver: %d %s", got.Code, got.Body)
	}
	if got := get(sign(f.T, "other-client", proxies), forged...); got.Code != http.StatusUnauthorized {
		f.Errorf("with another name from the authority of kube-apiserver: %d %s", got.Code, got.Body)
	}
	if got := get(sign(f.T, "front-proxy-client", sign(f.T, "own", nil)), forged...); got.Code != http.StatusUnauthorized {
		f.Errorf("with the name of kube-apiserver from another authority: %d %s", got.Code, got.Body)
	}
	token := "Authorization: Bearer " + f.token()
	user := "system:serviceaccount:" + f.namespace + ":default"
	for name, got := range map[string]answer{
		user:     get(nil, append(forged, token)...),
		"nobody": get(sign(f.T, "nobody", clients), forged...),
		// It proves who it is as any client does.
		"front-proxy-client": get(sign(f.T, "front-proxy-client", clients), forged...),
	} {
		want := f.do("GET", f.path(twin, ""), "", "Impersonate-User: "+name)
		if got.Code != http.StatusForbidden || normal(got, group) != normal(want, twin) {
			f.Errorf("%s: %s, of the twin %s", name, normal(got, group), normal(want, twin))
		}
	}
	// Through kube-apiserver, with the same token.
	if got, want := f.as(token, group), f.as(token, twin); got.Code != http.StatusForbidden || normal(got, group) != normal(want, twin) {
		f.Errorf("through kube-apiserver: %s, of the twin %s", normal(got, group), normal(want, twin))
	}
}

// as lists samples through kube-apiserver with a token alone, and forged names.
func (f *bench) as(token, group string) answer {
	f.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(f.authority("ca").certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.cluster.Config().Host+f.path(group, ""), http.NoBody)
	f.ok(err)
	for _, line := range []string{token, "X-Remote-User: admin", "X-Remote-Group: system:masters"} {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	f.ok(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	f.ok(err)
	return answer{resp.StatusCode, string(body), resp.Header.Values("Warning")}
}
