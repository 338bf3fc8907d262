package kube

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
	s.began, s.writes = time.Now(), s.own.made()
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
	removed := s.swap(s.own.written())
	settled := s.own.listed(s.namespace, rv, s.writes, s.began)
	s.settled(slices.DeleteFunc(settled, func(w settledWrite) bool { return removed[w.key] == w.uid }))
	return nil
}

// swap puts the listing in the place of what was there, and returns what it has
// removed of what this process wrote.
func (s *tableSink) swap(written map[Key]types.UID) (removed map[Key]types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	removed = make(map[Key]types.UID)
	for key, e := range s.entries {
		if _, ok := s.staging[key]; !ok && (s.namespace == "" || key.Namespace == s.namespace) {
			s.set(key, nil)
			if uid := written[key]; uid != "" && e.is(uid) {
				removed[key] = uid
				s.tellVanished(key, e)
			}
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
	if s.first {
		s.first = false
		if s.unsynced--; s.unsynced == 0 {
			close(s.table.synced)
			for w := range s.watchers {
				w.sync()
			}
		}
	}
	return removed
}

func (s *tableSink) event(kind string, rec record) error {
	deleted := kind == eventDeleted
	e, removed := s.change(rec, deleted, deleted && s.own.wrote(rec.key, rec.uid))
	settled := s.own.event(s.namespace, e, deleted, &rec)
	s.settled(slices.DeleteFunc(settled, func(w settledWrite) bool { return removed && w.key == rec.key }))
	return nil
}

// change brings an event into the content, and returns the object's entry and
// whether that was removed.
func (s *tableSink) change(rec record, deleted, own bool) (e *entry, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastEvent = time.Now()
	old := s.entries[rec.key]
	switch {
	case !deleted:
		s.set(rec.key, s.merge(old, rec, false))
	case old != nil && old.is(rec.uid) && !olderThan(rec.rv, old.rv()):
		// The last state is what watchers get to see of the object.
		last := newEntry(rec)
		s.size += int64(len(last.data) - len(old.data))
		s.entries[rec.key] = last
		s.set(rec.key, nil)
		if own {
			s.tellVanished(rec.key, last)
		}
		return nil, true
	}
	return s.entries[rec.key], false
}

func (s *tableSink) progress(rv string) {
	s.mu.Lock()
	s.lastEvent = time.Now()
	s.mu.Unlock()
	s.settled(s.own.progress(s.namespace, rv))
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
