package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// Entry is a stored object, still encoded: a record's bytes in one piece. It is never
// changed, except that SetOwn may be called. A store has one Entry for every object, so the size
// of an Entry counts: uid, resource version and similar fields are read from the bytes on demand.
type Entry struct {
	data  []byte // metadata, then body
	split uint32
	is    atomic.Uint32
}

const (
	entryProtobuf = 1 << iota
	entryOwn
)

// Own reports whether this process wrote the object.
func (e *Entry) Own() bool { return e.is.Load()&entryOwn != 0 }

// SetOwn notes that this process wrote the object.
func (e *Entry) SetOwn() { e.is.Or(entryOwn) }

func (e *Entry) protobuf() bool { return e.is.Load()&entryProtobuf != 0 }

// NewEntry returns an entry with a copy of a record's bytes.
func NewEntry(rec Record) *Entry {
	data := make([]byte, 0, len(rec.meta)+len(rec.body.Bytes))
	data = append(append(data, rec.meta...), rec.body.Bytes...)
	e := &Entry{data: data, split: uint32(len(rec.meta))}
	if rec.body.Protobuf {
		e.is.Store(entryProtobuf)
	}
	return e
}

// MetadataEntry returns an entry with only the metadata of an object. It returns nil if
// the metadata cannot be encoded. The metadata from a server can always be encoded.
func MetadataEntry(o metav1.Object) *Entry {
	om := metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(),
	}
	meta, err := om.Marshal()
	if err != nil {
		return nil
	}
	return &Entry{data: meta, split: uint32(len(meta))}
}

func (e *Entry) meta() []byte { return e.data[:e.split:e.split] }

func (e *Entry) body() Raw { return Raw{e.data[e.split:], e.protobuf()} }

// Decode decodes an entry. If it fails, into still has its metadata.
func (e *Entry) Decode(c *Codec, into Object) error { return c.decodeKept(e.meta(), e.body(), into) }

// Size returns the number of bytes that are kept of the object.
func (e *Entry) Size() int { return len(e.data) }

// Holds reports that an entry has the same bytes as a record.
func (e *Entry) Holds(rec Record) bool {
	return e.protobuf() == rec.body.Protobuf && bytes.Equal(e.meta(), rec.meta) && bytes.Equal(e.body().Bytes, rec.body.Bytes)
}

// metaField returns a field of the metadata. The metadata was checked when the record was
// made.
func (e *Entry) metaField(num int) []byte {
	val, _ := findField(e.meta(), num)
	return val
}

// metaFields yields the fields of the metadata that have a number.
func (e *Entry) metaFields(num int) iter.Seq[protoField] {
	return func(yield func(protoField) bool) {
		for meta := e.meta(); len(meta) > 0; {
			f, rest, err := nextField(meta)
			if err != nil || f.num == num && !yield(f) {
				return // no error is possible: the metadata was checked when the record was made
			}
			meta = rest
		}
	}
}

// UID returns the uid.
func (e *Entry) UID() types.UID { return types.UID(e.metaField(fieldUID)) }

// Is reports that the object has a uid. It allocates nothing.
func (e *Entry) Is(uid types.UID) bool { return string(e.metaField(fieldUID)) == string(uid) }

// ResourceVersion returns the resource version.
func (e *Entry) ResourceVersion() string { return string(e.metaField(fieldResourceVersion)) }

// IsIn reports that the object is in one of some namespaces. It allocates nothing.
func (e *Entry) IsIn(namespaces []string) bool {
	is := e.metaField(fieldNamespace)
	return slices.ContainsFunc(namespaces, func(ns string) bool { return ns == string(is) })
}

// Generation returns the generation, or 0 if the kind has none.
func (e *Entry) Generation() (n uint64) {
	for f := range e.metaFields(fieldGeneration) {
		if f.wire == wireVarint {
			n, _ = binary.Uvarint(f.all[1:]) // the tag takes one byte
		}
	}
	return n
}

// Deleting reports that the object has a deletion timestamp.
func (e *Entry) Deleting() bool { return e.metaField(fieldDeletionTimestamp) != nil }

// Labels returns the labels for a selector, which looks up a few of them by name. They
// are not decoded for that.
func (e *Entry) Labels() labels.Labels { return (*entryLabels)(e) }

type entryLabels Entry

func (l *entryLabels) Has(name string) bool {
	_, ok := l.find(name)
	return ok
}

func (l *entryLabels) Get(name string) string {
	value, _ := l.find(name)
	return string(value)
}

func (l *entryLabels) Lookup(name string) (string, bool) {
	value, ok := l.find(name)
	return string(value), ok
}

