package controller

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// tally counts requests by method and resource.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) wire(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	what := r.Method
	if r.URL.Query().Get("watch") == "true" {
		what = "WATCH"
	}
	c.mu.Lock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[what+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
	c.n[""]++
	c.mu.Unlock()
	return send()
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// Controllers share stores, and make no requests while nothing changes.
func TestSharedStoresAndSilence(t *testing.T) {
	b := newBench(t)
	requests := new(tally)
	client := b.connect(requests.wire)
	parents := kube.For[corev1.ConfigMap](client).In(b.namespace).Labeled("role=parent")
	children := kube.For[corev1.Secret](client).In(b.namespace)
	var runs atomic.Int32
	controllers := make([]Any, 5)
	for i := range controllers {
		controllers[i] = Controller[corev1.ConfigMap]{
			Name: fmt.Sprint("c", i), For: parents, Owns: []kube.AnyHandle{children}, Resync: 50 * time.Millisecond,
			Watches: []Source{Mapped(children, func(context.Context, *corev1.Secret) []kube.Key { return nil })},
			Reconcile: func(context.Context, *corev1.ConfigMap) (Action, error) {
				runs.Add(1)
				return Done, nil
			},
		}
	}
	for i := range 20 {
		b.create(fmt.Sprint("p", i))
	}
	b.start(Options{}, controllers...)
	b.eventually("all are reconciled often", func() bool { return runs.Load() > 500 })
	for _, what := range []string{"GET configmaps", "WATCH configmaps", "GET secrets", "WATCH secrets"} {
		if n := requests.of(what); n != 1 {
			t.Errorf("%d requests %q, want 1", n, what)
		}
	}
	if n := requests.of(""); n != 4 {
		t.Errorf("%d requests at all: %v", n, requests.n)
	}
}

// Sources without owned objects ask for the keys that they return.
func TestSources(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	why := make(map[string]map[string]bool)
	keys := make(chan kube.Key)
	key := func(name string) kube.Key { return kube.Key{Namespace: b.namespace, Name: name} }
	for _, name := range []string{"mapped", "other", "sent", "timed"} {
		b.create(name)
	}
	settings := kube.For[corev1.Secret](b.client).In(b.namespace).Labeled("settings")
	b.start(Options{}, Controller[corev1.ConfigMap]{
		For: b.parents,
		Watches: []Source{
			Mapped(settings, func(_ context.Context, s *corev1.Secret) []kube.Key {
				if s.Labels["settings"] == "panic" {
					panic("no settings")
				}
				return []kube.Key{key(s.Labels["settings"])}
			}, Where(func(_, s *corev1.Secret) bool { return s.Name != "ignored" })),
			Channel("tests", keys),
			Every("clock", 20*time.Millisecond, func(context.Context) []kube.Key { return []kube.Key{key("timed")} }),
		},
		Reconcile: func(ctx context.Context, p *corev1.ConfigMap) (Action, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range Causes(ctx) {
				if why[p.Name] == nil {
					why[p.Name] = make(map[string]bool)
				}
				why[p.Name][strings.ReplaceAll(c.String(), b.namespace+"/", "")] = true
			}
			return Done, nil
		},
	})
	runs := func(name, cause string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return why[name][cause]
		}
	}
	b.eventually("the initial listing", runs("mapped", "ConfigMap mapped listed"))
	b.eventually("the timer", runs("timed", "triggered by clock"))
	keys <- key("sent")
	b.eventually("the channel", runs("sent", "triggered by tests"))
	set := func(name, concerns string) {
		t.Helper()
		s := &corev1.Secret{}
		s.Name, s.Labels = name, map[string]string{"settings": concerns}
		if _, err := b.children.Apply(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	set("ignored", "other")
	set("settings", "panic")
	// Only then is the next change a change of its own.
	b.eventually("the panic is said", func() bool {
		return b.log.count("cannot find the objects that a change concerns", "no settings") > 0
	})
	set("settings", "mapped")
	b.eventually("the mapping", runs("mapped", "Secret settings modified"))
	set("settings", "other")
	b.eventually("what is concerned now", runs("other", "Secret settings modified"))
	if runs("other", "Secret ignored added")() {
		t.Error("an object that the predicate left out has passed")
	}
}
