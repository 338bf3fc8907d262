package kube

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// stores holds the tables that a client runs.
type stores struct {
	mu     sync.Mutex
	tables map[tableID]*running
	// running holds the same tables. It is replaced and never changed.
	running []*running
	opened  uint64 // the number of tables that were started
	// indexes holds the indexes that are declared for tables that start.
	indexes map[tableID][]indexer
	starts  map[tableID][]time.Time // the latest starts of each table, at most churnStarts
}

// If a store is started this often within this time, the program opens a store where it
// should read from one.
const (
	churnStarts = 5
	churnWithin = time.Minute
	// churnKept is the number of stores whose starts are remembered.
	churnKept = 1000
	// manyIndexes is a number of indexes of one handle that shows that the program declares
	// them again and again.
	manyIndexes = 100
)

// tableID is the common part of the handles that share a table.
type tableID struct {
	gvk                              GVK
	goType, whole                    reflect.Type
	plural, namespaces, label, field string
	view                             bool
}

// tableOf returns the identity of a handle's table.
func tableOf(h *handle) tableID {
	return tableID{
		gvk: h.kind.GVK, plural: h.kind.Plural, goType: h.goType, whole: h.kind.whole,
		view: h.view, namespaces: strings.Join(h.namespaces, ","),
		label: h.selector.label, field: h.selector.field,
	}
}

// declare notes an index for the tables of a handle that start from now on.
func (s *stores) declare(h *handle, x indexer) {
	if s.declared(tableOf(h), x) == manyIndexes { // it only grows, so this is logged once
		h.client.logger.Warn("a handle has very many indexes, and each of them is kept and updated: "+
			"call IndexBy once, beside the handle, and not in a reconcile", "kind", h.kindName(), "indexes", manyIndexes)
	}
}

// declared is the part of declare that holds the lock. It returns the number of indexes.
func (s *stores) declared(id tableID, x indexer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexes == nil {
		s.indexes = make(map[tableID][]indexer)
	}
	s.indexes[id] = append(s.indexes[id], x)
	return len(s.indexes[id])
}

type running struct {
	*table
	id     tableID
	number uint64 // tables are numbered in the order of their start
	users  int
}

// enter returns the table for a handle, and starts one if there is none. The caller calls
// leave when it does not use the table any more. leave reports whether it was the last
// user; then the table stops.
func (s *stores) enter(h *handle) (t *table, leave func() (last bool)) {
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

// join counts a user of the table for a handle. If it starts the table and the table was
// started many times lately, it also returns these starts.
func (s *stores) join(h *handle) (r *running, churn []time.Time) {
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
		s.running = slices.Collect(maps.Values(s.tables))
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
	r.left.Store(true) // before a write can miss the table
	delete(s.tables, r.id)
	s.running = slices.Collect(maps.Values(s.tables))
	r.cancel()
	return true
}

// started notes the start of a table. It returns the table's latest starts if there were
// many. The caller holds mu.
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

// warnOfChurn logs the latest starts of the table of a handle. The caller holds no lock,
// because the logger may use the client.
func (h *handle) warnOfChurn(starts []time.Time) {
	if kind := h.kindName(); h.client.warnings.fresh("store opened repeatedly: " + kind) {
		h.client.logger.Warn("a store is opened and closed repeatedly, with a list and a watch each time: "+
			"open it once and read from the handle's Cached()",
			"kind", kind, "namespaces", strings.Join(h.namespaces, ","), "opened", len(starts),
			"within", time.Since(starts[0]).Round(time.Second))
	}
}

func startTable(h *handle, indexes []indexer) *table {
	t := newTable(h, indexes)
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	var reflectors sync.WaitGroup
	for ns := range h.eachNamespace() {
		sink := &tableSink{table: t, namespace: ns, lane: t.lanes[ns], first: true}
		reflectors.Go(func() {
			// It ends with ctx: a table's sink returns no error.
			persist(func() { asReflector(func() { _ = h.reflector(ns, sink).run(ctx) }) })
		})
	}
	go func() {
		reflectors.Wait()
		close(t.done)
	}()
	return t
}

// all returns the running tables. The slice must not be changed.
func (s *stores) all() []*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// each calls f for the tables that hold objects of a kind in a namespace, also for tables
// that read another version of the kind. It does not hold the lock of the stores
// meanwhile. A table that is started later lists the objects after the write that f is
// about.
func (s *stores) each(kind Kind, namespace string, f func(*table)) {
	for _, r := range s.all() {
		h := r.handle
		if h.kind.Group == kind.Group && h.kind.Kind == kind.Kind && h.hasNamespace(namespace) {
			f(r.table)
		}
	}
}

// choose returns the running table that serves a handle, or nil if there is none. The
// table must have the handle's type and kind, and holds must return true for it. If there
// are several, choose prefers the handle's own table, then tables that are filled, among
// them that of the handle from which In made it, then the table that was started first. So a
// reconcile that narrows the handle of its controller reads the store whose change woke it.
func (s *stores) choose(h *handle, holds func(*table) bool) *table {
	own := tableOf(h)
	from := *h
	from.namespaces = h.wide
	wide := tableOf(&from)
	var best *running
	bestRank := 0
	for _, r := range s.all() {
		has := r.handle
		if has.goType != h.goType || has.kind.GVK != h.kind.GVK || has.view != h.view || !holds(r.table) {
			continue
		}
		rank := 4
		switch filled := r.filled(); {
		case r.id == own:
			rank = 0
		case r.id == wide && filled:
			rank = 1
		case filled:
			rank = 2
		case r.id == wide:
			rank = 3
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

// serving returns the table from which the cached reads of a handle are served, or nil if
// there is none. The table holds all objects of the handle, and keeps them as the
// handle's codec reads them.
func (s *stores) serving(h *handle) *table {
	return s.choose(h, func(t *table) bool {
		has := t.handle
		return has.covers(h) && has.selector.field == h.selector.field && has.selector.holds(h.selector) &&
			has.kind.whole == h.kind.whole
	})
}

// showing returns the filled table that shows the effect of an apply of o, or nil if
// there is none. It prefers a table that holds all objects of the namespace. Otherwise it
// takes a table with a label selector that has the object, or that would have it with the
// labels of o.
func (s *stores) showing(h *handle, key Key, o object) *table {
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
