package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// table is the content of stores: what all Stores of one kind, type, namespaces
// and selector share.
type table struct {
	handle handle
	cancel context.CancelFunc
	done   chan struct{}
	synced chan struct{} // closed after the first sync of all namespaces

	mu        sync.RWMutex
	entries   map[Key]*entry
	size      int64
	lastEvent time.Time
	unsynced  int   // namespaces whose first sync is missing
	trouble   error // the latest, while it lasts
	own       ownWrites
	indexes   []indexer
	owners    *ownerIndex
	watchers  map[*subscription]struct{}
}

// entry is a kept object: its record's bytes in one piece, never changed.
// Overhead counts, as there is one for every object in a cluster: uid and
// resource version are read from the metadata when they are needed.
type entry struct {
	data  []byte // metadata, then body
	split uint32
	proto bool
}

// keyed is an entry with its key.
type keyed struct {
	key   Key
	entry *entry
}

func newEntry(rec record) *entry {
	data := make([]byte, 0, len(rec.meta)+len(rec.body))
	data = append(append(data, rec.meta...), rec.body...)
	return &entry{data: data, split: uint32(len(rec.meta)), proto: rec.proto}
}

func (e *entry) meta() []byte { return e.data[:e.split:e.split] }

func (e *entry) decode(c *codec, into object) error {
	return c.decodeRecord(e.meta(), e.data[e.split:], e.proto, into)
}

const (
	fieldUID               = 5  // of ObjectMeta
	fieldResourceVersion   = 6  // of ObjectMeta
	fieldDeletionTimestamp = 9  // of ObjectMeta
	fieldLabels            = 11 // of ObjectMeta: a map entry, key = 1, value = 2
	fieldOwners            = 13 // of ObjectMeta
	fieldOwnerUID          = 4  // of OwnerReference
)

// metaField returns a field of the metadata, which was checked when it was made.
func (e *entry) metaField(num int) []byte {
	val, _ := findField(e.meta(), num)
	return val
}

func (e *entry) uid() types.UID { return types.UID(e.metaField(fieldUID)) }
func (e *entry) rv() string     { return string(e.metaField(fieldResourceVersion)) }

func (e *entry) is(uid types.UID) bool { return string(e.metaField(fieldUID)) == string(uid) }

// eachMeta calls f with the content of every field num of the metadata.
func (e *entry) eachMeta(num int, f func(val []byte)) {
	for meta := e.meta(); len(meta) > 0; {
		field, rest, err := nextField(meta)
		if err != nil {
			return // it was checked when it was made
		}
		if field.num == num {
			f(field.val)
		}
		meta = rest
	}
}

func (e *entry) labels() labels.Set {
	set := make(labels.Set)
	e.eachMeta(fieldLabels, func(val []byte) {
		k, _ := findField(val, 1)
		v, _ := findField(val, 2)
		set[string(k)] = string(v)
	})
	return set
}

func (e *entry) owners(f func(types.UID)) {
	e.eachMeta(fieldOwners, func(val []byte) {
		uid, _ := findField(val, fieldOwnerUID)
		f(types.UID(uid))
	})
}

// wait waits for the first sync.
func (t *table) wait(ctx context.Context) error {
	if t.handle.err != nil {
		return t.handle.err
	}
	select {
	case <-t.done:
		return ErrStopped
	default:
	}
	var end error
	select {
	case <-t.synced:
		return nil
	case <-ctx.Done():
		end = context.Cause(ctx)
	case <-t.done:
		end = ErrStopped
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.trouble != nil {
		return fmt.Errorf("%w before the first sync: %w", end, t.trouble)
	}
	return fmt.Errorf("%w before the first sync", end)
}

func (t *table) entry(key Key) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[key]
}

func (t *table) entriesOf(keys []Key) map[Key]*entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	entries := make(map[Key]*entry, len(keys))
	for _, key := range keys {
		entries[key] = t.entries[key]
	}
	return entries
}

func (t *table) all() []keyed {
	list := make([]keyed, 0, len(t.entries))
	for key, e := range t.entries {
		list = append(list, keyed{key, e})
	}
	return list
}

func (t *table) labeled(sel labels.Selector) (list []keyed) {
	for key, e := range t.entries {
		if sel.Matches(e.labels()) {
			list = append(list, keyed{key, e})
		}
	}
	return list
}

func (t *table) pick(keys map[Key]struct{}) []keyed {
	list := make([]keyed, 0, len(keys))
	for key := range keys {
		list = append(list, keyed{key, t.entries[key]})
	}
	return list
}

func (t *table) stats() StoreStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return StoreStats{len(t.entries), t.size, t.lastEvent}
}

// set puts an entry in the place of what is there, or removes it if e is nil,
// and tells indexes and watchers. It is called with mu held.
func (t *table) set(key Key, e *entry) {
	old := t.entries[key]
	if old == e {
		return
	}
	if old != nil {
		t.size -= int64(len(old.data))
	}
	if e != nil {
		t.size += int64(len(e.data))
		t.entries[key] = e
	} else {
		delete(t.entries, key)
	}
	t.tell(key, old, e)
}

// tell tells indexes and watchers that an entry has come, changed or gone. It
// is called with mu held, when it has.
func (t *table) tell(key Key, old, e *entry) {
	for _, x := range t.indexes {
		x.update(key, e)
	}
	for w := range t.watchers {
		w.notify(key, old)
	}
}

