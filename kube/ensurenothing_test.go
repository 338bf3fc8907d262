package kube_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// An Ensure of an object that sets no field is remembered like every other.
func TestEnsureOfNothing(t *testing.T) {
	s := start(t)
	accounts := kube.For[corev1.ServiceAccount](s.Client).In(s.namespace)
	ctx, cancel := context.WithCancel(t.Context())
	store := accounts.Store(ctx)
	t.Cleanup(func() { cancel(); <-store.Done() })
	must(t, store.Sync(soon(t)))
	account := func() *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	}
	for i, want := range []int{1, 0, 0, 0} {
		calls := s.during(func() { got(accounts.Ensure(soon(t), account()))(t) })
		n := 0
		for _, c := range calls {
			if c.method == "PATCH" {
				n++
			}
		}
		if n != want {
			t.Errorf("Ensure %d: %d writes, want %d", i, n, want)
		}
	}
}

// If a trace breaks an Ensure, one more write follows, and not one for each later Ensure.
func TestEnsureThatIsBroken(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	ctx, cancel := context.WithCancel(t.Context())
	store := maps.Store(ctx)
	t.Cleanup(func() { cancel(); <-store.Done() })
	must(t, store.Sync(soon(t)))
	breaks := kube.WithRequestTrace(soon(t), func(context.Context, kube.RequestInfo) (context.Context, func(kube.RequestInfo, error)) {
		panic("broken")
	})
	func() {
		defer func() { _ = recover() }()
		_, _ = maps.Ensure(breaks, configMap("a", "b", "c"))
	}()
	for i, want := range []int{1, 0, 0} {
		calls := s.during(func() { got(maps.Ensure(soon(t), configMap("a", "b", "c")))(t) })
		n := 0
		for _, c := range calls {
			if c.method == "PATCH" {
				n++
			}
		}
		if n != want {
			t.Errorf("Ensure %d: %d writes, want %d", i, n, want)
		}
	}
}
