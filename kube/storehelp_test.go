package kube

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// startStore starts a store. At the end of the test it stops the store and waits for
// that.
func startStore[T any](t *testing.T, r Reader[T]) (*Store[T], context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	store := StoreOf(ctx, r)
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

// sizeOf counts the entries of an index of strings, of one type or another.
func sizeOf(x indexed) int {
	switch x := x.(type) {
	case keyIndex[string]:
		return x.at.Len() + x.of.Len()
	case keyIndex[types.UID]:
		return x.at.Len() + x.of.Len()
	}
	panic("an index of another type")
}
