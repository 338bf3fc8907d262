package cluster

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/operators/neon/internal/trust/trusttest"
)

// withTLS makes a cluster whose authority is its own.
func withTLS(c *api.NeonCluster) { c.Spec.TLS = new(api.TLS) }

// secure is the TLS of the stand-ins: the certificates that the operator makes, at the names of
// the Services.
func (w *world) secure() *lab.TLS {
	return &lab.TLS{
		Dir: func(program string) string { return filepath.Join(w.certs, program) },
		Host: func(program string) (name string, http, pg int) {
			http, pg = ControllerPort, 0
			switch component, _, _ := strings.Cut(program, "-"); component {
			case "safekeeper":
				http, pg = SafekeeperHTTPPort, SafekeeperPort
			case "pageserver":
				http, pg = PageserverHTTPPort, PageserverPort
			}
			return host("main-"+program, w.ns), http, pg
		},
	}
}

// mount brings the files of a pod's program to the state of its Secret, as the kubelet does. A pod that has begun
// keeps its files when the Secret is gone. It returns false if the pod has to wait for the Secret.
func (w *world) mount(program string, pod types.UID) bool {
	w.Helper()
	s, err := w.secrets.Cached().Get(w.Context(), CertificateName("main-"+program))
	if apierrors.IsNotFound(err) {
		return w.runs[program] == pod
	}
	w.ok(err)
	data := s.Data
	if w.foreign[program] != nil {
		data = w.foreign[program]
	}
	dir := filepath.Join(w.certs, program)
	w.ok(os.MkdirAll(dir, 0o700))
	for name, text := range data {
		if is, err := os.ReadFile(filepath.Join(dir, name)); err == nil && string(is) == string(text) {
			continue
		}
		w.ok(os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return true
}

// authorities returns those that the operator has stored.
func (w *world) authorities() trust.Authorities {
	w.Helper()
	s, err := w.secrets.Get(w.Context(), AuthorityName("main"))
	w.ok(err)
	return trust.Read(s.Data)
}

// TestTLS makes a cluster with an authority of its own. The operator and the stand-ins talk TLS with
// each other, and refuse certificates of another authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTLS)
	sc := w.controller()
	keeper, err := sc.Registration(t.Context(), 1)
	w.ok(err)
	server, err := sc.Node(t.Context(), 1)
	w.ok(err)
	if keeper.HTTPSPort == nil || *keeper.HTTPSPort != SafekeeperHTTPPort || server.HTTPSPort == nil || *server.HTTPSPort != PageserverHTTPPort {
		t.Errorf("the registrations are %+v and %+v", keeper, server)
	}
	w.timeline(tenantID, 1)
	if len(w.located(tenantID)) != 3 {
		t.Error("the timeline is not on three safekeepers")
	}
	w.refusesPlain()
	w.ownNames()

	t.Log("a storage controller with a certificate of another authority")
	strange, err := trust.Terms{}.Next(nil, time.Now(), false)
	w.ok(err)
	data, err := trust.Terms{}.Server(strange, nil, ServiceNames("main-controller", w.ns), time.Now(), true)
	w.ok(err)
	back := w.crash("controller")
	w.foreign["controller"] = data
	back()
	w.until("the operator refuses the certificate", says("safekeeper-registration/1", "its certificate is not that of a program of this cluster"))
	delete(w.foreign, "controller")
	w.crash("controller")()
	w.ready()
}

// refusesPlain sees that no port that others reach serves without TLS.
func (w *world) refusesPlain() {
	w.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: w.operator.Dial}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for _, address := range []string{
		fmt.Sprintf("%s:%d/ready", ControllerHost("main", w.ns), ControllerPort),
		fmt.Sprintf("%s:%d/v1/status", SafekeeperHost("main", w.ns, 1), SafekeeperHTTPPort),
		fmt.Sprintf("%s:%d/v1/status", PageserverHost("main", w.ns, 1), PageserverHTTPPort),
	} {
		request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+address, nil)
		w.ok(err)
		answer, err := client.Do(request)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		w.ok(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS") {
			w.Errorf("%s without TLS is answered %d %s", address, answer.StatusCode, text)
		}
	}
}

// ownNames sees that the certificate of one server is none of another.
func (w *world) ownNames() {
	w.Helper()
	w.known(SafekeeperHost("main", w.ns, 1), 1, "safekeeper-2")
	config, err := w.operator.Clients.config(w.Context(), kube.Key{Namespace: w.ns, Name: "main"}, SafekeeperHost("main", w.ns, 1), 1)
	w.ok(err)
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, config.URL+"/v1/status", nil)
	w.ok(err)
	if answer, err := config.HTTP.Do(request); err == nil || !strings.Contains(err.Error(), "certificate") {
		w.Errorf("safekeeper 2 in place of safekeeper 1: %v", err)
		if err == nil {
			answer.Body.Close()
		}
	}
}

