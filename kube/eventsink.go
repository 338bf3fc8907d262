package kube

import (
	"bytes"
	"hash/fnv"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// eventSink turns records into the events of a watch.
type eventSink[T any] struct {
	codec *codec
	yield func(WatchEvent[T], error) bool
	known map[Key]seen
	round uint32
	// latest is the latest resource version up to which everything was seen.
	latest string
	// heldBack are objects of the listing under way that are of before latest.
	// They are shown if the listing turns out to be no stale one.
	heldBack []record
	// partial: an object of the listing could not be read, and its key neither.
	partial bool
}

// seen is what a watch remembers of an object that it has shown.
type seen struct {
	uid   types.UID
	rv    string
	round uint32 // the listing that it was last in
	sum   uint64 // of the content, where there is no resource version
}

func (s *eventSink[T]) begin() {
	s.round++
	s.heldBack, s.partial = nil, false
}

func (s *eventSink[T]) item(rec record) error {
	was, known := s.known[rec.key]
	switch {
	case known && was.round == s.round && olderThan(rec.rv, was.rv):
		return nil // listed twice, on two pages
	case known && olderThan(rec.rv, was.rv), !known && olderThan(rec.rv, s.latest):
		rec.meta, rec.body = bytes.Clone(rec.meta), bytes.Clone(rec.body)
		s.heldBack = append(s.heldBack, rec)
		return nil
	}
	return s.show(rec, true)
}

func (s *eventSink[T]) keep(key Key) {
	if key == (Key{}) {
		s.partial = true
		return
	}
	if was, ok := s.known[key]; ok {
		was.round = s.round
		s.known[key] = was
	}
}

func (s *eventSink[T]) drop(rec record) error {
	s.heldBack = slices.DeleteFunc(s.heldBack, func(held record) bool {
		return held.key == rec.key && !olderThan(rec.rv, held.rv)
	})
	return s.remove(rec)
}

func (s *eventSink[T]) synced(rv string) error {
	for _, rec := range s.heldBack {
		if was, known := s.known[rec.key]; known && was.round == s.round && olderThan(rec.rv, was.rv) {
			continue
		}
		if err := s.show(rec, true); err != nil {
			return err
		}
	}
	s.heldBack, s.latest = nil, rv
	for key, was := range s.known {
		if was.round != s.round && !s.partial {
			if err := s.gone(key, was); err != nil {
				return err
			}
		}
	}
	return s.emit(WatchEvent[T]{Synced, new(T)}, nil)
}

func (s *eventSink[T]) event(kind string, rec record) error {
	s.progress(rec.rv)
	if kind != eventDeleted {
		return s.show(rec, false)
	}
	return s.remove(rec)
}

// remove shows that an object was deleted.
func (s *eventSink[T]) remove(rec record) error {
	was, ok := s.known[rec.key]
	if !ok || was.uid != rec.uid || olderThan(rec.rv, was.rv) {
		return nil // told already
	}
	delete(s.known, rec.key)
	return s.decode(Deleted, rec)
}

func (s *eventSink[T]) progress(rv string) {
	if rv != "" && !olderThan(rv, s.latest) {
		s.latest = rv
	}
}

func (s *eventSink[T]) ails(*Trouble) {}

func (s *eventSink[T]) trouble(t *Trouble) error { return s.emit(WatchEvent[T]{Object: new(T)}, t) }

func (s *eventSink[T]) recovered(*Trouble) error {
	return s.emit(WatchEvent[T]{Recovered, new(T)}, nil)
}

// show shows an object that exists.
func (s *eventSink[T]) show(rec record, listed bool) error {
	was, known := s.known[rec.key]
	is := seen{rec.uid, rec.rv, s.round, rec.sum()}
	kind := change(known, listed, was.uid, was.rv, &rec)
	switch {
	case known && kind == Added:
		if err := s.gone(rec.key, was); err != nil {
			return err
		}
	case kind == Modified && is == (seen{was.uid, was.rv, s.round, was.sum}):
		kind = "" // of a kind without resource versions
	}
	if kind == "" {
		was.round = s.round
		s.known[rec.key] = was
		return nil
	}
	s.known[rec.key] = is
	return s.decode(kind, rec)
}

// sum tells one state of an object that has no resource version from another.
func (rec *record) sum() uint64 {
	if rec.rv != "" {
		return 0
	}
	h := fnv.New64a()
	h.Write(rec.meta)
	h.Write(rec.body)
	return h.Sum64()
}

// change says what a record means to one who has, or has not, seen an object
// of the same name before: Added, Modified or, if it is not later, nothing. One
// that was listed counts also if it is older. Added of a known object means that
// the old one is gone.
func change(known, listed bool, uid types.UID, rv string, rec *record) WatchEventType {
	switch {
	case !known:
		return Added
	case !listed && olderThan(rec.rv, rv):
		return ""
	case uid != rec.uid:
		return Added
	case rv == rec.rv && rv != "":
		return ""
	}
	return Modified
}

// gone shows that an object vanished, of which no more than this is known.
func (s *eventSink[T]) gone(key Key, was seen) error {
	delete(s.known, key)
	o := new(T)
	acc := asObject(o)
	s.codec.stamp(acc)
	acc.SetNamespace(key.Namespace)
	acc.SetName(key.Name)
	acc.SetUID(was.uid)
	return s.emit(WatchEvent[T]{Deleted, o}, nil)
}

func (s *eventSink[T]) decode(kind WatchEventType, rec record) error {
	o := new(T)
	err := s.codec.decodeRecord(rec.meta, rec.body, rec.proto, asObject(o))
	if err != nil {
		err = &Error{Verb: "watch", Kind: s.codec.gvk.Kind, Namespace: rec.key.Namespace, Name: rec.key.Name, Err: err}
	}
	return s.emit(WatchEvent[T]{kind, o}, err)
}

func (s *eventSink[T]) emit(ev WatchEvent[T], err error) error {
	if !s.yield(ev, err) {
		return errLeft
	}
	return nil
}