// tableSink mirrors one namespace, or all, into a table.
type tableSink struct {
	*table
	namespace string
	// staging is what the listing under way has found: a relist swaps the
	// content in one step.
	staging map[Key]*entry
	// began is when the listing began, writes how many of this process's own
	// had been answered by then.
	began  time.Time
	writes uint64
	first  bool // the first sync is missing
}

func (s *tableSink) begin() {
	s.staging = make(map[Key]*entry)
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.began, s.writes = time.Now(), s.own.seq
}

func (s *tableSink) item(rec record) error {
	old := s.staging[rec.key]
	if old == nil {
		s.mu.RLock()
		old = s.entries[rec.key]
		s.mu.RUnlock()
	}
	s.staging[rec.key] = s.merge(old, rec, true)
	return nil
}

func (s *tableSink) drop(rec record) error {
	if e := s.staging[rec.key]; e != nil && e.is(rec.uid) && !olderThan(rec.rv, e.rv()) {
		delete(s.staging, rec.key)
	}
	return nil
}

// merge returns the entry for a record: the old one where it says the same or,
// if the record was not listed, more.
func (s *tableSink) merge(old *entry, rec record, listed bool) *entry {
	if old != nil && change(true, listed, old.uid(), old.rv(), &rec) == "" {
		return old
	}
	return newEntry(rec)
}

func (s *tableSink) synced(rv string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.entries {
		if _, ok := s.staging[key]; !ok && (s.namespace == "" || key.Namespace == s.namespace) {
			s.set(key, nil)
		}
	}
	if len(s.entries) == 0 && s.staging != nil {
		// Nothing to compare with, and so no need for a second map of all.
		s.entries = s.staging
		for key, e := range s.entries {
			s.size += int64(len(e.data))
			s.tell(key, nil, e)
		}
	} else {
		for key, e := range s.staging {
			s.set(key, e)
		}
	}
	s.staging = nil
	s.lastEvent = time.Now()
	s.own.listed(s.namespace, rv, s.writes, s.began)
	if s.first {
		s.first = false
		if s.unsynced--; s.unsynced == 0 {
			close(s.table.synced)
			for w := range s.watchers {
				w.sync()
			}
		}
	}
	return nil
}

func (s *tableSink) event(kind string, rec record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.entries[rec.key]
	switch {
	case kind != eventDeleted:
		s.set(rec.key, s.merge(old, rec, false))
	case old != nil && old.is(rec.uid) && !olderThan(rec.rv, old.rv()):
		// The last state is what watchers get to see of the object.
		last := newEntry(rec)
		s.size += int64(len(last.data) - len(old.data))
		s.entries[rec.key] = last
		s.set(rec.key, nil)
	}
	s.lastEvent = time.Now()
	s.own.event(s.namespace, s.entries[rec.key], kind == eventDeleted, &rec)
	return nil
}

func (s *tableSink) progress(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastEvent = time.Now()
	s.own.progress(s.namespace, rv)
	s.own.forget()
}

func (s *tableSink) trouble(err error) error {
	var report *Trouble
	over := errors.As(err, &report) && report.Over
	s.mu.Lock()
	s.table.trouble = err
	if over {
		s.table.trouble = nil
	}
	s.mu.Unlock()
	logger := s.handle.client.logger
	if over {
		logger.Info("store recovered", "kind", s.handle.kindName(), "namespace", s.namespace, "detail", err.Error())
	} else {
		logger.Warn("store has trouble", "kind", s.handle.kindName(), "namespace", s.namespace, "error", err)
	}
	return nil
}

// stores are the tables that a client runs.
type stores struct {
	mu     sync.Mutex
	tables map[tableID]*running
}

// tableID is what the users of a table have in common.
type tableID struct {
	gvk                              GVK
	goType, whole                    reflect.Type
	plural, namespaces, label, field string
	view, managed                    bool
}

type running struct {
	*table
	users int
}

// open returns the table for a handle, started if there is none yet, and keeps
// it running until ctx ends.
func (s *stores) open(ctx context.Context, h handle) *table {
	if h.err != nil {
		t := &table{handle: h, done: make(chan struct{}), synced: make(chan struct{})}
		close(t.done)
		return t
	}
	id := tableID{
		gvk: h.kind.GVK, plural: h.kind.Plural, goType: h.goType, whole: h.kind.whole, view: h.codec.view, managed: h.codec.managed,
		namespaces: strings.Join(h.namespaces, ","), label: h.selector.label, field: h.selector.field,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.tables[id]
	if r == nil {
		r = &running{table: startTable(h)}
		if s.tables == nil {
			s.tables = make(map[tableID]*running)
		}
		s.tables[id] = r
	}
	r.users++
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.users--; r.users == 0 {
			delete(s.tables, id)
			r.cancel()
		}
	})
	return r.table
}

func startTable(h handle) *table {
	ctx, cancel := context.WithCancel(context.Background())
	t := &table{
		handle: h, cancel: cancel,
		done: make(chan struct{}), synced: make(chan struct{}),
		entries: make(map[Key]*entry), own: newOwnWrites(h), watchers: make(map[*subscription]struct{}),
	}
	var reflectors sync.WaitGroup
	t.unsynced = max(1, len(h.namespaces))
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
// whatever version of it they read.
func (s *stores) each(kind Kind, namespace string, f func(*table)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.tables {
		h := r.handle
		if h.kind.Group == kind.Group && h.kind.Kind == kind.Kind && (len(h.namespaces) == 0 || slices.Contains(h.namespaces, namespace)) {
			f(r.table)
		}
	}
}
