package kube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// TestKindThatIsRemovedIsATrouble removes a kind's definition from a real server
// while a store of it runs, and installs it again.
func TestKindThatIsRemovedIsATrouble(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t)
	kind := installBooks(t, s, kube.Namespaced)
	books := kube.For[book](s.Client, kind).In(s.namespace)
	feed := books.Open(context.Background())
	defer feed.Close()
	eventually := func(what string, ok func() bool) {
		t.Helper()
		kubetest.Eventually(t, what, func() error {
			if !ok() {
				return fmt.Errorf("synced: %t, %+v, trouble: %s", feed.Synced(), feed.Stats(), fmt.Sprint(feed.Trouble()))
			}
			return nil
		})
	}
	got(books.Create(soon(t), newBook("a", "Dune")))(t)
	eventually("the store is filled", func() bool {
		return feed.Synced() && feed.Trouble() == nil && feed.Stats().Objects == 1
	})

	crds := kube.For[unstructured.Unstructured](s.Client, crdKind)
	crd := bookCRD(kind.Group, kube.Namespaced)
	must(t, crds.Delete(soon(t), crd.GetName()))
	must(t, crds.UntilGone(soon(t), crd.GetName()))
	eventually("the kind is gone", func() bool { return errors.Is(feed.Trouble(), kube.ErrNotServed) })
	// Nothing may change for a while.
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err := feed.Trouble(); !errors.Is(err, kube.ErrNotServed) {
			t.Fatalf("trouble while the kind is gone: %v", err)
		}
	}

	got(crds.Create(soon(t), bookCRD(kind.Group, kube.Namespaced)))(t)
	got(crds.Until(soon(t), crd.GetName(), established))(t)
	eventually("the kind is back", func() bool { return feed.Trouble() == nil && feed.Stats().Objects == 0 })
	got(books.Create(soon(t), newBook("b", "Emma")))(t)
	eventually("the store goes on", func() bool { return feed.Stats().Objects == 1 })
}

// TestKindThatCannotBeWatchedOnAServer opens a store of componentstatuses. Their lists
// have no resource version: the server makes them up for each request.
func TestKindThatCannotBeWatchedOnAServer(t *testing.T) {
	s := start(t)
	store := kube.StoreOf(t.Context(), kube.For[corev1.ComponentStatus](s.Client))
	must(t, store.Sync(soon(t)))
	n := 0
	for o, err := range store.All(soon(t)) {
		must(t, err)
		if n++; o.Name == "" {
			t.Error("an object without a name")
		}
	}
	if n == 0 {
		t.Error("no component")
	}
	changes := 0
	for ev, err := range kube.For[corev1.ComponentStatus](s.Client).Watch(soon(t)) {
		must(t, err)
		if ev.Type == kube.Synced {
			break
		}
		changes++
	}
	if changes != n {
		t.Errorf("%d objects in a watch, %d in a store", changes, n)
	}
}
