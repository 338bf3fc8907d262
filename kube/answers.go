package kube

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/own"
	"github.com/pintle-go/pintle/kube/internal/wire"
)

// The server's answers to the writes of this process are events of the tables, as those of a watch
// are. A table that keeps objects as the writer's handle reads them takes the object in the answer.
// Other tables take only its identity and its version.

// wrote tells the tables of a write through a handle that the server answered with o, which was
// decoded from raw.
func (s *stores) wrote(by *handle, kind Kind, o object, raw wire.Raw) {
	key := KeyOf(o)
	grace := o.GetDeletionGracePeriodSeconds()
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0) {
		// The server answers the removal of the last finalizer with the object as it was
		// before, although the object is gone.
		s.deleted(kind, key, o.GetUID())
		return
	}
	s.each(kind, key.Namespace, func(t *table) { t.wrote(by, key, o, raw) })
}

func (t *table) wrote(by *handle, key Key, o object, raw wire.Raw) {
	a := own.Answer{
		Object: own.Object{
			Exists: true, UID: o.GetUID(), Version: o.GetResourceVersion(), Deleting: o.GetDeletionTimestamp() != nil,
		},
		Own: true,
	}
	outside, known := t.handle.selector.excludes(o)
	a.Out = outside || !t.handle.selector.fits(o)
	if t.readsAs(by) && known {
		if rec, err := wire.NewRecorder(t.handle.codec).Record(raw); err == nil && Key(rec.Key) == key {
			t.ensured.told(key, &rec, false)
			a.Whole, a.Last = true, wire.NewEntry(rec)
		}
	}
	if !a.Whole {
		a.Last = wire.MetadataEntry(o)
	}
	t.answered(key, a)
	if e := t.entry(key); e != nil {
		t.ensured.shows(key, e)
	} else if a.Out {
		t.ensured.gone(key, a.UID) // the content may never show the object, and so never lose it
	}
}

// readsAs reports that the table keeps objects as a handle reads them. A handle of the same type may
// read the metadata alone, as for a write of the status.
func (t *table) readsAs(by *handle) bool {
	has := t.handle
	return has.goType == by.goType && has.kind.GVK == by.kind.GVK && has.view == by.view &&
		has.kind.whole == by.kind.whole && has.codec.OnlyMetadata() == by.codec.OnlyMetadata()
}

// answered notes the server's answer to a write of this process.
func (t *table) answered(key Key, a own.Answer) {
	t.write(func(d *draft) {
		var v own.Verdict
		d.next.own, v = d.next.own.Answered(key, d.next.object(key), a, 0)
		if v.Take {
			d.obey(key, v, a.Last)
		} else {
			d.rule(key, v)
		}
	})
}

// applied tells the tables of a write other than an Ensure, which the server answered
// with o: the field manager may own other fields after it.
func (s *stores) applied(kind Kind, o object) {
	key := KeyOf(o)
	s.each(kind, key.Namespace, func(t *table) { t.ensured.applied(key, o) })
}

// wrotePart tells the tables of a write that the server answered with an object of
// another kind, such as a Scale. That object has the identity and the version of the
// written object, but not its labels.
func (s *stores) wrotePart(kind Kind, o object) {
	key := KeyOf(o)
	s.each(kind, key.Namespace, func(t *table) {
		t.ensured.forget(partsOf(key)...)
		t.answered(key, own.Answer{
			Object: own.Object{Exists: true, UID: o.GetUID(), Version: o.GetResourceVersion()},
			Own:    true, Last: wire.MetadataEntry(o), Bare: true,
		})
	})
}

// deleted tells the tables that an object is gone.
func (s *stores) deleted(kind Kind, key Key, uid types.UID) {
	s.each(kind, key.Namespace, func(t *table) { t.deleted(key, uid) })
}

func (t *table) deleted(key Key, uid types.UID) {
	if uid == "" {
		t.ensured.forget(partsOf(key)...)
	} else {
		t.ensured.gone(key, uid)
	}
	t.write(func(d *draft) {
		var v own.Verdict
		d.next.own, v = d.next.own.Deleted(key, d.next.object(key), uid, time.Now())
		d.rule(key, v)
	})
}

// deleting tells the tables of objects that were deleted together. The answer has them as they
// were before, at a version: finalizers or a grace period may still hold some of them.
func (s *stores) deleting(kind Kind, namespace, version string, objects []keyed) {
	s.each(kind, namespace, func(t *table) {
		t.write(func(d *draft) {
			d.next.own = d.next.own.Known(t.laneOf(namespace), version)
			for _, o := range objects {
				var v own.Verdict
				now, was := d.next.object(o.key), objectOf(o.entry)
				if wanted := t.handle.selector.labels; wanted != nil && !wanted.Matches(o.entry.Labels()) {
					d.next.own, v = d.next.own.Answered(o.key, now, own.Answer{Object: was, Out: true}, 0)
				} else {
					d.next.own, v = d.next.own.Deleting(o.key, now, was, o.entry)
				}
				d.rule(o.key, v)
			}
		})
	})
}

// lost tells the tables of a failed write that the server may have executed all the same. The key
// has no name if the server makes the name.
func (s *stores) lost(kind Kind, key Key, err error) {
	var status apierrors.APIStatus
	refused := errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
	if refused || notSent(err) {
		return
	}
	s.unsure(kind, key)
}

func notSent(err error) bool { return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotServed) }

// unsureOfAll tells the tables that only the server knows which objects of a namespace were deleted
// together.
func (s *stores) unsureOfAll(kind Kind, namespace string) {
	s.each(kind, namespace, func(t *table) {
		t.write(func(d *draft) { d.next.own = d.next.own.LostAll(t.laneOf(namespace), time.Now()) })
	})
}

// executing calls a function that sends a write of an object. That function may be broken
// off by a panic or by the end of the goroutine, in a trace or in the code by which the
// type decodes itself. The server may have executed the write by then.
func (s *stores) executing(kind Kind, key Key, send func() error) error {
	return returning(send, func() { s.unsure(kind, key) })
}

// returning calls send, and brokenOff if send does not return.
func returning(send func() error, brokenOff func()) error {
	returned := false
	defer func() {
		if !returned {
			brokenOff()
		}
	}()
	err := send()
	returned = true
	return err
}

// unsure tells the tables that only the server knows the state of an object.
func (s *stores) unsure(kind Kind, key Key) {
	s.each(kind, key.Namespace, func(t *table) { t.unsure(key) })
}

func (t *table) unsure(key Key) {
	if key.Name != "" {
		t.ensured.forget(partsOf(key)...)
	}
	t.write(func(d *draft) {
		if key.Name == "" {
			d.next.own = d.next.own.LostIn(t.laneOf(key.Namespace), time.Now())
			return
		}
		var v own.Verdict
		d.next.own, v = d.next.own.Lost(key, d.next.object(key), time.Now())
		d.rule(key, v)
	})
}
