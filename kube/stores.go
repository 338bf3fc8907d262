package kube

import (
	"context"
	"errors"
	"maps"
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
	opened uint64 // how many tables were started
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
		gvk: h.kind.GVK, plural: h.kind.Plural, goType: h.goType, whole: h.kind.whole,
		view: h.view, managed: h.codec.ManagedFields(), namespaces: strings.Join(h.namespaces, ","),
		label: h.selector.label, field: h.selector.field,
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
	id     tableID
	number uint64 // tables are numbered as they are started
	users  int
}

// open returns the table for a handle, started if there is none yet, and keeps
// it running until ctx ends.
func (s *stores) open(ctx context.Context, h handle) *table {
	t, leave := s.enter(h)
	context.AfterFunc(ctx, func() { leave() })
	return t
}

// enter returns the table for a handle, started if there is none yet, and the function
// to call when it is no longer used. That reports whether nobody else uses the table,
// which stops then.
func (s *stores) enter(h handle) (t *table, leave func() (last bool)) {
	if h.err != nil {
		t := newTable(h, nil)
		close(t.done)
		return t, func() bool { return true }
	}
	r, churn := s.join(h)
	if churn != nil {
		h.warnOfChurn(churn)
	}
	return r.table, func() bool { return s.leave(r) }
}

// join counts a user of the table for a handle. If it starts the table, it also returns
// the latest starts of that table, should they be many.
func (s *stores) join(h handle) (r *running, churn []time.Time) {
	id := tableOf(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.tables[id]
	if r == nil {
		s.opened++
		r = &running{table: startTable(h, s.indexes[id]), id: id, number: s.opened}
		churn = s.started(id)
		if s.tables == nil {
			s.tables = make(map[tableID]*running)
		}
		s.tables[id] = r
	}
	r.users++
	return r, churn
}

func (s *stores) leave(r *running) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.users--
	if r.users > 0 {
		return false
	}
	delete(s.tables, r.id)
	r.cancel()
	return true
}

// started notes the start of a table, and returns its latest starts if they are many. It
// is called with mu held.
func (s *stores) started(id tableID) (churn []time.Time) {
	if s.starts == nil || len(s.starts) >= churnKept {
		s.starts = make(map[tableID][]time.Time)
	}
	at := append(s.starts[id], time.Now())
	at = at[max(0, len(at)-churnStarts):]
	s.starts[id] = at
	if len(at) < churnStarts || time.Since(at[0]) > churnWithin {
		return nil
	}
	return slices.Clone(at)
}

// warnOfChurn logs the latest starts of the table of a handle. It is called without a
// lock: the logger may use the client.
func (h handle) warnOfChurn(starts []time.Time) {
	if kind := h.kindName(); h.client.warnings.fresh("store opened again and again: " + kind) {
		h.client.logger.Warn("store is opened and closed again and again, with a list and a watch each time: "+
			"open it once and read from the handle's Cached()",
			"kind", kind, "namespaces", strings.Join(h.namespaces, ","), "opened", len(starts),
			"within", time.Since(starts[0]).Round(time.Second))
	}
}

func startTable(h handle, indexes []indexer) *table {
	t := newTable(h, indexes)
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	var reflectors sync.WaitGroup
	for ns := range h.eachNamespace() {
		sink := &tableSink{table: t, namespace: ns, first: true}
		reflectors.Go(func() {
			persist(func() { _ = h.reflector(ns, sink).run(ctx) }) // ends with ctx: a table's sink returns no error
		})
	}
	go func() {
		reflectors.Wait()
		close(t.done)
	}()
	return t
}

// all returns the running tables.
func (s *stores) all() []*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.tables))
}

// each calls f for the tables that hold objects of a kind in a namespace,
// whatever version of it they read. The lock of the stores is not held meanwhile. A
// table that is started later lists the objects after the write that f is about.
func (s *stores) each(kind Kind, namespace string, f func(*table)) {
	for _, r := range s.all() {
		h := r.handle
		if h.kind.Group == kind.Group && h.kind.Kind == kind.Kind && h.hasNamespace(namespace) {
			f(r.table)
		}
	}
}

// choose returns the running table that serves a handle, nil if there is none. The table
// has the handle's type and kind, and holds reports that its objects will do. Of several
// such tables, the handle's own comes first, then those that are filled, then the one
// that was started first.
func (s *stores) choose(h handle, holds func(*table) bool) *table {
	own := tableOf(h)
	var best *running
	bestRank := 0
	for _, r := range s.all() {
		has := r.handle
		if has.goType != h.goType || has.kind.GVK != h.kind.GVK || has.view != h.view || !holds(r.table) {
			continue
		}
		rank := 2
		switch {
		case r.id == own:
			rank = 0
		case r.filled():
			rank = 1
		}
		if best == nil || rank < bestRank || rank == bestRank && r.number < best.number {
			best, bestRank = r, rank
		}
	}
	if best == nil {
		return nil
	}
	return best.table
}

// serving returns the table that the cached reads of a handle are served from, nil if
// there is none. It holds all objects of the handle, and keeps them as the handle's codec
// reads them.
func (s *stores) serving(h handle) *table {
	return s.choose(h, func(t *table) bool {
		has := t.handle
		return has.covers(h) && has.selector.field == h.selector.field &&
			(has.selector.label == "" || has.selector.label == h.selector.label) &&
			has.kind.whole == h.kind.whole && has.codec.ManagedFields() == h.codec.ManagedFields()
	})
}

// showing returns the filled table that shows what an apply of o would change, nil if
// there is none. It holds all objects of the namespace. If no table does, it is one that
// a label selector narrows, but that has the object or would have it with the labels
// of o.
func (s *stores) showing(h handle, key Key, o object) *table {
	holds := func(t *table) bool {
		return t.filled() && t.handle.hasNamespace(key.Namespace) && t.handle.selector.field == ""
	}
	if t := s.choose(h, func(t *table) bool { return holds(t) && t.handle.selector.label == "" }); t != nil {
		return t
	}
	return s.choose(h, func(t *table) bool {
		return holds(t) && (t.handle.selector.fits(o) || t.entry(key) != nil)
	})
}

// wrote tells the tables of a write that was answered with o.
func (s *stores) wrote(kind Kind, o object) {
	key := KeyOf(o)
	grace := o.GetDeletionGracePeriodSeconds()
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0) {
		// The removal of the last finalizer is answered with the object as it
		// was before, although it is gone.
		s.deleted(kind, key, o.GetUID())
		return
	}
	s.each(kind, key.Namespace, func(t *table) { t.wrote(key, o, true) })
}

// applied tells the tables of a write other than an Ensure, which was answered with
// o: the field manager may own other fields since.
func (s *stores) applied(kind Kind, o object) {
	key := KeyOf(o)
	s.each(kind, key.Namespace, func(t *table) { t.ensured.applied(key, o) })
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

// executing calls a function that sends a write of an object. A trace, or the way in which
// the type decodes itself, may break it off by a panic or the end of the goroutine. The
// server may have executed the write by then.
func (s *stores) executing(kind Kind, key Key, send func() error) error {
	returned := false
	defer func() {
		if !returned && key.Name != "" {
			s.unsure(kind, key)
		}
	}()
	err := send()
	returned = true
	return err
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
