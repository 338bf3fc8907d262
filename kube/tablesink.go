package kube

import (
	"time"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/hamt"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// tableSink mirrors one namespace, or all namespaces, into a table.
type tableSink struct {
	*table
	namespace string
	// staging holds the objects that the listing under way has found: a relist swaps the
	// content in one step.
	staging entries
	edit    *hamt.Edit
	// kept holds the keys of listed objects that could not be read, as far as the keys
	// are known.
	kept map[Key]struct{}
	// began is the time when the listing began. writes is the number of this process's
	// own writes that were answered by then.
	began  time.Time
	writes uint64
	first  bool // the first sync is missing
	// latest is the namespace of the latest object. Most objects have the same namespace
	// as the object before, and share its string.
	latest string
}

func (s *tableSink) begin() {
	s.staging, s.edit, s.kept = entries{}, new(hamt.Edit), nil
	s.began, s.writes = time.Now(), s.own.made()
}

func (s *tableSink) item(rec wire.Record) error {
	if rec.Key.Namespace != s.latest {
		s.latest = rec.Key.Namespace
	}
	key := Key{s.latest, rec.Key.Name}
	s.ensured.told(key, &rec, true)
	old, listed := s.staging.Get(key)
	switch {
	case !listed:
		old = s.entry(key)
	case versions.Older(rec.ResourceVersion, old.ResourceVersion()):
		return nil // listed twice, on two pages
	}
	s.staging = s.staging.With(s.edit, key, s.merge(old, rec, true))
	return nil
}

// keep notes that the listing has an object that could not be read: the object stays as
// it was. The key may lack the name, the namespace or both, if they could not be read
// either: then all objects stay that the key may mean.
func (s *tableSink) keep(key Key) {
	if s.kept == nil {
		s.kept = make(map[Key]struct{})
	}
	s.kept[key] = struct{}{}
}

// keeps reports that an object may be one that could not be read.
func (s *tableSink) keeps(key Key) bool {
	if len(s.kept) == 0 {
		return false
	}
	for _, k := range []Key{key, {Namespace: key.Namespace}, {Name: key.Name}, {}} {
		if _, ok := s.kept[k]; ok {
			return true
		}
	}
	return false
}

func (s *tableSink) drop(rec wire.Record) error {
	key := Key(rec.Key)
	if e, ok := s.staging.Get(key); ok && e.Is(rec.UID) && !versions.Older(rec.ResourceVersion, e.ResourceVersion()) {
		s.staging = s.staging.Without(s.edit, key)
	}
	return nil
}

// merge returns the entry for a record. It returns the old entry if that is equal or, if
// the record was not listed, later.
func (s *tableSink) merge(old *entry, rec wire.Record, listed bool) *entry {
	switch {
	case old == nil:
	case change(true, listed, old.UID(), old.ResourceVersion(), &rec) == "":
		return old
	case rec.ResourceVersion == "" && old.Holds(rec):
		return old // the kind has no resource versions
	}
	return wire.NewEntry(rec)
}

func (s *tableSink) synced(rv string) error {
	removed := s.swap()
	s.heard()
	s.settled(s.own.listed(s.namespace, rv, s.writes, s.began), removed)
	s.mu.Lock()
	if s.first {
		s.unsynced--
	}
	last := s.first && s.unsynced == 0
	s.first = false
	s.mu.Unlock()
	if last {
		d := s.now().draft()
		d.next.synced = true
		s.publish(d)
		close(s.table.synced)
	}
	return nil
}

// swap replaces the content by the listing. It returns the objects that are gone.
func (s *tableSink) swap() (removed []keyed) {
	d := s.now().draft()
	if d.base.entries.Len() == 0 {
		d.fill(s.staging)
	} else {
		for c := range hamt.Diff(d.base.entries, s.staging) {
			listed := c.Is != nil || s.namespace == "" || c.Key.Namespace == s.namespace
			if listed && (c.Is != nil || !s.keeps(c.Key) || s.own.removed(c.Key, *c.Was)) {
				d.set(c.Key, deref(c.Is))
			}
		}
	}
	s.staging, s.edit, s.kept = entries{}, nil, nil
	s.publish(d)
	return d.removed
}

func (s *tableSink) event(kind string, rec wire.Record) error {
	if kind != wire.Deleted {
		s.ensured.told(Key(rec.Key), &rec, false)
	}
	e, removed := s.change(kind, rec)
	if e != nil {
		s.ensured.shows(Key(rec.Key), e)
	}
	s.heard()
	s.settled(s.own.event(s.namespace, e, kind == wire.Deleted, &rec), removed)
	return nil
}

// change applies an event to the content. It returns the object's entry and the objects
// that are gone.
func (s *tableSink) change(kind string, rec wire.Record) (e *entry, removed []keyed) {
	d := s.now().draft()
	key := Key(rec.Key)
	old := d.base.entry(key)
	e = old
	switch {
	case kind != wire.Deleted:
		e = s.merge(old, rec, false)
		d.set(key, e)
	case old != nil && old.Is(rec.UID) && !versions.Older(rec.ResourceVersion, old.ResourceVersion()):
		e = nil
		last := old
		if !rec.Bare {
			last = wire.NewEntry(rec)
		}
		d.remove(key, last) // loops get to see the last state
	}
	if e != old {
		s.publish(d)
	}
	return e, d.removed
}

func (s *tableSink) progress(rv string) {
	s.heard()
	s.settled(s.own.progress(s.namespace, rv), nil)
}

func (s *tableSink) setTrouble(t *Trouble) { s.table.troubles.set(s.namespace, t) }

func (s *tableSink) trouble(t *Trouble) error {
	s.handle.client.logger.Warn("store is out of sync", "kind", s.handle.kindName(), "namespace", s.namespace, "error", t)
	return nil
}

func (s *tableSink) recovered(t *Trouble) error {
	s.handle.client.logger.Info("store recovered", "kind", s.handle.kindName(), "namespace", s.namespace,
		"after", t.lasted(), "tries", t.Tries, "from", t.Err)
	return nil
}
