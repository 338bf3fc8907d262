package kube_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var discardLog = log.New(io.Discard, "", 0)

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// setHome makes clientcmd see another home. clientcmd itself looks for the home only when
// it is initialized.
func setHome(t *testing.T, dir string) {
	was := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = filepath.Join(dir, ".kube", "config")
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = was })
}

// TestKubeconfigRules finds a cluster as kubectl does.
func TestKubeconfigRules(t *testing.T) {
	dir := t.TempDir()
	setHome(t, dir)
	write := func(name string, c clientcmdapi.Config) string {
		file := filepath.Join(dir, name)
		must(t, clientcmd.WriteToFile(c, file))
		return file
	}
	cluster := func(host string) map[string]*clientcmdapi.Cluster {
		return map[string]*clientcmdapi.Cluster{host: {Server: "https://" + host}}
	}
	clusters := write("clusters", clientcmdapi.Config{Clusters: cluster("one.test")})
	contexts := write("contexts", clientcmdapi.Config{
		CurrentContext: "a",
		Contexts: map[string]*clientcmdapi.Context{
			"a": {Cluster: "one.test", AuthInfo: "me", Namespace: "space"},
			"b": {Cluster: "two.test", AuthInfo: "me"},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"me": {Token: "secret"}},
	})
	second := write("second", clientcmdapi.Config{Clusters: cluster("two.test"), CurrentContext: "b"})
	other := write("other", clientcmdapi.Config{
		CurrentContext: "c",
		Clusters:       cluster("three.test"),
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "three.test"}},
	})
	must(t, os.Mkdir(filepath.Join(dir, ".kube"), 0o700))
	write(".kube/config", clientcmdapi.Config{
		CurrentContext: "h",
		Clusters:       cluster("home.test"),
		Contexts:       map[string]*clientcmdapi.Context{"h": {Cluster: "home.test", Namespace: "house"}},
	})
	list := strings.Join([]string{clusters, filepath.Join(dir, "missing"), contexts, second}, string(os.PathListSeparator))
	for name, c := range map[string]struct {
		env             string
		config          kube.Config
		host, namespace string
		token           string
	}{
		"several files":   {list, kube.Config{}, "https://one.test", "space", "secret"},
		"another context": {list, kube.Config{Context: "b"}, "https://two.test", "default", "secret"},
		"a file by name":  {list, kube.Config{Kubeconfig: other}, "https://three.test", "default", ""},
		"home":            {"", kube.Config{}, "https://home.test", "house", ""},
		"a given config": {list, kube.Config{Rest: &rest.Config{Host: "https://four.test"}}, "https://four.test", "default",
			""},
		"file and context": {"", kube.Config{Kubeconfig: other, Context: "c"}, "https://three.test", "default", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.env)
			client, err := c.config.Connect()
			must(t, err)
			if r := client.Config().Rest; r.Host != c.host || r.BearerToken != c.token || client.Namespace() != c.namespace {
				t.Errorf("connects to %s in %s with token %q", r.Host, client.Namespace(), r.BearerToken)
			}
		})
	}
}

// TestInCluster runs itself where a pod's service account is mounted.
func TestInCluster(t *testing.T) {
	if os.Getenv("PINTLE_IN_CLUSTER") != "" {
		client, err := kube.Connect()
		must(t, err)
		r := client.Config().Rest
		fmt.Println("connects to", r.Host, client.Namespace(), r.BearerTokenFile, r.CAFile)
		return
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs to mount at a fixed path: Linux, as root")
	}
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(ca, pemOf(authority(t).cert), 0o600))
	script := `mount -t tmpfs none /var/run && mkdir -p ` + dir + ` && cd ` + dir +
		` && cp "$0" ca.crt && echo -n pod-ns > namespace && echo -n tok > token && exec "$1" -test.run '^TestInCluster$' -test.v`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, ca, os.Args[0])
	cmd.Env = append(os.Environ(), "PINTLE_IN_CLUSTER=1", "KUBECONFIG=", "HOME=/nonexistent",
		"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare") {
		t.Skipf("cannot mount: %s", out)
	}
	if want := "connects to https://10.0.0.1:443 pod-ns " + dir + "/token " + dir + "/ca.crt"; err != nil ||
		!strings.Contains(string(out), want) {
		t.Errorf("%v: said\n%s\nwant\n%s", err, out, want)
	}
}

