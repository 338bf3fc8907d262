package kube

import (
	"bytes"
	"time"
)

// tableSink mirrors one namespace, or all, into a table.
type tableSink struct {
	*table
	namespace string
	// staging is what the listing under way has found: a relist swaps the
	// content in one step.
	staging map[Key]*entry
	// partial: an object of the listing could not be read, and its key neither.
	partial bool
	// began is when the listing began, writes how many of this process's own
	// had been answered by then.
	began  time.Time
	writes uint64
	first  bool // the first sync is missing
}

func (s *tableSink) begin() {
	s.staging, s.partial = make(map[Key]*entry), false
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.began, s.writes = time.Now(), s.own.seq
}

func (s *tableSink) item(rec record) error {
	old := s.staging[rec.key]
	switch {
	case old == nil:
		old = s.entry(rec.key)
	case olderThan(rec.rv, old.rv()):
		return nil // listed twice, on two pages
	}
	s.staging[rec.key] = s.merge(old, rec, true)
	return nil
}

func (s *tableSink) keep(key Key) {
	if key == (Key{}) {
		s.partial = true
		return
	}
	if old := s.entry(key); old != nil && s.staging[key] == nil {
		s.staging[key] = old
	}
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
	switch {
	case old == nil:
	case change(true, listed, old.uid(), old.rv(), &rec) == "":
		return old
	case rec.rv == "" && bytes.Equal(old.meta(), rec.meta) && bytes.Equal(old.data[old.split:], rec.body):
		return old // of a kind without resource versions
	}
	return newEntry(rec)
}

func (s *tableSink) synced(rv string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.entries {
		if _, ok := s.staging[key]; !ok && !s.partial && (s.namespace == "" || key.Namespace == s.namespace) {
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

func (s *tableSink) ails(t *Trouble) { s.table.troubles.set(s.namespace, t) }

func (s *tableSink) trouble(t *Trouble) error {
	s.handle.client.logger.Warn("store has trouble", "kind", s.handle.kindName(), "namespace", s.namespace, "error", t)
	return nil
}

func (s *tableSink) recovered(t *Trouble) error {
	s.handle.client.logger.Info("store recovered", "kind", s.handle.kindName(), "namespace", s.namespace,
		"after", t.lasted(), "tries", t.Tries, "from", t.Err)
	return nil
}
