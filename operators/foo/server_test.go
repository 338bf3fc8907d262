package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube"
)

// content is a source with the states that a real store cannot be brought into at will.
// foo_test.go has the other states.
type content struct {
	foos   []*Foo
	broken string // the name of a Foo that cannot be decoded
	err    error
	empty  bool // not yet synced
}

func (c content) Synced() bool { return !c.empty }

func (c content) read(foo *Foo) (*Foo, error) {
	if foo.Name == c.broken {
		return &Foo{Object: foo.Object}, errors.New("it does not decode")
	}
	return foo, nil
}

func (c content) Get(_ context.Context, key kube.Key) (*Foo, error) {
	if c.err != nil {
		return nil, c.err
	}
	for _, foo := range c.foos {
		if kube.KeyOf(foo) == key {
			return c.read(foo)
		}
	}
	return nil, &kube.Error{
		Verb: "get", Kind: "Foo", Err: apierrors.NewNotFound(schema.GroupResource{Resource: "foos"}, key.Name),
	}
}

func (c content) All(context.Context) iter.Seq2[*Foo, error] {
	return func(yield func(*Foo, error) bool) {
		if c.err != nil {
			yield(nil, c.err)
			return
		}
		for _, foo := range c.foos {
			if !yield(c.read(foo)) {
				return
			}
		}
	}
}

func foo(namespace, name string) *Foo {
	f := &Foo{Spec: FooSpec{Name: name, Info: "about " + name}}
	f.Namespace, f.Name = namespace, name
	return f
}

func TestServer(t *testing.T) {
	some := content{foos: []*Foo{foo("b", "x"), foo("a", "y"), foo("a", "x")}, broken: "y"}
	const (
		ax = `{"namespace":"a","name":"x","spec":{"name":"x","info":"about x"}}`
		ay = `{"namespace":"a","name":"y","error":"it does not decode"}`
		bx = `{"namespace":"b","name":"x","spec":{"name":"x","info":"about x"}}`
	)
	for name, test := range map[string]struct {
		source    content
		namespace string
		request   string
		code      int
		body      string
		header    map[string]string
	}{
		"list":              {some, allNamespaces, "GET /foos", 200, `[` + ax + `,` + ay + `,` + bx + `]`, map[string]string{"Content-Type": "application/json", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}},
		"list nothing":      {content{}, "a", "GET /foos", 200, `[]`, nil},
		"list too early":    {content{empty: true}, "a", "GET /foos", 503, `{"error":"the store has not been filled yet"}`, map[string]string{"Retry-After": "1", "Cache-Control": "no-store"}},
		"list stopped":      {content{err: kube.ErrStopped}, "a", "GET /foos", 503, `{"error":"the store has stopped"}`, nil},
		"get":               {some, "a", "GET /foos/x", 200, ax, map[string]string{"Content-Type": "application/json", "Content-Length": "66"}},
		"get by namespace":  {some, allNamespaces, "GET /foos/b/x", 200, bx, nil},
		"get which":         {some, allNamespaces, "GET /foos/x", 404, `{"error":"Foos of all namespaces are served: ask for /foos/{namespace}/x"}`, nil},
		"get none":          {some, "a", "GET /foos/z", 404, `{"error":"there is no Foo z in namespace a"}`, map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"}},
		"get strange":       {some, "a", "GET /foos/%2e%2e%2fz", 404, `{"error":"there is no Foo ../z in namespace a"}`, nil},
		"get broken":        {some, "a", "GET /foos/y", 500, `{"error":"it does not decode"}`, nil},
		"get too early":     {content{empty: true}, "a", "GET /foos/x", 503, `{"error":"the store has not been filled yet"}`, map[string]string{"Retry-After": "1"}},
		"get stopped":       {content{err: kube.ErrStopped}, "a", "GET /foos/x", 503, `{"error":"the store has stopped"}`, nil},
		"head":              {some, "a", "HEAD /foos/x", 200, ``, map[string]string{"Content-Length": "66", "Content-Type": "application/json"}},
		"head none":         {some, "a", "HEAD /foos/z", 404, ``, nil},
		"post":              {some, "a", "POST /foos", 405, `{"error":"/foos only reads: use GET"}`, map[string]string{"Allow": "GET, HEAD"}},
		"delete":            {some, "a", "DELETE /foos/x", 405, `{"error":"/foos/x only reads: use GET"}`, nil},
		"nothing":           {some, "a", "GET /bars", 404, `{"error":"there is nothing at /bars: try /foos"}`, nil},
		"post nothing":      {some, "a", "POST /bars", 404, `{"error":"there is nothing at /bars: try /foos"}`, nil},
		"healthy":           {content{empty: true}, "a", "GET /healthz", 200, `ok`, map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		"ready":             {some, "a", "GET /readyz", 200, `ok`, nil},
		"not ready":         {content{empty: true}, "a", "GET /readyz", 503, `the store has not been filled yet`, nil},
		"metrics":           {some, "a", "GET /metrics", 200, `metrics`, nil},
		"metrics by a post": {some, "a", "POST /metrics", 405, `{"error":"/metrics only reads: use GET"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) })
			srv := httptest.NewServer(newServer(test.source, test.namespace, metrics))
			defer srv.Close()
			method, path, _ := strings.Cut(test.request, " ")
			code, header, body := ask(t, method, srv.URL+path, nil)
			if code != test.code {
				t.Errorf("status %d, want %d", code, test.code)
			}
			if diff := cmp.Diff(test.body, strings.TrimSuffix(body, "\n")); diff != "" {
				t.Errorf("body, -want +got:\n%s", diff)
			}
			for key, want := range test.header {
				if got := header.Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
		})
	}
}

// TestNotModified repeats a request whose answer has not changed.
func TestNotModified(t *testing.T) {
	srv := httptest.NewServer(newServer(content{foos: []*Foo{foo("a", "x")}}, "a", http.NotFoundHandler()))
	defer srv.Close()
	_, header, _ := ask(t, "GET", srv.URL+"/foos", nil)
	tag := header.Get("ETag")
	if code, _, body := ask(
		t, "GET", srv.URL+"/foos", map[string]string{"If-None-Match": tag},
	); code != http.StatusNotModified ||
		body != "" {
		t.Errorf("%d %s with ETag %s", code, body, tag)
	}
	if code, _, _ := ask(t, "GET", srv.URL+"/foos/x", map[string]string{"If-None-Match": tag}); code != http.StatusOK {
		t.Errorf("another answer has the same ETag: %d", code)
	}
}

func ask(t *testing.T, method, url string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range header {
		req.Header.Set(key, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}
