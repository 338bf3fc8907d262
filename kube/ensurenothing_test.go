package kube_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/internal/requesttrace"
	"github.com/pintle-go/pintle/kube"
)

// filled opens a store until the end of the test, and waits until it is filled.
func filled[T any](t *testing.T, r kube.Reader[T]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	store := kube.StoreOf(ctx, r)
	t.Cleanup(func() { cancel(); <-store.Done() })
	must(t, store.Sync(soon(t)))
}

// wantWrites calls ensure several times, and checks how many writes each call costs.
func wantWrites(t *testing.T, s *server, want []int, ensure func()) {
	t.Helper()
	for i, want := range want {
		n := 0
		for _, c := range s.during(ensure) {
			if c.method == "PATCH" {
				n++
			}
		}
		if n != want {
			t.Errorf("Ensure %d: %d writes, want %d", i, n, want)
		}
	}
}

// An Ensure of an object that sets no field is remembered like every other.
func TestEnsureOfNothing(t *testing.T) {
	s := start(t)
	accounts := kube.For[corev1.ServiceAccount](s.Client).In(s.namespace)
	filled(t, accounts.ReadOnly())
	account := func() *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	}
	wantWrites(t, s, []int{1, 0, 0, 0}, func() { got(accounts.Ensure(soon(t), account()))(t) })
}

// If a trace breaks an Ensure, one more write follows, and not one for each later Ensure.
func TestEnsureThatIsBroken(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	filled(t, maps.ReadOnly())
	breaks := requesttrace.With(soon(t),
		func(context.Context, requesttrace.Request) (context.Context, func(int, error)) { panic("broken") })
	func() {
		defer func() { _ = recover() }()
		_, _ = maps.Ensure(breaks, configMap("a", "b", "c"))
	}()
	wantWrites(t, s, []int{1, 0, 0}, func() { got(maps.Ensure(soon(t), configMap("a", "b", "c")))(t) })
}
