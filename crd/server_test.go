package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// A server is the API server that these tests share, with a namespace for one test.
type server struct {
	cluster   *kubetest.Cluster
	client    *kube.Client
	namespace string
}

func start(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	s := &server{cluster: kubetest.Start(t, kubetest.Options{ServerOnly: true})}
	var err error
	s.client, err = kube.Config{Rest: s.cluster.Config(), FieldManager: "pintle-test",
		Logger: slog.New(slog.DiscardHandler)}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	s.namespace = s.cluster.Namespace(t)
	return s
}

// group returns an API group for one test.
func (s *server) group() string { return s.namespace + ".pintle.test" }

// get sends a request for which kube has no method.
func (s *server) get(t *testing.T, path, accept string, into any) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	req, err := http.NewRequestWithContext(soon(t), http.MethodGet, s.cluster.Config().Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", resp.StatusCode, body)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
}

// request sends one request without retries, and stores the answer's status code.
func (s *server) request(t *testing.T, method, path, body string, code *int) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	req, err := http.NewRequestWithContext(soon(t), method, s.cluster.Config().Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	*code = resp.StatusCode
}

// soon returns a context for calls that must not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// install installs definitions and removes them when the test ends.
func (s *server) install(t *testing.T, defs ...*crd.Definition) {
	t.Helper()
	s.remove(t, defs...)
	if err := crd.Install(soon(t), s.client, defs...); err != nil {
		t.Fatal(err)
	}
}

// remove removes definitions when the test ends.
func (s *server) remove(t *testing.T, defs ...*crd.Definition) {
	for _, d := range defs {
		t.Cleanup(func() { _ = kube.For[crd.Definition](s.client).Delete(context.Background(), d.Name) })
	}
}

// of returns the definition of T's kind in a group of the test.
func of[T any, P interface {
	*T
	kubeObject
}](t *testing.T, group string, o crd.Options) *crd.Definition {
	t.Helper()
	o.Kind.GVK = kube.GVK{Group: group, Version: "v1", Kind: kube.KindOf[T, P]().Kind}
	d := crd.Of[T, P](o)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}
