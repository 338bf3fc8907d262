package kube

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/versions"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// eventSink turns records into the events of a watch.
type eventSink struct {
	handle *handle
	yield  func(watchEvent, error) bool
	known  map[Key]seen
	round  uint32
	// latest is the latest resourceVersion up to which everything was seen.
	latest string
	// heldBack holds objects of the listing under way that are older than latest. They
	// are shown if the listing turns out not to be stale.
	heldBack []wire.Record
	// partial is set if an object of the listing could not be read, and its key neither.
	partial bool
}

func (h *handle) eventSink(yield func(watchEvent, error) bool) *eventSink {
	return &eventSink{handle: h, yield: yield, known: make(map[Key]seen)}
}

// seen identifies the state of an object that a watch has shown.
type seen struct {
	uid   types.UID
	rv    string
	round uint32 // last listing that had the object
	sum   uint64 // hash of the content, if there is no resourceVersion
}

func (s *eventSink) begin() {
	s.round++
	s.heldBack, s.partial = nil, false
}

func (s *eventSink) item(rec wire.Record) error {
	was, known := s.known[Key(rec.Key)]
	switch {
	case known && was.round == s.round && versions.Older(rec.ResourceVersion, was.rv):
		return nil // listed twice, on two pages
	case known && versions.Older(rec.ResourceVersion, was.rv), !known && versions.Older(rec.ResourceVersion, s.latest):
		s.heldBack = append(s.heldBack, rec.Clone())
		return nil
	}
	return s.show(rec, true)
}

func (s *eventSink) keep(key Key) {
	if key == (Key{}) {
		s.partial = true
		return
	}
	if was, ok := s.known[key]; ok {
		was.round = s.round
		s.known[key] = was
	}
}

func (s *eventSink) drop(rec wire.Record) error {
	s.heldBack = slices.DeleteFunc(s.heldBack, func(held wire.Record) bool {
		return held.Key == rec.Key && !versions.Older(rec.ResourceVersion, held.ResourceVersion)
	})
	return s.remove(rec)
}

func (s *eventSink) synced(rv string) error {
	for _, rec := range s.heldBack {
		if was, known := s.known[Key(rec.Key)]; known && was.round == s.round && versions.Older(rec.ResourceVersion, was.rv) {
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
	return s.emit(Synced, nil, nil)
}

func (s *eventSink) event(kind string, rec wire.Record) error {
	s.progress(rec.ResourceVersion)
	if kind != wire.Deleted {
		return s.show(rec, false)
	}
	return s.remove(rec)
}

// remove shows that an object was deleted.
func (s *eventSink) remove(rec wire.Record) error {
	key := Key(rec.Key)
	was, ok := s.known[key]
	if !ok || was.uid != rec.UID || versions.Older(rec.ResourceVersion, was.rv) {
		return nil // the watch has told it already
	}
	delete(s.known, key)
	return s.decode(Deleted, rec)
}

func (s *eventSink) floor() string { return "" }

func (s *eventSink) progress(rv string) {
	if rv != "" && !versions.Older(rv, s.latest) {
		s.latest = rv
	}
}

func (s *eventSink) setTrouble(*Trouble) {}

func (s *eventSink) trouble(t *Trouble) error { return s.emit("", nil, t) }

func (s *eventSink) recovered(*Trouble) error {
	return s.emit(Recovered, nil, nil)
}

// show shows an object that exists.
func (s *eventSink) show(rec wire.Record, listed bool) error {
	key := Key(rec.Key)
	was, known := s.known[key]
	is := seen{rec.UID, rec.ResourceVersion, s.round, 0}
	if rec.ResourceVersion == "" {
		is.sum = rec.Sum()
	}
	kind := change(known, listed, was.uid, was.rv, &rec)
	switch {
	case known && kind == Added:
		if err := s.gone(key, was); err != nil {
			return err
		}
	case kind == Modified && is == (seen{was.uid, was.rv, s.round, was.sum}):
		kind = "" // the object is of a kind without resourceVersions
	}
	if kind == "" {
		was.round = s.round
		s.known[key] = was
		return nil
	}
	s.known[key] = is
	return s.decode(kind, rec)
}

// gone shows that an object vanished. Only its kind, key and uid are known.
func (s *eventSink) gone(key Key, was seen) error {
	delete(s.known, key)
	o := s.handle.newObject()
	s.handle.codec.Stamp(o)
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetUID(was.uid)
	return s.emit(Deleted, o, nil)
}

func (s *eventSink) decode(kind WatchEventType, rec wire.Record) error {
	o := s.handle.newObject()
	err := rec.Decode(s.handle.codec, o)
	if err != nil {
		name := s.handle.codec.GVK().Kind
		err = &Error{Verb: "watch", Kind: name, Namespace: rec.Key.Namespace, Name: rec.Key.Name, Err: err}
	}
	return s.emit(kind, o, err)
}

func (s *eventSink) emit(kind WatchEventType, o object, err error) error {
	if !s.yield(watchEvent{kind, o}, err) {
		return errLeft
	}
	return nil
}
