package kube

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// startStore starts a store that is stopped, and waited for, at the test's end.
func startStore[T any](t *testing.T, r Reader[T]) (*Store[T], context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	store := r.Store(ctx)
	t.Cleanup(func() {
		cancel()
		<-store.Done()
	})
	return store, cancel
}

// content lists a store, sorted, as "namespace/name note".
func content(t *testing.T, s *Store[corev1.ConfigMap]) []string {
	t.Helper()
	var lines []string
	for o, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, KeyOf(o).String()+" "+noteOfConfigMap(o))
	}
	slices.Sort(lines)
	return lines
}
