package kube

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

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

// metaEntry returns an entry that holds the metadata of an object and no more.
func metaEntry(o metav1.Object) *entry {
	om := metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(),
	}
	meta, err := om.Marshal()
	if err != nil {
		return nil // which no metadata leads to: it was read from the server
	}
	return &entry{data: meta, split: uint32(len(meta))}
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

func (e *entry) rv() string { return string(e.metaField(fieldResourceVersion)) }

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

// labelsOf are the labels of an entry for a selector, which looks for a few of them
// by name: none is decoded for that.
type labelsOf entry

var _ labels.Labels = (*labelsOf)(nil)

func (l *labelsOf) Has(name string) bool {
	_, ok := l.find(name)
	return ok
}

func (l *labelsOf) Get(name string) string {
	value, _ := l.find(name)
	return string(value)
}

func (l *labelsOf) Lookup(name string) (string, bool) {
	value, ok := l.find(name)
	return string(value), ok
}

func (l *labelsOf) find(name string) (value []byte, ok bool) {
	for meta := (*entry)(l).meta(); len(meta) > 0; {
		f, rest, err := nextField(meta)
		if err != nil {
			return nil, false // it was checked when it was made
		}
		if f.num == fieldLabels {
			if key, _ := findField(f.val, 1); string(key) == name {
				value, _ = findField(f.val, 2)
				ok = true
			}
		}
		meta = rest
	}
	return value, ok
}

func (e *entry) owners(f func(types.UID)) {
	e.eachMeta(fieldOwners, func(val []byte) {
		uid, _ := findField(val, fieldOwnerUID)
		f(types.UID(uid))
	})
}

// sameSpec reports that two entries of an object differ in nothing but its status
// and what the server writes with every change. It may be false where they do not
// differ.
func (c *codec) sameSpec(a, b *entry) bool {
	counts := func(num int) bool {
		return num != fieldResourceVersion && num != fieldGeneration && num != fieldManagedFields
	}
	if a.proto != b.proto || !sameFields(a.meta(), b.meta(), counts) {
		return false
	}
	x, y := a.data[a.split:], b.data[b.split:]
	if a.proto {
		return sameFields(x, y, func(num int) bool { return num != c.status })
	}
	return bytes.Equal(withoutStatus(x), withoutStatus(y))
}

// hasStatus reports that an entry has a status, be it an empty one.
func (c *codec) hasStatus(e *entry) (has bool) {
	body := e.data[e.split:]
	if e.proto {
		val, err := findField(body, c.status)
		return err == nil && val != nil
	}
	_ = scan.Members(body, func(name string, _ []byte) error { // it was checked when it was made
		has = has || name == "status"
		return nil
	})
	return has
}

// sameFields reports that two messages that were encoded alike have the same
// fields, of those that count.
func sameFields(a, b []byte, counts func(num int) bool) bool {
	for {
		x, restA := nextThat(a, counts)
		y, restB := nextThat(b, counts)
		if !bytes.Equal(x, y) {
			return false
		}
		if x == nil {
			return true
		}
		a, b = restA, restB
	}
}

// nextThat returns the next field of a message that counts, nil if there is none.
func nextThat(msg []byte, counts func(num int) bool) (field, rest []byte) {
	for len(msg) > 0 {
		f, rest, err := nextField(msg)
		if err != nil {
			return msg, nil // as it is
		}
		if counts(f.num) {
			return f.all, rest
		}
		msg = rest
	}
	return nil, nil
}

// withoutStatus returns the members of an object in JSON but for its status.
func withoutStatus(object []byte) (members []byte) {
	_ = scan.Members(object, func(name string, value []byte) error { // it was checked when it was made
		if name != "status" {
			members = append(append(append(members, name...), 0), value...)
		}
		return nil
	})
	return members
}
