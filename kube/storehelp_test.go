package kube

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Store is an informer with the reads of its own store. [Cached] chooses among the stores
// that run, and most tests are about one of them.
type Store[T any] struct {
	*Informer
	reads storeReader
}

// StoreOf opens the store of a handle.
func StoreOf[T any](ctx context.Context, h Handle[T]) *Store[T] {
	f := h.Open(ctx)
	return &Store[T]{f, storeReader{table: f.table, handle: h.base()}}
}

// Get is the function [Get].
func (s *Store[T]) Get(ctx context.Context, key Key) (*T, error) { return Get[T](ctx, s.Informer, key) }

// All is [Cached.All].
func (s *Store[T]) All(ctx context.Context) iter.Seq2[*T, error] {
	return typedSeq[T](s.reads.all(ctx))
}

// Labeled is [Cached.Labeled].
func (s *Store[T]) Labeled(ctx context.Context, selector string) iter.Seq2[*T, error] {
	return typedSeq[T](s.reads.labeled(ctx, selector))
}

// OwnedBy is [Cached.OwnedBy].
func (s *Store[T]) OwnedBy(ctx context.Context, owner types.UID) iter.Seq2[*T, error] {
	return typedSeq[T](s.reads.ownedBy(ctx, owner))
}

// follow calls yield with the changes of a table, as Informer.Changes does.
func (t *table) follow(ctx context.Context, yield func(Change) bool) {
	sub := &subscription{table: t, wake: make(chan struct{}, 1)}
	sub.follow(ctx, yield)
}

// Watch yields the changes of the store with their objects, as a loop that decodes them does.
func (s *Store[T]) Watch(ctx context.Context) iter.Seq2[WatchEvent[T], error] {
	return func(yield func(WatchEvent[T], error) bool) {
		if err := s.err(); err != nil {
			yield(WatchEvent[T]{}, err)
			return
		}
		for c := range s.Changes(ctx) {
			ev := WatchEvent[T]{Type: c.Type, Object: new(T)}
			var err error
			if c.Type.IsChange() {
				_, ev.Object, err = Decode[T](c)
				if e := (*Error)(nil); errors.As(err, &e) {
					err = e
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

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
