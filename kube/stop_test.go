package kube

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A store that stops does not learn of later writes. So its reads fail, also while one of
// its goroutines is still busy.
func TestReadsOfAStoreThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		cms := For[corev1.ConfigMap](s.client(t)).In("default")
		busy := make(chan struct{})
		IndexBy(cms, func(o *corev1.ConfigMap) []string {
			if o.Name == "b" {
				<-busy
			}
			return nil
		})
		store, stop := startStore(t, cms.ReadOnly())
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.put(key("b"), "one") // the watch stops there
		synctest.Wait()
		s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPut {
				return nil, nil
			}
			stop() // the write is answered afterwards
			synctest.Wait()
			return s.serve(r)
		})
		o, err := store.Get(t.Context(), key("a"))
		if err != nil {
			t.Fatal(err)
		}
		o.Data["note"] = "two"
		if _, err := cms.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		select {
		case <-store.Done():
			t.Error("the store has stopped already")
		default:
		}
		if o, err := store.Get(t.Context(), key("a")); !errors.Is(err, ErrStopped) {
			t.Errorf("a read after the write: %v, %v", o, err)
		}
		if err := store.Sync(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("sync: %v", err)
		}
		for o, err := range store.All(t.Context()) {
			if !errors.Is(err, ErrStopped) {
				t.Errorf("a list after the write: %v, %v", o, err)
			}
		}
		close(busy)
	})
}

// A cached read that waits for a store goes on with another store if the first one stops.
func TestCachedReadWhoseStoreStops(t *testing.T) {
	reads := map[string]func(context.Context, Reader[corev1.ConfigMap], *Index[corev1.ConfigMap, string]) error{
		"get": func(ctx context.Context, r Reader[corev1.ConfigMap], _ *Index[corev1.ConfigMap, string]) error {
			return second(r.In("one").Cached().Get(ctx, "a"))
		},
		"all": func(ctx context.Context, r Reader[corev1.ConfigMap], _ *Index[corev1.ConfigMap, string]) error {
			return onlyA(r.Cached().All(ctx))
		},
		"labeled": func(ctx context.Context, r Reader[corev1.ConfigMap], _ *Index[corev1.ConfigMap, string]) error {
			return onlyA(r.Cached().Labeled(ctx, "!app"))
		},
		"index": func(ctx context.Context, _ Reader[corev1.ConfigMap], by *Index[corev1.ConfigMap, string]) error {
			return onlyA(by.Get(ctx, "1"))
		},
		"keys": func(ctx context.Context, _ Reader[corev1.ConfigMap], by *Index[corev1.ConfigMap, string]) error {
			keys, err := by.Keys(ctx)
			if err == nil && !slices.Equal(keys, []string{"1"}) {
				err = fmt.Errorf("other keys: %q", keys)
			}
			return err
		},
	}
	for name, read := range reads {
		for _, wide := range []bool{true, false} {
			t.Run(map[bool]string{true: name + " beside another store", false: name + " without another store"}[wide], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newAPIServer()
					s.put(Key{"one", "a"}, "1")
					s.put(Key{"two", "a"}, "2")
					cms := For[corev1.ConfigMap](s.client(t))
					s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
						if strings.Contains(r.URL.Path, "/namespaces/one/") { // the narrow store is never filled
							<-r.Context().Done()
							return nil, r.Context().Err()
						}
						return nil, nil
					})
					if wide {
						startStore(t, cms.ReadOnly())
					}
					one := cms.In("one").ReadOnly()
					by := IndexBy(one, func(o *corev1.ConfigMap) []string { return []string{o.Data["note"]} })
					_, stop := startStore(t, one)
					synctest.Wait()
					go func() {
						time.Sleep(time.Second)
						stop()
					}()
					switch err := read(t.Context(), one, by); {
					case wide && err != nil, !wide && !errors.Is(err, ErrNotCached):
						t.Errorf("got %v", err)
					}
				})
			})
		}
	}
}

// onlyA returns an error if a list does not consist of the object one/a.
func onlyA(list iter.Seq2[*corev1.ConfigMap, error]) error {
	found := 0
	for o, err := range list {
		if err != nil {
			return err
		}
		if found++; KeyOf(o) != (Key{"one", "a"}) {
			return errors.New("another object: " + KeyOf(o).String())
		}
	}
	if found != 1 {
		return errors.New("not one object")
	}
	return nil
}

// TestReadsWithAnEndedContext finds that reads of a filled store do not need the context: an
// operator that reads at its deadline is told what is there.
func TestReadsWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPIServer()
		s.put(key("a"), "one")
		store, _ := startStore(t, For[corev1.ConfigMap](s.client(t)).In("default").ReadOnly())
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for range 100 { // select would choose
			if err := store.Sync(ended); err != nil {
				t.Fatalf("sync: %v", err)
			}
			if _, err := store.Get(ended, key("a")); err != nil {
				t.Fatalf("get: %v", err)
			}
			for _, err := range store.All(ended) {
				if err != nil {
					t.Fatalf("list: %v", err)
				}
			}
		}
	})
}
