package kube_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// script plays a server. It answers with JSON. Its result "" stands for a plain 404.
type script func(*http.Request) string

func (s script) RoundTrip(req *http.Request) (*http.Response, error) {
	body := s(req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Request: req}
	if body == "" {
		resp.StatusCode, body = http.StatusNotFound, "404 page not found"
		resp.Header.Set("Content-Type", "text/plain")
	}
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
}

// scripted returns a client of a played server.
func scripted(t *testing.T, s script) *kube.Client {
	t.Helper()
	client, err := kube.Config{Rest: &rest.Config{Host: "https://server.invalid", Transport: s},
		FieldManager: "test"}.Connect()
	must(t, err)
	return client
}

// offline returns a client that must make no request.
func offline(t *testing.T) *kube.Client {
	return scripted(t, func(req *http.Request) string {
		t.Errorf("unexpected request: %s %s", req.Method, req.URL)
		return ""
	})
}

const (
	gadgets = `{"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[
		{"name":"gadgets","namespaced":true,"kind":"Gadget"},
		{"name":"gadgets/status","namespaced":true,"kind":"Gadget"}]}`
	gadget = `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"x","namespace":"a"}}`
)

func kindOf(group, kind string) kube.Kind {
	return kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: kind}}
}

func metaOf(c *kube.Client, kind kube.Kind) kube.View[metav1.PartialObjectMetadata] {
	return kube.ViewOf[metav1.PartialObjectMetadata](c, kind).In("a")
}

// TestDiscoveryOnce makes many callers share a request. Later calls make no request.
func TestDiscoveryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		client := scripted(t, func(req *http.Request) string {
			if req.URL.Path == "/apis/example.com/v1" {
				asked.Add(1)
				time.Sleep(time.Second)
				return gadgets
			}
			return gadget
		})
		var running sync.WaitGroup
		for range 20 {
			running.Go(func() { got(metaOf(client, kindOf("example.com", "Gadget")).Get(t.Context(), "x"))(t) })
		}
		running.Wait()
		got(metaOf(client, kindOf("example.com", "Gadget")).Get(t.Context(), "x"))(t)
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// TestDiscoverySlow has a group that does not answer. It holds up no other group.
func TestDiscoverySlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := scripted(t, func(req *http.Request) string {
			switch req.URL.Path {
			case "/apis/slow.example.com/v1":
				<-req.Context().Done()
				return ""
			case "/apis/example.com/v1":
				return gadgets
			}
			return gadget
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := metaOf(client, kindOf("slow.example.com", "Gadget")).Get(ctx, "x")
			ended <- err
		}()
		synctest.Wait()
		got(metaOf(client, kindOf("example.com", "Gadget")).Get(t.Context(), "x"))(t)
		// A caller that joined the request of another leaves when its own context ends.
		start := time.Now()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := metaOf(client, kindOf("slow.example.com", "Gadget")).Get(short, "x")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	})
}

// TestDiscoveryAbandoned joins a request of another caller. The end of that caller's
// context is no failure for the caller that joined.
func TestDiscoveryAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		client := scripted(t, func(req *http.Request) string {
			if req.URL.Path != "/apis/example.com/v1" {
				return gadget
			}
			if asked.Add(1) == 1 {
				<-req.Context().Done()
			}
			return gadgets
		})
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _, _ = metaOf(client, kindOf("example.com", "Gadget")).Get(first, "x") }()
		synctest.Wait()
		got(metaOf(client, kindOf("example.com", "Gadget")).Get(t.Context(), "x"))(t)
		if asked.Load() != 2 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// TestDiscoveryLater finds a kind at once that was missing before.
func TestDiscoveryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var installed atomic.Bool
		client := scripted(t, func(req *http.Request) string {
			switch {
			case !installed.Load():
				return ""
			case req.URL.Path == "/apis/example.com/v1":
				return gadgets
			}
			return gadget
		})
		gadgets := metaOf(client, kindOf("example.com", "Gadget"))
		_, err := gadgets.Get(t.Context(), "x")
		const want = "get Gadget a/x: kind is not served: the server has no Gadget in example.com/v1: install its CustomResourceDefinition, or check group and version"
		if !errors.Is(err, kube.ErrNotServed) || err.Error() != want {
			t.Errorf("got error\n%v\nwant\n%s", err, want)
		}
		installed.Store(true)
		got(gadgets.Get(t.Context(), "x"))(t)
		// This group has other kinds only.
		widgets := metaOf(client, kindOf("example.com", "Widget"))
		if _, err := widgets.Get(t.Context(), "x"); !errors.Is(err, kube.ErrNotServed) {
			t.Errorf("got error %v", err)
		}
	})
}

// TestDefinitionReplaced replaces a definition by one with another scope. The old path
// answers 404, and so the client asks again.
func TestDefinitionReplaced(t *testing.T) {
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	books := kube.For[book](s.Client, kind)
	got(books.In(s.namespace).Create(soon(t), newBook("b", "Dune")))(t)
	crds := kube.For[unstructured.Unstructured](s.Client, crdKind)
	must(t, crds.Delete(soon(t), "books."+kind.Group))
	must(t, crds.UntilGone(soon(t), "books."+kind.Group))
	// The server learns of definitions by its own watch. It sees them go and come a
	// moment after other clients do.
	ctx := soon(t)
	for {
		_, err := books.In(s.namespace).Get(ctx, "b")
		if errors.Is(err, kube.ErrNotServed) {
			break
		}
		if !apierrors.IsNotFound(err) {
			t.Fatalf("without a definition: %v", err)
		}
	}
	got(crds.Create(ctx, bookCRD(kind.Group, kube.ClusterScoped)))(t)
	got(crds.Until(ctx, "books."+kind.Group, established))(t)
	for {
		_, err := books.Create(ctx, newBook("b", "Dune"))
		if err == nil {
			break
		}
		if !errors.Is(err, kube.ErrNotServed) {
			t.Fatal(err)
		}
	}
	if _, err := books.In(s.namespace).Get(soon(t), "b"); !errors.Is(err, kube.ErrScope) {
		t.Errorf("now it is cluster-scoped: %v", err)
	}
}
