package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// rescoped plays a server whose kind Gadget is installed again with the other scope.
type rescoped struct {
	mu         sync.Mutex
	namespaced bool
	discovered int
}

func (r *rescoped) set(namespaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.namespaced = namespaced
}

func (r *rescoped) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.discovered
}

func (r *rescoped) serve(req *http.Request) string {
	if req.URL.Query().Get("watch") == "true" {
		<-req.Context().Done() // a watch that tells nothing
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	const root, collection = "/apis/example.com/v1", "/apis/example.com/v1/gadgets"
	inNamespace := strings.Contains(req.URL.Path, "/namespaces/a/gadgets")
	everywhere := req.Method == http.MethodGet && req.URL.Path == collection
	switch {
	case req.URL.Path == root:
		r.discovered++
		return fmt.Sprintf(`{"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[
			{"name":"gadgets","namespaced":%t,"kind":"Gadget"}]}`, r.namespaced)
	case inNamespace != r.namespaced && !everywhere:
		return ""
	case strings.HasSuffix(req.URL.Path, "/gadgets") && req.Method != http.MethodPost:
		return `{"apiVersion":"example.com/v1","kind":"GadgetList","metadata":{"resourceVersion":"5"},"items":[]}`
	case r.namespaced:
		return gadget
	}
	return `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"x"}}`
}

type rescopedGadget struct {
	kube.Object
	Status struct {
		Ready bool `json:"ready"`
	} `json:"status"`
}

// Every request learns that a kind was installed again with the other scope: the second try
// succeeds at the latest.
func TestScopeChanges(t *testing.T) {
	named := func(namespace string) *rescopedGadget {
		o := new(rescopedGadget)
		o.Name, o.Namespace = "x", namespace
		return o
	}
	first := func(list func(func(*rescopedGadget, error) bool)) error {
		for _, err := range list {
			return err
		}
		return nil
	}
	type gadgets = kube.Resource[rescopedGadget]
	for verb, use := range map[string]func(context.Context, gadgets, string) error{
		"get":    func(ctx context.Context, h gadgets, _ string) error { _, err := h.Get(ctx, "x"); return err },
		"list":   func(ctx context.Context, h gadgets, _ string) error { return first(h.List(ctx)) },
		"create": func(ctx context.Context, h gadgets, ns string) error { _, err := h.Create(ctx, named(ns)); return err },
		"update": func(ctx context.Context, h gadgets, ns string) error { _, err := h.Update(ctx, named(ns)); return err },
		"apply":  func(ctx context.Context, h gadgets, ns string) error { _, err := h.Apply(ctx, named(ns)); return err },
		"ensure": func(ctx context.Context, h gadgets, ns string) error { _, err := h.Ensure(ctx, named(ns)); return err },
		"status": func(ctx context.Context, h gadgets, ns string) error { return h.Status().Apply(ctx, named(ns)) },
		"patch": func(ctx context.Context, h gadgets, _ string) error {
			_, err := h.Patch(ctx, "x", types.MergePatchType, []byte("{}"))
			return err
		},
		"modify": func(ctx context.Context, h gadgets, _ string) error {
			_, err := h.Modify(ctx, "x", func(*rescopedGadget) error { return nil })
			return err
		},
		"delete":     func(ctx context.Context, h gadgets, _ string) error { return h.Delete(ctx, "x") },
		"delete all": func(ctx context.Context, h gadgets, _ string) error { return h.DeleteAll(ctx) },
		"subresource": func(ctx context.Context, h gadgets, _ string) error {
			_, err := kube.Sub[rescopedGadget](h, "scale").Get(ctx, "x")
			return err
		},
		"until": func(ctx context.Context, h gadgets, _ string) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := h.Until(ctx, "x", func(*rescopedGadget) bool { return true })
			if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, kube.ErrScope) {
				return nil // the played server has no watches: the scope was learned
			}
			return err
		},
	} {
		for _, namespaced := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, namespaced %t", verb, namespaced), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &rescoped{namespaced: !namespaced}
					all := kube.For[rescopedGadget](scripted(t, s.serve), kindOf("example.com", "Gadget"))
					in := func(namespaced bool) (gadgets, string) {
						if namespaced {
							return all.In("a"), "a"
						}
						return all, ""
					}
					h, ns := in(!namespaced)
					must(t, use(t.Context(), h, ns))
					s.set(namespaced)
					h, ns = in(namespaced)
					if use(t.Context(), h, ns) == nil {
						return
					}
					if err := use(t.Context(), h, ns); err != nil {
						t.Errorf("the second try: %v", err)
					}
				})
			})
		}
	}
}

// A store learns that its kind was installed again with the other scope.
func TestStoreOfAChangedScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rescoped{}
		all := kube.For[rescopedGadget](scripted(t, s.serve), kindOf("example.com", "Gadget"))
		got(all.Get(t.Context(), "x"))(t)
		s.set(true)
		f := all.In("a").Open(t.Context())
		defer f.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, f.Sync(ctx))
		if _, err := all.In("a").Cached().Get(ctx, "x"); errors.Is(err, kube.ErrScope) {
			t.Errorf("a cached read: %v", err)
		}
	})
}

// A wrong scope costs no request if the declaration has told the scope, or if discovery has
// told it a moment before. Otherwise it costs one.
func TestWrongScopeAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rescoped{}
		client := scripted(t, s.serve)
		use := func(kind kube.Kind) {
			t.Helper()
			_, err := kube.ViewOf[metav1.PartialObjectMetadata](client, kind).In("a").Get(t.Context(), "x")
			if !errors.Is(err, kube.ErrScope) {
				t.Errorf("error %v", err)
			}
		}
		declared := kindOf("example.com", "Gadget")
		declared.Plural, declared.Scope = "gadgets", kube.ClusterScoped
		for i, kind := range []kube.Kind{declared, kindOf("example.com", "Gadget"), kindOf("example.com", "Gadget")} {
			if use(kind); s.asked() != i {
				t.Errorf("after %d uses the server was asked %d times", i+1, s.asked())
			}
		}
	})
}