// robotToken returns a token of a service account in the test's namespace.
func robotToken(t *testing.T, s *server) string {
	t.Helper()
	accounts := kube.For[corev1.ServiceAccount](s.Client).In(s.namespace)
	robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := accounts.Create(soon(t), robot); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return got(kube.Sub[authenticationv1.TokenRequest](accounts, "token").Create(soon(t), "robot",
		&authenticationv1.TokenRequest{}))(t).Status.Token
}

func whoami(ctx context.Context, c *kube.Client) (string, error) {
	review, err := kube.For[authenticationv1.SelfSubjectReview](c).Create(ctx, &authenticationv1.SelfSubjectReview{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// plugin writes an exec plugin that runs a script and prints the content of a token file.
// It returns a configuration that uses the plugin.
func plugin(t *testing.T, s *server, script, tokenFile string) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plugin")
	text := "#!/bin/sh\n" + script + "\n" +
		`printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat ` +
		tokenFile + `)"` + "\n"
	must(t, os.WriteFile(file, []byte(text), 0o700))
	config := rest.AnonymousClientConfig(s.Config().Rest)
	config.ExecProvider = &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: file, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	return config
}

func TestExecPlugin(t *testing.T) {
	s := start(t)
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	must(t, os.WriteFile(token, []byte(robotToken(t, s)), 0o600))
	client := s.connect(t, plugin(t, s, "echo ran >> "+dir+"/runs", token))
	robot := "system:serviceaccount:" + s.namespace + ":robot"
	for range 3 {
		if name := got(whoami(soon(t), client))(t); name != robot {
			t.Errorf("is %q", name)
		}
	}
	if runs := string(got(os.ReadFile(dir + "/runs"))(t)); runs != "ran\n" {
		t.Errorf("the plugin ran: %q", runs)
	}

	// A token that the server no longer takes is replaced without an error.
	stale := filepath.Join(dir, "stale")
	must(t, os.WriteFile(stale, []byte("nonsense"), 0o600))
	client = s.connect(t, plugin(t, s, "echo ran >> "+dir+"/runs2", stale))
	if _, err := whoami(soon(t), client); !apierrors.IsUnauthorized(err) {
		t.Errorf("got error %v", err)
	}
	must(t, os.WriteFile(stale, []byte(robotToken(t, s)), 0o600))
	if name := got(whoami(soon(t), client))(t); name != robot {
		t.Errorf("is %q", name)
	}

	broken := s.connect(t, plugin(t, s, "echo no luck >&2; exit 3", token))
	_, err := whoami(soon(t), broken)
	if err == nil || !strings.HasPrefix(err.Error(), "create SelfSubjectReview: getting credentials: exec: executable ") ||
		!strings.Contains(err.Error(), "failed with exit code 3") {
		t.Errorf("got error %v", err)
	}
}

// TestSlowExecPlugin runs a plugin that takes the time that the test wants. It delays only
// the requests that need its token.
func TestSlowExecPlugin(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t)
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte(robotToken(t, s)), 0o600))
	gate := filepath.Join(t.TempDir(), "gate")
	slow := s.connect(t, plugin(t, s, "until [ -e "+gate+" ]; do sleep 0.1; done", token))
	waiting := make(chan error, 1)
	go func() {
		_, err := whoami(soon(t), slow)
		waiting <- err
	}()
	got(whoami(soon(t), s.Client))(t) // call of another user
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// The plugin still waits, so these do not wait for it.
	if _, err := whoami(ctx, slow); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request whose context ends: %v", err)
	}
	must(t, os.WriteFile(gate, nil, 0o600))
	must(t, <-waiting)
	must(t, os.Remove(gate))
	got(whoami(soon(t), slow))(t) // with the token at hand
}

