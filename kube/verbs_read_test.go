package kube_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func nameOf(o *corev1.ConfigMap) string { return o.Name }

func TestGet(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Create(soon(t), configMap("a", "k", "v")))(t)
	cm := got(maps.Get(soon(t), "a"))(t)
	if cm.Data["k"] != "v" || cm.Kind != "ConfigMap" || cm.APIVersion != "v1" || cm.UID == "" {
		t.Errorf("got %+v", cm)
	}
	_, err := maps.Get(soon(t), "b")
	want := fmt.Sprintf(`get ConfigMap %s/b: configmaps "b" not found`, s.namespace)
	if !apierrors.IsNotFound(err) || err.Error() != want {
		t.Errorf("got error %q, want %q", err, want)
	}
	var kerr *kube.Error
	if !errors.As(err, &kerr) || kerr.Verb != "get" || kerr.Kind != "ConfigMap" || kerr.Namespace != s.namespace ||
		kerr.Name != "b" {
		t.Errorf("error says %+v", kerr)
	}
}

// TestListPages lists more objects than two pages hold.
func TestListPages(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	const n = 1250
	createMany(t, maps, n, func(i int) *corev1.ConfigMap {
		cm := configMap(fmt.Sprintf("cm-%04d", i), "data", strings.Repeat("x", 300))
		cm.Labels = map[string]string{"half": fmt.Sprint(i % 2)}
		return cm
	})
	var all []string
	calls := s.during(func() { all = names(t, maps.List(soon(t)), nameOf) })
	if len(all) != n || !slices.IsSorted(all) || len(slices.Compact(all)) != n {
		t.Errorf("listed %d objects, want each of %d once", len(all), n)
	}
	if len(calls) != 3 {
		t.Errorf("want three pages, got:%s", rows(calls))
	}
	for _, c := range calls {
		if !strings.HasPrefix(c.answered, "application/vnd.kubernetes.protobuf") || !c.compressed {
			t.Errorf("a page came as %q, compressed: %t", c.answered, c.compressed)
		}
	}
	// If the loop is left, it asks for no further page.
	calls = s.during(func() {
		for _, err := range maps.List(soon(t)) {
			must(t, err)
			break
		}
	})
	if len(calls) != 1 {
		t.Errorf("want one page, got:%s", rows(calls))
	}
	if half := names(t, maps.Labeled("half=1").List(soon(t)), nameOf); len(half) != n/2 {
		t.Errorf("the label selector gives %d objects, want %d", len(half), n/2)
	}
	one := names(t, maps.Fielded("metadata.name=cm-0007").List(soon(t)), nameOf)
	if !slices.Equal(one, []string{"cm-0007"}) {
		t.Errorf("the field selector gives %q", one)
	}
	must(t, maps.DeleteAll(soon(t)))
}

// createMany creates n objects, several at a time.
func createMany[T any](t *testing.T, r kube.Resource[T], n int, object func(i int) *T) {
	t.Helper()
	var running sync.WaitGroup
	next := make(chan int)
	for range 16 {
		running.Go(func() {
			for i := range next {
				_, err := r.Create(soon(t), object(i))
				if apierrors.IsTimeout(err) { // the server has no patience, and may have written the object
					if _, err = r.Create(soon(t), object(i)); apierrors.IsAlreadyExists(err) {
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func TestListNamespaces(t *testing.T) {
	s := start(t)
	other := s.cluster.Namespace(t)
	maps := kube.For[corev1.ConfigMap](s.Client)
	for _, ns := range []string{s.namespace, other} {
		got(maps.In(ns).Create(soon(t), configMap("in-"+ns)))(t)
	}
	mine := func(all []string) []string {
		return slices.DeleteFunc(all, func(n string) bool { return !strings.HasPrefix(n, "in-") })
	}
	want := []string{"in-" + s.namespace, "in-" + other}
	slices.Sort(want)
	both := mine(names(t, maps.In(s.namespace, other, other).List(soon(t)), nameOf))
	slices.Sort(both)
	if !slices.Equal(want, both) {
		t.Errorf("two namespaces hold %q, want %q", both, want)
	}
	all := mine(names(t, maps.List(soon(t)), nameOf))
	for _, n := range want {
		if !slices.Contains(all, n) {
			t.Errorf("all namespaces lack %s", n)
		}
	}
	if one := mine(names(t, maps.In(other).List(soon(t)), nameOf)); !slices.Equal(one, []string{"in-" + other}) {
		t.Errorf("one namespace holds %q", one)
	}
}

// TestListCustom lists a custom resource, which is JSON, by its own selectable field.
func TestListCustom(t *testing.T) {
	s := start(t)
	books := kube.For[book](s.Client, installBooks(t, s, kube.Namespaced)).In(s.namespace)
	for _, title := range []string{"Dune", "Emma"} {
		got(books.Create(soon(t), newBook(strings.ToLower(title), title)))(t)
	}
	var titles []string
	calls := s.during(func() {
		titles = names(t, books.Fielded("spec.title=Emma").List(soon(t)), func(b *book) string {
			return b.Spec.Title + b.Kind
		})
	})
	if !slices.Equal(titles, []string{"EmmaBook"}) {
		t.Errorf("listed %q", titles)
	}
	for _, c := range calls {
		if c.answered != "application/json" {
			t.Errorf("answered with %q", c.answered)
		}
	}
}