// TestCertificates replaces certificates while all pods stay.
func TestCertificates(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, trust.Terms{Serving: 40 * time.Second}, withTLS)
	pods := w.uids()
	was := w.served()
	w.until("all certificates are replaced", func(*api.NeonCluster) bool {
		for name, cert := range w.served() {
			if cert == was[name] {
				return false
			}
		}
		return true
	})
	w.ok(w.controller().Ready(t.Context()))
	w.ready()
	w.timeline(tenantID, 1)
	if diff := cmp.Diff(pods, w.uids()); diff != "" {
		t.Errorf("pods were replaced (-was +is):\n%s", diff)
	}
}

// served returns the certificates of all programs.
func (w *world) served() map[string]string {
	w.Helper()
	all := map[string]string{}
	for s, err := range w.secrets.List(w.Context()) {
		w.ok(err)
		if strings.HasSuffix(s.Name, CertificateName("")) {
			all[s.Name] = string(s.Data[trust.Cert])
		}
	}
	if len(all) != 7 {
		w.Fatalf("there are %d certificates: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
	return all
}

// uids returns the uids of all pods.
func (w *world) uids() map[string]string {
	w.Helper()
	all := map[string]string{}
	for p, err := range w.pods.List(w.Context()) {
		w.ok(err)
		if p.DeletionTimestamp == nil {
			all[p.Name] = string(p.UID)
		}
	}
	return all
}

// TestAuthorities replaces the authority. All programs are restarted with the next one, one safekeeper
// and one pageserver at a time, before it signs any certificate.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTLS)
	w.timeline(tenantID, 1)
	first := w.authorities()
	was, pods := w.served(), w.uids()
	w.stop()
	// By these terms the authority is near its end.
	w.terms = trust.Terms{Authority: 50 * 365 * 24 * time.Hour, Propagation: time.Second}
	w.start()
	c := w.until("the next authority signs all certificates", func(*api.NeonCluster) bool {
		all := w.authorities()
		if all.Newest() == first.Newest() {
			return false
		}
		left := 0
		for name, cert := range w.served() {
			if cert == was[name] {
				left++
			}
		}
		if left < len(was) {
			w.allTrust(all.Newest())
		}
		return left == 0
	})
	w.allTrust(w.authorities().Newest())
	if all := w.authorities(); len(all) != 2 || all[0].Key == nil || all[1].Key != nil {
		t.Errorf("there are %d authorities", len(all))
	}
	now := w.uids()
	for name, uid := range pods {
		if _, there := now[name]; !strings.Contains(name, "broker") && now[name] == uid {
			t.Errorf("pod %s was not restarted", name)
		} else if strings.Contains(name, "broker") && (!there || now[name] != uid) {
			t.Errorf("pod %s trusts nobody, and was restarted", name)
		}
	}
	w.ready()
	w.ok(w.controller().Ready(t.Context()))
	if len(c.Status.Safekeepers) != 3 || len(w.located(tenantID)) != 3 {
		t.Error("the safekeepers are others")
	}
}

// TestLostAuthority deletes the Secret of the authority, and then has a foreign authority in its place. The
// certificates stay until all programs have been restarted with the next one, so that all go on.
func TestLostAuthority(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTLS)
	w.timeline(tenantID, 1)
	strange := trusttest.Foreign(t)
	for what, lose := range map[string]func(){
		"the Secret is deleted": func() { w.ok(w.secrets.Delete(t.Context(), AuthorityName("main"))) },
		"it has a foreign authority": func() {
			_, err := w.secrets.Modify(t.Context(), AuthorityName("main"), func(s *corev1.Secret) error {
				s.Data = map[string][]byte{trust.Bundle: strange}
				return nil
			})
			w.ok(err)
		},
	} {
		first, was := w.authorities(), w.served()
		lose()
		w.until(what+", and another authority signs all certificates", func(*api.NeonCluster) bool {
			s, err := w.secrets.Get(t.Context(), AuthorityName("main"))
			if err != nil {
				return false
			}
			all := trust.Read(s.Data)
			switch {
			case len(all) > 0 && all.Newest() == first.Newest():
				lose() // a run that had read the Secret before has put it back
				return false
			case len(all) < 2:
				return false // the operator has not seen it yet
			}
			if !bytes.Contains(s.Data[trust.Bundle], pki.Bundle(first[:1])) {
				t.Fatalf("%s: the former authority is not trusted any more", what)
			}
			left := 0
			for name, cert := range w.served() {
				if cert == was[name] {
					left++
				}
			}
			if left < len(was) {
				w.allTrust(all.Newest())
			}
			return left == 0
		})
		w.ready()
		w.ok(w.controller().Ready(t.Context()))
		s, err := w.secrets.Get(t.Context(), AuthorityName("main"))
		w.ok(err)
		if bytes.Contains(s.Data[trust.Bundle], strange) {
			t.Error("the programs trust the foreign authority")
		}
	}
	if len(w.located(tenantID)) != 3 {
		t.Error("the timeline is not on three safekeepers")
	}
}

