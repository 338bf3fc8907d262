package kube

import (
	"time"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/hamt"
	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// tableSink mirrors one namespace, or all namespaces, into a table.
type tableSink struct {
	*table
	namespace string
	lane      int
	// staging holds the objects that the listing under way has found: a relist swaps the
	// content in one step.
	staging entries
	edit    *hamt.Edit
	// kept holds the keys of listed objects that could not be read, as far as the keys
	// are known.
	kept map[Key]struct{}
	// began and least are the number of this process's own writes, and the lane's floor, when the
	// listing began.
	began  uint64
	least  string
	first  bool // the first sync is missing
	ticked time.Time
	// latest is the namespace of the latest object. Most objects have the same namespace
	// as the object before, and share its string.
	latest string
}

func (s *tableSink) begin() {
	s.staging, s.edit, s.kept = entries{}, new(hamt.Edit), nil
	now := s.now()
	s.began, s.least = now.own.Began(), now.own.Lane(s.lane).Floor
}

// floor implements sink.
func (s *tableSink) floor() string { return s.least }

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
	if s.supersedes(rec, old, true) {
		old = wire.NewEntry(rec)
	}
	s.staging = s.staging.With(s.edit, key, old)
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

// supersedes reports that a record takes the place of an entry, which may be nil. It does not if the
// entry is equal or, if the record was not listed, later.
func (s *tableSink) supersedes(rec wire.Record, old *entry, listed bool) bool {
	switch {
	case old == nil:
		return true
	case change(true, listed, old.UID(), old.ResourceVersion(), &rec) == "":
		return false
	}
	return rec.ResourceVersion != "" || !old.Holds(rec) // some kinds have no resource versions
}

func (s *tableSink) synced(rv string) error {
	s.swap(rv)
	s.heard()
	s.mu.Lock()
	if s.first {
		s.unsynced--
	}
	last := s.first && s.unsynced == 0
	s.first = false
	s.mu.Unlock()
	if last {
		s.write(func(d *draft) { d.next.synced, d.changed = true, true })
		close(s.table.synced)
	}
	return nil
}

// swap replaces the content by the listing.
func (s *tableSink) swap(rv string) {
	s.write(func(d *draft) {
		l := own.List{Lane: s.lane, Version: rv, Began: s.began, Floor: s.least, Whole: true}
		l.Restored = l.Stale() // the reflector has asked again some times
		if d.next.entries.Len() == 0 && !d.next.own.Remembers() {
			d.fill(s.staging)
		} else {
			s.compare(d, l)
		}
		d.next.own = d.next.own.ListEnds(l, d.next.object, d.rule)
	})
	s.staging, s.edit, s.kept = entries{}, nil, nil
}

// compare changes the content into the listing, except for that which is later.
func (s *tableSink) compare(d *draft, l own.List) {
	marked := make(map[Key]struct{})
	for _, key := range d.next.own.Marked(s.lane) {
		marked[key] = struct{}{}
	}
	for c := range hamt.Diff(d.next.entries, s.staging) {
		if c.Is == nil && s.namespace != "" && c.Key.Namespace != s.namespace {
			continue
		}
		delete(marked, c.Key)
		s.list(d, l, c.Key, deref(c.Is))
	}
	for key := range marked {
		e, _ := s.staging.Get(key)
		s.list(d, l, key, e)
	}
}

// list notes the listed state of a key.
func (s *tableSink) list(d *draft, l own.List, key Key, e *entry) {
	if e == nil && s.keeps(key) {
		return
	}
	var v own.Verdict
	d.next.own, v = d.next.own.Listed(l, key, d.next.object(key), objectOf(e), e)
	d.obey(key, v, e)
}

func (s *tableSink) event(kind string, rec wire.Record) error {
	key, deleted := Key(rec.Key), kind == wire.Deleted
	if !deleted {
		s.ensured.told(key, &rec, false)
	}
	var last *entry
	if !rec.Bare {
		last = wire.NewEntry(rec) // the same for each draft, so that no draft decodes it again
	}
	s.write(func(d *draft) {
		old := d.next.entry(key)
		e := last // loops get to see the last state of a deleted object
		if deleted && old == nil || !deleted && !s.supersedes(rec, old, false) {
			e = old
		}
		is := own.Object{Exists: true, UID: rec.UID, Version: rec.ResourceVersion, Deleting: e != nil && e.Deleting()}
		var v own.Verdict
		d.next.own, v = d.next.own.Event(key, objectOf(old), is, deleted)
		d.obey(key, v, e)
		d.progress(s.lane, rec.ResourceVersion)
	})
	if e := s.entry(key); !deleted && e != nil {
		s.ensured.shows(key, e)
	}
	s.heard()
	return nil
}

func (s *tableSink) progress(rv string) {
	s.heard()
	s.write(func(d *draft) {
		d.progress(s.lane, rv)
		if now := time.Now(); now.Sub(s.ticked) >= time.Minute {
			s.ticked = now
			d.next.own = d.next.own.Tick(s.lane, now)
		}
	})
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
