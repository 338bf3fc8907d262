package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestRequest(t *testing.T) {
	const prefix = "/apis/apps/v1/namespaces/ns/deployments"
	for _, c := range []struct {
		request               request
		writes, within, named bool
		resource              string
	}{
		{request{method: "GET", path: prefix + "/one"}, false, true, true, "deployments"},
		{request{method: "PATCH", path: prefix + "/one"}, true, true, true, "deployments"},
		{request{method: "PATCH", path: prefix + "/one/status"}, true, true, false, "deployments/status"},
		{request{method: "PUT", path: prefix + "/another-one"}, true, true, false, "deployments"},
		{request{method: "POST", path: prefix}, true, true, false, "deployments"},
		{request{method: "GET", path: "/apis/apps/v1/deployments"}, false, false, false, "deployments"},
		{request{method: "POST", path: "/api/v1/namespaces/nsx/services"}, true, false, false, "services"},
		{request{method: "GET", path: "/api/v1/namespaces/ns"}, false, false, false, "namespaces"},
		{request{method: "GET", path: "/apis/apps/v1"}, false, false, false, "/apis/apps/v1"},
	} {
		q := c.request
		if q.writes() != c.writes || q.within("ns") != c.within || q.names("ns", "deployments", "one") != c.named ||
			q.resource() != c.resource {
			t.Errorf("%s %s: writes %t, within %t, named %t, resource %q", q.method, q.path,
				q.writes(), q.within("ns"), q.names("ns", "deployments", "one"), q.resource())
		}
	}
}

func TestSummary(t *testing.T) {
	requests := []request{
		{method: "PATCH", path: "/api/v1/namespaces/ns/services/a"},
		{method: "GET", path: "/api/v1/services"},
		{method: "PATCH", path: "/api/v1/namespaces/ns/services/b"},
		{method: "GET", path: "/api/v1/services", watch: true},
		{method: "PUT", path: "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a"},
		{method: "GET", path: "/apis/coordination.k8s.io/v1/namespaces/ns/leases", watch: true},
	}
	if got, want := summary(requests), "4 requests (2 PATCH services, 1 GET services, 1 PUT leases)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := leases(requests); n != 1 {
		t.Errorf("%d about leases, want 1", n)
	}
}

// The proxy records requests and replaces their credentials. The parts of a stream arrive
// when they are sent, and both connections use HTTP/2.
func TestProxy(t *testing.T) {
	more := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s by %s, encoding %q\n", r.Proto, r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding"))
		if r.URL.Query().Get("watch") == "true" {
			w.(http.Flusher).Flush()
			<-more
			fmt.Fprintln(w, "and more")
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	p, err := startProxy(
		&rest.Config{Host: server.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "identity")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}

	const answer = "HTTP/2.0 by Bearer secret, encoding \"identity\"\n"
	resp := get("/api/v1/pods?watch=true")
	first := make([]byte, len(answer))
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != answer || resp.Proto != "HTTP/2.0" {
		t.Errorf("%s: %q, %v, want %q", resp.Proto, first, err, answer)
	}
	close(more)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "and more\n" {
		t.Errorf("after that %q, %v", rest, err)
	}

	mark := p.mark()
	if mark != 1 {
		t.Errorf("%d requests written down, want 1", mark)
	}
	get("/version")
	q, err := p.await(t.Context(), mark, func(q request) bool { return q.path == "/version" })
	if err != nil || q.method != http.MethodGet || q.watch {
		t.Errorf("written down: %+v, %v", q, err)
	}
	requests, _ := p.since(0)
	if n := counted(requests); n != 1 {
		t.Errorf("%d requests besides watches, want 1", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.await(ctx, mark, request.writes); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait for a request that does not come: %v", err)
	}
}
