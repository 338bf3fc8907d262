package aggregate_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// TestShutdown stops a server while a slow request and a watch are under way. First it says that it
// is not ready and goes on to serve. The slow request is answered, and the watch ends.
func TestShutdown(t *testing.T) {
	begun, answer := make(chan bool), make(chan bool)
	server := plain(t)
	server.ShutdownDelay = 5 * time.Second
	server.Kinds = []aggregate.Any{aggregate.Stored[Sample]{Definition: samples(t), Subresources: []aggregate.Subresource[Sample]{{
		Name: "ponder",
		Serve: func(w http.ResponseWriter, _ *http.Request, s *Sample) error {
			close(begun)
			<-answer
			_, err := fmt.Fprint(w, s.Name, " has an answer")
			return err
		},
	}}}}
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	r := f.replica(server)
	s := new(Sample)
	s.Name, s.Spec.Weight, s.Spec.Height = "anna", 100, 170
	_, err := r.samples.Create(t.Context(), s)
	f.ok(err)
	open := func(method, path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, r.address+f.path(group, path), http.NoBody)
		f.ok(err)
		resp, err := r.http.Do(req)
		f.ok(err)
		return resp
	}
	watch := open("GET", "?watch=1")
	defer watch.Body.Close()
	var requests sync.WaitGroup
	requests.Go(func() {
		resp := open("POST", "/anna/ponder")
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != "anna has an answer" {
			t.Errorf("the slow request: %d %s %v", resp.StatusCode, body, err)
		}
	})
	<-begun
	requests.Go(r.stop)
	kubetest.Eventually(t, "the server is not ready", func() error {
		resp, err := direct.Get(r.address + "/readyz")
		if err != nil {
			t.Fatalf("it ends before it says that it is not ready: %v", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusInternalServerError {
			return errors.New(resp.Status)
		}
		return nil
	})
	list := open("GET", "")
	list.Body.Close()
	if list.StatusCode != http.StatusOK {
		t.Errorf("a list after that: %s", list.Status)
	}
	time.Sleep(server.ShutdownDelay) // from here on the server waits for the slow request alone
	close(answer)
	requests.Wait()
	if _, err := io.ReadAll(watch.Body); err != nil {
		t.Logf("the watch ends with %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(r.address, "https://")); err == nil {
		conn.Close()
		t.Error("the server still listens")
	}
}

// A balancer sends connections to servers that are ready, as a Service does.
type balancer struct {
	net.Listener
	mu      sync.Mutex
	backend []string
	conns   sync.WaitGroup
}

// use replaces the servers.
func (b *balancer) use(backend ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backend = backend
}

// serve passes on connections until the listener is closed.
func (b *balancer) serve() {
	for n := 0; ; n++ {
		front, err := b.Accept()
		if err != nil {
			return
		}
		b.conns.Go(func() {
			defer front.Close()
			b.mu.Lock()
			to := b.backend[n%len(b.backend)]
			b.mu.Unlock()
			back, err := net.Dial("tcp", strings.TrimPrefix(to, "https://"))
			if err != nil {
				return
			}
			defer back.Close()
			var both sync.WaitGroup
			for _, pair := range [][2]net.Conn{{front, back}, {back, front}} {
				both.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
			both.Wait()
		})
	}
}

// TestRollingRestart replaces two servers with one etcd one after the other, behind kube-apiserver, with a
// certificate in files as cert-manager mounts them. No request fails meanwhile, except for one write of each
// client in each restart at most, which can be repeated.
func TestRollingRestart(t *testing.T) {
	endpoint, _ := outside(t)
	f := prepare(t, kubetest.Start(t, kubetest.Options{Nodes: 1}))
	const service = "samples-front"
	host := service + "." + f.namespace + ".svc"
	by := sign(t, "cert-manager's", nil)
	pair := sign(t, host, by, host)
	dir := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": pair.crt, "tls.key": pair.keyPEM, "ca.crt": by.crt} {
		f.ok(os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	begin := func() *replica {
		server := plain(t)
		files := &certificate.Files{Dir: dir}
		server.GetCertificate = files.GetCertificate
		server.Storage, server.ShutdownDelay = aggregate.Storage{Endpoints: []string{endpoint}}, 3*time.Second
		return f.replica(server)
	}
	one, two := begin(), begin()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.ok(err)
	b := &balancer{Listener: listener}
	b.use(one.address, two.address)
	var serving sync.WaitGroup
	serving.Go(b.serve)
	t.Cleanup(func() { b.Close(); serving.Wait() })

	front := new(corev1.Service)
	front.Name, front.Spec.Type, front.Spec.ExternalName = service, corev1.ServiceTypeExternalName, "localhost"
	_, err = kube.For[corev1.Service](f.client).In(f.namespace).Create(t.Context(), front)
	f.ok(err)
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	registered := kube.For[apiregistrationv1.APIService](f.client, kube.Kind{GVK: apiService{}.GVK(), Plural: "apiservices", Scope: kube.ClusterScoped})
	of := new(apiregistrationv1.APIService)
	of.Name = "v1alpha1." + group
	of.Spec = apiregistrationv1.APIServiceSpec{
		Group: group, Version: "v1alpha1", CABundle: by.crt, GroupPriorityMinimum: 1000, VersionPriority: 100,
		Service: &apiregistrationv1.ServiceReference{Namespace: f.namespace, Name: service, Port: &port},
	}
	_, err = registered.Create(t.Context(), of)
	f.ok(err)
	t.Cleanup(func() { _ = registered.Delete(context.Background(), of.Name) })
	f.answers("the kinds are served", http.StatusOK, func() answer { return f.do("GET", f.path(group, ""), "") })

	requests, stop := f.load(2 * 4)
	restart := func(old, other *replica) *replica {
		next := begin()
		b.use(other.address, next.address)
		old.stop()
		return next
	}
	one = restart(one, two)
	restart(two, one)
	before := requests.Load()
	kubetest.Eventually(t, "the last two have some load", func() error {
		if n := requests.Load() - before; n < 100 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	stop()
	t.Logf("%d requests", requests.Load())
	if requests.Load() < 100 {
		t.Error("that is no load")
	}
	// The certificate is that of the files.
	conn, err := tls.Dial("tcp", strings.TrimPrefix(one.address, "https://"), &tls.Config{InsecureSkipVerify: true}) // it is compared
	f.ok(err)
	defer conn.Close()
	if !conn.ConnectionState().PeerCertificates[0].Equal(pair.certificate) {
		t.Error("the server shows another certificate")
	}
}
