package kube

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// stores are the tables that a client runs.
type stores struct {
	mu     sync.Mutex
	tables map[tableID]*running
	// indexes are declared for the tables that start.
	indexes map[tableID][]indexer
	starts  map[tableID][]time.Time // the latest of each, at most churnStarts
}

// A store that is started as often as this within a time is opened where it should be
// read from.
const (
	churnStarts = 5
	churnWithin = time.Minute
	// churnKept bounds for how many stores the starts are remembered.
	churnKept = 1000
)

// tableID is what the users of a table have in common.
type tableID struct {
	gvk                              GVK
	goType, whole                    reflect.Type
	plural, namespaces, label, field string
	view, managed                    bool
}

// tableOf returns the identity of a handle's table.
func tableOf(h handle) tableID {
	return tableID{
		gvk: h.kind.GVK, plural: h.kind.Plural, goType: h.goType, whole: h.kind.whole, view: h.view, managed: h.codec.ManagedFields(),
		namespaces: strings.Join(h.namespaces, ","), label: h.selector.label, field: h.selector.field,
	}
}

// declare notes an index for the tables of a handle that start from now on.
func (s *stores) declare(h handle, x indexer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexes == nil {
		s.indexes = make(map[tableID][]indexer)
	}
	id := tableOf(h)
	s.indexes[id] = append(s.indexes[id], x)
}

type running struct {
	*table
	users int
}

// open returns the table for a handle, started if there is none yet, and keeps
// it running until ctx ends.
func (s *stores) open(ctx context.Context, h handle) *table {
	t, leave := s.enter(h)
	context.AfterFunc(ctx, func() { leave() })
	return t
}

// enter returns the table for a handle, started if there is none yet, and what
// to call when it is no longer used. That reports whether nobody else uses it:
// then it stops.
func (s *stores) enter(h handle) (t *table, leave func() (last bool)) {
	if h.err != nil {
		t := newTable(h, nil)
		close(t.done)
		return t, func() bool { return true }
	}
	id := tableOf(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.tables[id]
	if r == nil {
		r = &running{table: startTable(h, s.indexes[id])}
		s.started(id, h)
		if s.tables == nil {
			s.tables = make(map[tableID]*running)
		}
		s.tables[id] = r
	}
	r.users++
	return r.table, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.users--
		if r.users > 0 {
			return false
		}
		delete(s.tables, id)
		r.cancel()
		return true
	}
}

// started counts the starts of a table, and warns if there are many. It is called with
// mu held.
func (s *stores) started(id tableID, h handle) {
	if s.starts == nil || len(s.starts) >= churnKept {
		s.starts = make(map[tableID][]time.Time)
	}
	at := append(s.starts[id], time.Now())
	at = at[max(0, len(at)-churnStarts):]
	s.starts[id] = at
	if len(at) < churnStarts || time.Since(at[0]) > churnWithin {
		return
	}
	if kind := h.kindName(); h.client.warnings.fresh("store opened again and again: " + kind) {
		h.client.logger.Warn("store is opened and closed again and again, with a list and a watch each time: "+
			"open it once and read from the handle's Cached()",
			"kind", kind, "namespaces", id.namespaces, "opened", churnStarts, "within", time.Since(at[0]).Round(time.Second))
	}
}

func startTable(h handle, indexes []indexer) *table {
	t := newTable(h, indexes)
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	var reflectors sync.WaitGroup
	for ns := range h.eachNamespace() {
		sink := &tableSink{table: t, namespace: ns, first: true}
		reflectors.Go(func() { _ = h.reflector(ns, sink).run(ctx) }) // ends with ctx: a table's sink returns no error
	}
	go func() {
		reflectors.Wait()
		close(t.done)
	}()
	return t
}

// each calls f for the tables that hold objects of a kind in a namespace,
// whatever version of it they read. The lock of the stores is not held meanwhile.
func (s *stores) each(kind Kind, namespace string, f func(*table)) {
	for _, t := range s.of(kind, namespace) {
		f(t)
	}
}

// of returns the tables that hold objects of a kind in a namespace. A table that is
// started later lists what was written before.
func (s *stores) of(kind Kind, namespace string) (found []*table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.tables {
		h := r.handle
		if h.kind.Group == kind.Group && h.kind.Kind == kind.Kind && (len(h.namespaces) == 0 || slices.Contains(h.namespaces, namespace)) {
			found = append(found, r.table)
		}
	}
	return found
}

// wrote tells the tables of a write that was answered with o.
func (s *stores) wrote(kind Kind, o object) {
	key := KeyOf(o)
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (o.GetDeletionGracePeriodSeconds() == nil || *o.GetDeletionGracePeriodSeconds() == 0) {
		// The removal of the last finalizer is answered with the object as it
		// was before, although it is gone.
		s.deleted(kind, key, o.GetUID())
		return
	}
	s.each(kind, key.Namespace, func(t *table) { t.wrote(key, o, true) })
}

// applied tells the tables of a write other than an Ensure, which was answered with
// o: the field manager may own other fields since.
func (s *stores) applied(c *Client, kind Kind, o object) {
	key := KeyOf(o)
	s.each(kind, key.Namespace, func(t *table) { t.ensured.applied(c, key, o) })
}

// wrotePart tells the tables of a write that was answered with an object of
// another kind, such as a Scale, that has the identity and the version of the
// object written but not its labels.
func (s *stores) wrotePart(kind Kind, o object) {
	key := KeyOf(o)
	s.each(kind, key.Namespace, func(t *table) {
		t.ensured.forget(partsOf(key)...)
		t.wrote(key, o, false)
	})
}

// deleted tells the tables that an object is gone.
func (s *stores) deleted(kind Kind, key Key, uid types.UID) {
	s.each(kind, key.Namespace, func(t *table) { t.deleted(key, uid) })
}

// lost tells the tables of a write that failed, if it may have been executed
// all the same.
func (s *stores) lost(kind Kind, key Key, err error) {
	var status apierrors.APIStatus
	refused := errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
	if refused || key.Name == "" || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotServed) {
		return
	}
	s.unsure(kind, key)
}

// unsure tells the tables that only the server knows what became of an object.
func (s *stores) unsure(kind Kind, key Key) {
	s.each(kind, key.Namespace, func(t *table) {
		t.ensured.forget(partsOf(key)...)
		t.unsure(key)
	})
}

// deleting makes reads wait until an object is gone or going.
func (s *stores) deleting(kind Kind, key Key, uid types.UID) {
	s.each(kind, key.Namespace, func(t *table) { t.deleting(key, uid) })
}
