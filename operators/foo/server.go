package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

// source is the part of a store that the server reads.
type source interface {
	Synced() bool
	Get(context.Context, kube.Key) (*Foo, error)
	All(context.Context) iter.Seq2[*Foo, error]
}

// server answers from a store. It never waits for the store: before the first sync every
// answer is 503.
type server struct {
	foos      source
	namespace string // allNamespaces, or the served namespace
}

// answer is a Foo in an answer.
type answer struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Spec      *FooSpec `json:"spec,omitempty"`
	// Error replaces a spec that could not be read.
	Error string `json:"error,omitempty"`
}

// failure is the body of an answer that reports an error.
type failure struct {
	Error string `json:"error"`
}

// cache reads the Foos from the store that the informer keeps running.
type cache struct {
	*kube.Informer
	foos kube.Reader[Foo]
}

func (c cache) Get(ctx context.Context, key kube.Key) (*Foo, error) {
	return c.foos.In(key.Namespace).Cached().Get(ctx, key.Name)
}

func (c cache) All(ctx context.Context) iter.Seq2[*Foo, error] { return c.foos.Cached().All(ctx) }

func newServer(foos source, namespace string, metrics http.Handler) http.Handler {
	s := &server{foos: foos, namespace: namespace}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /foos", s.list)
	mux.HandleFunc("GET /foos/{name}", s.get)
	mux.HandleFunc("GET /foos/{namespace}/{name}", s.get)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(asGet(r)); pattern != "/" {
			w.Header().Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "%s only reads: use GET", r.URL.Path)
			return
		}
		fail(w, http.StatusNotFound, "there is nothing at %s: try /foos", r.URL.Path)
	})
	return mux
}

// asGet returns r with the method GET.
func asGet(r *http.Request) *http.Request {
	get := r.Clone(r.Context())
	get.Method = http.MethodGet
	return get
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	if !s.synced(w) {
		return
	}
	list := []answer{} // no Foos are [], not null
	for foo, err := range s.foos.All(r.Context()) {
		if foo == nil {
			fail(w, http.StatusServiceUnavailable, "%v", err)
			return
		}
		list = append(list, answerFor(foo, err))
	}
	slices.SortFunc(list, func(a, b answer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	send(w, r, list)
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	key := kube.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	switch {
	case key.Namespace != "":
	case s.namespace == allNamespaces:
		fail(w, http.StatusNotFound, "Foos of all namespaces are served: ask for /foos/{namespace}/%s", key.Name)
		return
	default:
		key.Namespace = s.namespace
	}
	if !s.synced(w) {
		return
	}
	foo, err := s.foos.Get(r.Context(), key)
	switch {
	case apierrors.IsNotFound(err):
		fail(w, http.StatusNotFound, "there is no Foo %s in namespace %s", key.Name, key.Namespace)
	case foo == nil:
		fail(w, http.StatusServiceUnavailable, "%v", err)
	case err != nil:
		fail(w, http.StatusInternalServerError, "%v", err)
	default:
		send(w, r, answerFor(foo, nil))
	}
}

// answerFor returns the answer for a Foo. If err is set, only the metadata of the Foo
// could be read.
func answerFor(foo *Foo, err error) answer {
	if err != nil {
		return answer{Namespace: foo.Namespace, Name: foo.Name, Error: err.Error()}
	}
	return answer{Namespace: foo.Namespace, Name: foo.Name, Spec: &foo.Spec}
}

func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.foos.Synced() {
		say(w, http.StatusServiceUnavailable, "the store has not been filled yet")
		return
	}
	say(w, http.StatusOK, "ok")
}

func (s *server) synced(w http.ResponseWriter) bool {
	if s.foos.Synced() {
		return true
	}
	w.Header().Set("Retry-After", "1")
	fail(w, http.StatusServiceUnavailable, "the store has not been filled yet")
	return false
}

// send answers with v. The answer has an ETag, so that a client that asks again need not
// get the same body again.
func send(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, "encode answer: %v", err)
		return
	}
	sum := sha256.Sum256(body)
	header(w, "application/json")
	w.Header().Set("Cache-Control", "no-cache") // clients may store it, but must ask whether it is still valid
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sum[:8]))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(append(body, '\n')))
}

func fail(w http.ResponseWriter, code int, format string, args ...any) {
	body, err := json.Marshal(failure{fmt.Sprintf(format, args...)})
	if err != nil {
		body = nil // cannot happen: a string can be encoded
	}
	header(w, "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may have disconnected
}

// say answers a probe.
func say(w http.ResponseWriter, code int, text string) {
	header(w, "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // the client may have disconnected
}

func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
