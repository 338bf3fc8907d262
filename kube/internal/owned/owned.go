// Package owned reads from an object the fields that a field manager owns, as
// its entry in metadata.managedFields names them: KEP-555, in the format FieldsV1
// of sigs.k8s.io/structured-merge-diff (fieldpath/serialize.go).
package owned

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// Fields is a set of fields. It is never changed, and may be shared.
type Fields struct{ root []element }

// element is an element of a path, with the set of the owned fields within it. If that
// set is empty, the whole element is owned.
type element struct {
	kind   byte // one of the kinds below
	name   string
	index  int
	key    []member
	within []element
}

// The kinds of elements, as they begin in FieldsV1.
const (
	itself  = '.' // the element that holds the set
	byName  = 'f' // a member, by its name
	byKey   = 'k' // an item of a list, by the members that are its key
	byValue = 'v' // an item of a set, by its value in JSON, which is in name
	byIndex = 'i' // an item of a list, by its place
)

// member is a member of an object. Its value is JSON.
type member struct{ name, value string }

// Parse reads a set in the format FieldsV1.
func Parse(raw []byte) (*Fields, error) {
	if !jsontext.Value(raw).IsValid() {
		return nil, fmt.Errorf("read managed fields: %w", scan.ErrJSON)
	}
	root, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("read managed fields: %w", err)
	}
	return &Fields{root}, nil
}

func parse(set []byte) (elements []element, err error) {
	err = scan.Members(set, func(path string, within []byte) error {
		e, err := parseElement(path)
		if err == nil {
			e.within, err = parse(within)
		}
		elements = append(elements, e)
		return err
	})
	return elements, err
}

func parseElement(path string) (e element, err error) {
	kind, rest, ok := strings.Cut(path, ":")
	switch {
	case path == string(itself):
		e.kind = itself
		return e, nil
	case ok && len(kind) == 1:
		e.kind = kind[0]
	}
	switch e.kind {
	case byName:
		e.name = rest
		return e, nil
	case byKey:
		if jsontext.Value(rest).IsValid() {
			err = scan.Members([]byte(rest), func(name string, value []byte) error {
				e.key = append(e.key, member{name, string(value)})
				return nil
			})
		}
		if err == nil && len(e.key) > 0 {
			return e, nil
		}
	case byValue:
		e.name = rest
		if jsontext.Value(rest).IsValid() {
			return e, nil
		}
	case byIndex:
		if e.index, err = strconv.Atoi(rest); err == nil {
			return e, nil
		}
	}
	return e, fmt.Errorf("%q is not a path of FieldsV1", path)
}

// Digest is a digest of the values that an object has in a set of fields. It also covers
// which of the fields the object lacks, and the order of the items of a list that has keys.
type Digest struct {
	sum [sha256.Size]byte
	// Whole: the object lacks none of the fields.
	Whole bool
}

// Of returns the digest of an object in JSON. Two objects of one Go type, which encodes
// itself alike, have the same digest if no field of the set differs. As far as anybody
// will ever see, they have the same digest only then.
func (f *Fields) Of(object []byte) (d Digest, err error) {
	if !jsontext.Value(object).IsValid() {
		return d, fmt.Errorf("read object: %w", scan.ErrJSON)
	}
	w := digester{h: sha256.New(), whole: true}
	w.add(f.root, object)
	w.h.Sum(d.sum[:0])
	d.Whole = w.whole
	return d, nil
}

type digester struct {
	h     hash.Hash
	whole bool // no field is missing
	head  [9]byte
}

// add adds the fields that a set names within a value. The value is nil if it is missing.
func (w *digester) add(set []element, value []byte) {
	var few [16]part // saves an allocation in nearly all cases
	parts := find(few[:0], set, value)
	for i, p := range parts {
		e := &set[i]
		switch {
		case p.value == nil:
			w.whole = false
			w.write(0, nil)
		case e.kind == itself:
			w.write(1, nil)
		case len(e.within) == 0:
			w.write(1, p.value)
		default:
			w.write(1, nil)
			w.add(e.within, p.value)
		}
	}
	for i, p := range parts {
		if set[i].kind == byKey && p.value != nil {
			w.head[0] = 2
			binary.LittleEndian.PutUint64(w.head[1:], rank(set, parts, p.place))
			_, _ = w.h.Write(w.head[:]) // it never fails
		}
	}
}

// rank returns how many of the items of a list that a set names by their keys come before a place.
// It is the same, whatever items of others are between them.
func rank(set []element, parts []part, place int) (n uint64) {
	for i, p := range parts {
		if set[i].kind == byKey && p.value != nil && p.place < place {
			n++
		}
	}
	return n
}

// write adds a value, behind its length, so that no two sequences of values look the
// same.
func (w *digester) write(exists byte, value []byte) {
	w.head[0] = exists
	binary.LittleEndian.PutUint64(w.head[1:], uint64(len(value)))
	_, _ = w.h.Write(w.head[:]) // it never fails
	_, _ = w.h.Write(value)
}

// part is the value of an element within the value of a set, and its place there. It is nil if it is
// missing.
type part struct {
	value []byte
	place int
}

// find appends the parts of a value for the elements of a set.
func find(found []part, set []element, value []byte) []part {
	found = append(found, make([]part, len(set))...)
	place := 0
	each := func(name string, v []byte) error {
		for i := range set {
			if found[i].value == nil && set[i].is(name, place, v) {
				found[i] = part{v, place}
			}
		}
		place++
		return nil
	}
	switch {
	case len(value) == 0:
		return found
	case value[0] == '{':
		_ = scan.Members(value, each) // the value is valid
	case value[0] == '[':
		_ = scan.Elements(value, func(v []byte) error { return each("", v) })
	}
	for i := range set {
		if set[i].kind == itself && string(value) != "null" {
			found[i].value = value
		}
	}
	return found
}

// is reports that an element means the member of a name, or the item at a place.
func (e *element) is(name string, place int, value []byte) bool {
	switch e.kind {
	case byName:
		return e.name == name
	case byIndex:
		return e.index == place
	case byValue:
		return equal(e.name, value)
	case byKey:
		left := len(e.key)
		_ = scan.Members(value, func(name string, v []byte) error { // a value that is not an object has no members
			for _, k := range e.key {
				if k.name == name && equal(k.value, v) {
					left--
				}
			}
			return nil
		})
		return left == 0
	}
	return false
}

// equal reports that two scalars in JSON are the same, even if they are escaped in
// different ways.
func equal(a string, b []byte) bool {
	return a == string(b) || bytes.HasPrefix(b, []byte{'"'}) && strings.HasPrefix(a, `"`) &&
		scan.Unquote([]byte(a)) == scan.Unquote(b)
}
