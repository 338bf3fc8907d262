package kube

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refresh asks the server what there is now, and has later reads of the store be
// no older than that: reads wait for the watch, or ask the server, as they do
// after writes of this process. It is for a program that goes on where another one
// ended, whose last writes its watch may not have told of yet. It lists the
// metadata of all objects of the handle, for which the store must have been
// filled.
func (f *Feed) Refresh(ctx context.Context) error {
	t, h := f.table, f.table.handle
	if h.err != nil {
		return f.Err()
	}
	h.codec = &codec{gvk: h.codec.gvk, apiVersion: h.codec.apiVersion, metadata: true}
	before := maps.Collect(t.now().entries.All())
	for o, err := range (Reader[metav1.PartialObjectMetadata]{h}).List(ctx) {
		if err != nil {
			return err
		}
		key := KeyOf(o)
		delete(before, key)
		w := ownWrite{uid: o.GetUID(), rv: o.GetResourceVersion(), meta: metaEntry(o)}
		t.own.mu.Lock()
		t.answered(key, w)
		t.own.mu.Unlock()
	}
	t.own.mu.Lock()
	defer t.own.mu.Unlock()
	for key, e := range before {
		if t.entry(key) == e { // it was there before the list and is not in it
			t.own.drop(key)
			t.own.hide(key, e.uid())
		}
	}
	return nil
}