// find returns the value of a label. If several entries have the name, the last one
// counts.
func (l *entryLabels) find(name string) (value []byte, ok bool) {
	for f := range (*Entry)(l).metaFields(fieldLabels) {
		if key, _ := findField(f.val, 1); string(key) == name {
			value, _ = findField(f.val, 2)
			ok = true
		}
	}
	return value, ok
}

// OwnerUIDs yields the uids of the owner references.
func (e *Entry) OwnerUIDs() iter.Seq[types.UID] {
	return func(yield func(types.UID) bool) {
		for f := range e.metaFields(fieldOwners) {
			if uid, _ := findField(f.val, fieldOwnerUID); !yield(types.UID(uid)) {
				return
			}
		}
	}
}

// Owner is an owner reference.
type Owner struct {
	GVK        schema.GroupVersionKind
	Name       string
	UID        types.UID
	Controller bool
}

// Owners yields the owner references.
func (e *Entry) Owners() iter.Seq[Owner] {
	return func(yield func(Owner) bool) {
		for f := range e.metaFields(fieldOwners) {
			if !yield(ownerOf(f.val)) {
				return
			}
		}
	}
}

// ownerOf decodes an owner reference. One that is malformed is empty, and its uid too, as
// in OwnerUIDs.
func ownerOf(ref []byte) (o Owner) {
	for len(ref) > 0 {
		f, rest, err := nextField(ref)
		if err != nil {
			return Owner{}
		}
		switch {
		case f.num == fieldOwnerController && f.wire == wireVarint:
			o.Controller = f.all[len(f.all)-1] == 1
		case f.wire == wireBytes:
			o.set(f.num, f.val)
		}
		ref = rest
	}
	return o
}

func (o *Owner) set(num int, val []byte) {
	switch num {
	case fieldOwnerKind:
		o.GVK.Kind = string(val)
	case fieldOwnerName:
		o.Name = string(val)
	case fieldOwnerUID:
		o.UID = types.UID(val)
	case fieldOwnerAPIVersion:
		group, version, ok := strings.Cut(string(val), "/")
		if !ok {
			group, version = "", group
		}
		o.GVK.Group, o.GVK.Version = group, version
	}
}

// SameSpec reports that two entries of an object differ only in the status and in the
// metadata that the server writes with every change. It may return false for entries that
// do not differ otherwise.
func (c *Codec) SameSpec(a, b *Entry) bool {
	counts := func(num int) bool {
		return num != fieldResourceVersion && num != fieldGeneration && num != fieldManagedFields
	}
	if a.protobuf() != b.protobuf() || !sameFields(a.meta(), b.meta(), counts) {
		return false
	}
	x, y := a.body().Bytes, b.body().Bytes
	if a.protobuf() {
		return sameFields(x, y, func(num int) bool { return num != c.status })
	}
	return bytes.Equal(withoutStatus(x), withoutStatus(y))
}

// HasStatus reports that an entry has a status, which may be empty.
func (c *Codec) HasStatus(e *Entry) (has bool) {
	body := e.body().Bytes
	if e.protobuf() {
		val, err := findField(body, c.status)
		return err == nil && val != nil
	}
	_ = scan.Members(body, func(name string, _ []byte) error { // body was checked when the record was made
		has = has || name == "status"
		return nil
	})
	return has
}

// sameFields reports that two messages have the same fields, of the fields that count.
// The messages must be encoded in the same way.
func sameFields(a, b []byte, counts func(num int) bool) bool {
	for {
		x, restA := nextCounted(a, counts)
		y, restB := nextCounted(b, counts)
		if !bytes.Equal(x, y) {
			return false
		}
		if x == nil {
			return true
		}
		a, b = restA, restB
	}
}

// nextCounted returns the next field of a message that counts, or nil if there is none.
func nextCounted(msg []byte, counts func(num int) bool) (field, rest []byte) {
	for len(msg) > 0 {
		f, rest, err := nextField(msg)
		if err != nil {
			return msg, nil // the message as it is
		}
		if counts(f.num) {
			return f.all, rest
		}
		msg = rest
	}
	return nil, nil
}

// withoutStatus returns the members of an object in JSON, except for its status. They are
// kept apart: the results for two objects are equal only if all members are.
func withoutStatus(object []byte) (members []byte) {
	_ = scan.Members(object, func(name string, value []byte) error { // object was checked when the record was made
		if name != "status" {
			members = append(append(append(appendQuoted(members, name), ':'), value...), ',')
		}
		return nil
	})
	return members
}