// allTrust sees that the pods of all programs that call others were made with an authority.
func (w *world) allTrust(authority string) {
	w.Helper()
	for p, err := range w.pods.List(w.Context()) {
		w.ok(err)
		if component := p.Labels[componentLabel]; component != "broker" && p.Annotations[authorityAnnotation] != authority {
			w.Errorf("a certificate of authority %s is served, and pod %s does not trust it", authority, p.Name)
		}
	}
}

// TestSecured lists what the programs' pods have with TLS. The flags are those of upstream.
func TestSecured(t *testing.T) {
	t.Parallel()
	c := sample()
	withTLS(c)
	files, err := pageserverFiles(c, 1, token.New())
	if err != nil {
		t.Fatal(err)
	}
	serving := []string{"--ssl-key-file=/tls/tls.key", "--ssl-cert-file=/tls/tls.crt"}
	for name, want := range map[string]struct {
		part part
		has  []string
		not  string
	}{
		"broker": {broker(c), append([]string{"--listen-https-addr=0.0.0.0:50051"}, serving...), "--listen-addr"},
		"controller": {storageController(c, "http://hooks", databaseURL(c)), append([]string{
			"--listen-https", "0.0.0.0:1234", "--ssl-ca-file=/tls/ca.crt", "--use-https-pageserver-api", "--use-https-safekeeper-api",
		}, serving...), "-l"},
		"safekeeper": {safekeeper(c, 1), append([]string{
			"--listen-https=0.0.0.0:7676", "--listen-http=127.0.0.1:7675", "--ssl-ca-file=/tls/ca.crt",
			"--use-https-safekeeper-api", "--broker-endpoint=https://main-broker.data.svc:50051",
		}, serving...), "--listen-http=0.0.0.0:7676"},
		"pageserver": {pageserver(c, 1, files), nil, "none"},
	} {
		for _, flag := range want.has {
			if !slices.Contains(want.part.args, flag) {
				t.Errorf("%s has no %s: %q", name, flag, want.part.args)
			}
		}
		if slices.ContainsFunc(want.part.args, func(a string) bool { return strings.Split(a, "=")[0] == want.not || a == want.not }) {
			t.Errorf("%s has %s: %q", name, want.not, want.part.args)
		}
		main := want.part.template().Spec.Containers[0]
		mounted := func(m corev1.VolumeMount) bool { return m.MountPath == "/tls" && m.ReadOnly && m.SubPath == "" }
		if !slices.ContainsFunc(main.VolumeMounts, mounted) {
			t.Errorf("%s has no certificate: %+v", name, main.VolumeMounts)
		}
		for _, probe := range []*corev1.Probe{main.StartupProbe, main.LivenessProbe, main.ReadinessProbe} {
			if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS {
				t.Errorf("%s is probed without TLS", name)
			}
		}
		if main.Ports[0].Name != "https" {
			t.Errorf("the port of %s is %s", name, main.Ports[0].Name)
		}
	}
	for _, line := range []string{
		"listen_http_addr='127.0.0.1:9897'", "listen_https_addr='0.0.0.0:9898'",
		`ssl_key_file="/tls/tls.key"`, `ssl_cert_file="/tls/tls.crt"`, `ssl_ca_file="/tls/ca.crt"`,
		`broker_endpoint="https://main-broker.data.svc:50051"`, `control_plane_api="https://main-controller.data.svc:1234/upcall/v1/"`,
	} {
		if !strings.Contains(string(files["pageserver.toml"]), line+"\n") {
			t.Errorf("pageserver.toml has no %s:\n%s", line, files["pageserver.toml"])
		}
	}
	if !strings.Contains(string(files["metadata.json"]), `"https_port":9898`) {
		t.Errorf("metadata.json is %s", files["metadata.json"])
	}
}

// TestChoiceOfIssuer sees that an issuer stays while a cluster has TLS, and that TLS comes back only when all of it
// is gone.
func TestChoiceOfIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withTLS)
	refused := func(text string, change func(*api.NeonCluster)) {
		t.Helper()
		_, err := w.clusters.Modify(t.Context(), "main", func(c *api.NeonCluster) error {
			change(c)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the API server says %v instead of %q", err, text)
		}
	}
	refused("the issuer cannot change", withIssuer)
	w.change(removeTLS)
	refused("tls is being removed", withIssuer)
}
