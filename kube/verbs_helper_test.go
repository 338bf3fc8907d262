package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// A server is a client of the cluster that these tests share, a namespace of the test's
// own, and a record of the calls and of the log.
type server struct {
	*kube.Client
	cluster   *kubetest.Cluster
	namespace string

	mu    sync.Mutex
	calls []call
	infos []kube.RequestInfo
	log   bytes.Buffer
}

// call holds the headers of a request and its answer.
type call struct {
	method, path, query    string
	accept, sent, answered string        // media types
	head                   *bytes.Buffer // the first bytes of the answer
	compressed             bool
	code                   int
}

// start returns the API server that the tests share. It has no controllers: objects stay
// as they were written.
func start(t *testing.T) *server {
	t.Helper()
	return startOn(t, kubetest.Options{ServerOnly: true})
}

func startOn(t *testing.T, options kubetest.Options) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	s := &server{cluster: kubetest.Start(t, options)}
	s.namespace = s.cluster.Namespace(t)
	s.Client = s.connect(t, s.cluster.Config())
	return s
}

// connect returns another client whose requests are recorded too.
func (s *server) connect(t *testing.T, config *rest.Config) *kube.Client {
	t.Helper()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{s, next} })
	client, err := kube.Config{
		Rest:         config,
		FieldManager: "pintle-test",
		Logger:       slog.New(slog.NewTextHandler(lockedWriter{s}, nil)),
		Observe: func(i kube.RequestInfo) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.infos = append(s.infos, i)
		},
	}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

type lockedWriter struct{ *server }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

type recorder struct {
	to   *server
	next http.RoundTripper
}

// WrappedRoundTripper lets idle connections be closed.
func (r recorder) WrappedRoundTripper() http.RoundTripper { return r.next }

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	c := call{method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, accept: req.Header.Get("Accept"),
		sent: req.Header.Get("Content-Type")}
	if resp != nil {
		c.code, c.answered, c.compressed = resp.StatusCode, resp.Header.Get("Content-Type"), resp.Uncompressed
		c.head = new(bytes.Buffer)
		resp.Body = &headReader{resp.Body, c.head}
	}
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.calls = append(r.to.calls, c)
	return resp, err
}

// headReader keeps the first bytes that are read.
type headReader struct {
	io.ReadCloser
	head *bytes.Buffer
}

func (r *headReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.head.Write(p[:min(n, max(0, 100-r.head.Len()))])
	return n, err
}

// during returns the calls that f makes. It leaves out watches, because a store may begin
// one at any time.
func (s *server) during(f func()) []call {
	s.mu.Lock()
	before := len(s.calls)
	s.mu.Unlock()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls[before:]), func(c call) bool {
		return strings.Contains(c.query, "watch=true")
	})
}

// answered reports whether a request has been answered with success.
func (s *server) answered(method, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.calls, func(c call) bool {
		return c.method == method && strings.HasSuffix(c.path, path) && c.code == http.StatusOK
	})
}

func (s *server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// soon returns a context for calls that must not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got turns the results of a call into a function that returns the value, or fails the
// test: got(maps.Get(ctx, "a"))(t).
func got[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// names collects a list.
func names[T any](t *testing.T, list func(func(*T, error) bool), name func(*T) string) []string {
	t.Helper()
	var all []string
	for o, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name(o))
	}
	return all
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i+1 < len(data); i += 2 {
		if cm.Data == nil {
			cm.Data = make(map[string]string)
		}
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

func simplePod(name string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			Containers:                   []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
}

// book is a custom resource of these tests. installBooks makes a group for each test, so
// the kind is declared by a Kind and not by a method.
type book struct {
	kube.Object
	Spec struct {
		Title    string            `json:"title"`
		Pages    *int32            `json:"pages,omitempty"`
		Replicas int32             `json:"replicas,omitempty"`
		Notes    map[string]string `json:"notes,omitempty"`
	} `json:"spec"`
	Status struct {
		Lent     bool  `json:"lent"`
		Replicas int32 `json:"replicas,omitempty"`
	} `json:"status,omitzero"`
}

// installBooks installs a CustomResourceDefinition in a group of the test's own and
// returns the kind, as it must be declared.
func installBooks(t *testing.T, s *server, scope kube.Scope) kube.Kind {
	t.Helper()
	group := s.namespace + ".pintle.test"
	crds := kube.For[unstructured.Unstructured](s.Client, crdKind)
	crd := bookCRD(group, scope)
	got(crds.Create(soon(t), crd))(t)
	t.Cleanup(func() { _ = crds.Delete(context.Background(), crd.GetName()) })
	got(crds.Until(soon(t), crd.GetName(), established))(t)
	kind := kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: "Book"}}
	// Discovery lists the kind a moment later. The server's client has not asked for it yet.
	other := kube.For[unstructured.Unstructured](s.connect(t, s.cluster.Config()), kind)
	kubetest.Eventually(t, "the kind is served", func() error {
		if _, err := other.Get(soon(t), "none"); errors.Is(err, kube.ErrNotServed) {
			return err
		}
		return nil
	})
	return kind
}

var crdKind = kube.Kind{GVK: kube.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m := c.(map[string]any); m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}

func bookCRD(group string, scope kube.Scope) *unstructured.Unstructured {
	str, integer := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "books." + group},
		"spec": map[string]any{
			"group": group,
			"scope": string(scope),
			"names": map[string]any{"plural": "books", "singular": "book", "kind": "Book", "listKind": "BookList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": object(map[string]any{
					"spec": object(map[string]any{
						"title": str, "pages": integer, "replicas": integer,
						"notes": map[string]any{"type": "object", "additionalProperties": str},
					}),
					"status": object(map[string]any{
						"lent": map[string]any{"type": "boolean"}, "replicas": integer,
						"loan": object(map[string]any{"by": map[string]any{"type": "string"}}),
					}),
				})},
				"selectableFields": []any{map[string]any{"jsonPath": ".spec.title"}},
				"subresources": map[string]any{
					"status": map[string]any{},
					"scale":  map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
				},
			}},
		},
	}}
}

func newBook(name, title string) *book {
	b := &book{}
	b.Name, b.Spec.Title = name, title
	return b
}

// rows formats calls for messages.
func rows(calls []call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "\n%s %s?%s → %d", c.method, c.path, c.query, c.code)
	}
	return b.String()
}