// TestTokenFile rotates the token in a file.
func TestTokenFile(t *testing.T) {
	s := start(t)
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(robotToken(t, s)), 0o600))
	config := rest.AnonymousClientConfig(s.Config().Rest)
	config.BearerTokenFile = file
	client := s.connect(t, config)
	got(whoami(soon(t), client))(t)
	must(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	got(whoami(soon(t), client))(t) // the old token still holds, because the file is read every minute

	// As soon as the old token is refused, the file is read again.
	must(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	client = s.connect(t, config)
	if _, err := whoami(soon(t), client); !apierrors.IsUnauthorized(err) {
		t.Errorf("got error %v", err)
	}
	must(t, os.WriteFile(file, []byte(robotToken(t, s)), 0o600))
	got(whoami(soon(t), client))(t)
}

// TestProxy goes through the proxy that the kubeconfig names.
func TestProxy(t *testing.T) {
	s := start(t)
	var connects atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		connects.Add(1)
		to, err := net.Dial("tcp", req.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
		from.Close()
	}))
	defer proxy.Close()
	through := func(url string) *kube.Client {
		raw := got(clientcmd.LoadFromFile(s.kubeconfig(t)))(t)
		for _, c := range raw.Clusters {
			c.ProxyURL = url
		}
		file := filepath.Join(t.TempDir(), "config")
		must(t, clientcmd.WriteToFile(*raw, file))
		client := got(kube.Config{Kubeconfig: file}.Connect())(t)
		t.Cleanup(client.Close)
		return client
	}
	client := through(proxy.URL)
	got(kube.For[corev1.Namespace](client).Get(soon(t), s.namespace))(t)
	if connects.Load() != 1 {
		t.Errorf("%d connections through the proxy", connects.Load())
	}
	client.Close()

	closed := httptest.NewServer(nil)
	addr := closed.URL
	closed.Close()
	_, err := kube.For[corev1.Namespace](through(addr)).Get(soon(t), "x")
	if !errors.Is(err, kube.ErrUnreachable) ||
		!strings.Contains(
			err.Error(), "through the proxy (see proxy-url in the kubeconfig, and HTTPS_PROXY): proxyconnect tcp: dial tcp",
		) {
		t.Errorf("got error %v", err)
	}
}

// kubeconfig returns a file that leads to the cluster.
func (s *server) kubeconfig(t *testing.T) string {
	t.Helper()
	if file := s.cluster.Kubeconfig(); file != "" {
		return file
	}
	return os.Getenv("KUBECONFIG") // of the cluster of KUBETEST_CLUSTER=current
}

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func authority(t *testing.T) pair {
	return certify(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
}

func certify(t *testing.T, template *x509.Certificate, by *pair) pair {
	t.Helper()
	key := got(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if by == nil {
		by = &pair{template, key}
	}
	der := got(x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key))(t)
	return pair{got(x509.ParseCertificate(der))(t), key}
}

func (p pair) keyPEM(t *testing.T) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: got(x509.MarshalECPrivateKey(p.key))(t)})
}

// TestClientCertificate authenticates by a certificate. The server is known by another
// name than its address.
func TestClientCertificate(t *testing.T) {
	ca := authority(t)
	serverCert := certify(t, &x509.Certificate{DNSNames: []string{"kubernetes.default.svc"}}, &ca)
	user := certify(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ann"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &ca)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	var seen atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen.Store(req.TLS.PeerCertificates[0].Subject.CommonName)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a"}}`)
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{serverCert.cert.Raw}, PrivateKey: serverCert.key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}
	server.Config.ErrorLog = discardLog
	server.StartTLS()
	defer server.Close()
	b64 := base64.StdEncoding.EncodeToString
	file := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, tls-server-name: kubernetes.default.svc, certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]
`, server.URL, b64(pemOf(ca.cert)), b64(pemOf(user.cert)), b64(user.keyPEM(t))), 0o600))
	client := got(kube.Config{Kubeconfig: file}.Connect())(t)
	defer client.Close()
	got(kube.For[corev1.ConfigMap](client).In("a").Get(soon(t), "x"))(t)
	if seen.Load() != "ann" {
		t.Errorf("the server saw %v", seen.Load())
	}
}
