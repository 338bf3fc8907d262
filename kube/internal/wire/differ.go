package wire

import (
	"bytes"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// Differing returns two states of an object without the large parts that are the same in
// both, so that decoding them costs less. The decoded states differ in the same fields as
// before, and have the same values there. Elements of lists keep their places.
func (c *Codec) Differing(a, b *Entry) (x, y *Entry) {
	if a.protobuf() || b.protobuf() || c.json == nil {
		return a, b
	}
	was, is, err := c.json.differing(a.body().Bytes, b.body().Bytes, true)
	if err != nil {
		return a, b
	}
	return a.with(was), b.with(is)
}

// with returns an entry with the same metadata and another body, which is JSON.
func (e *Entry) with(body []byte) *Entry {
	return &Entry{data: append(bytes.Clone(e.meta()), body...), split: e.split}
}

// null stands for an element that is the same in both states. It decodes to the same zero
// value in both.
var null = []byte("null")

// differing returns two values without parts that are the same in both. Only the members of
// the object at the top are left out, because an inner object that is empty may itself be
// left out when it is encoded.
func (k *jsonKeep) differing(a, b []byte, top bool) (x, y []byte, err error) {
	switch {
	case k == nil, len(a) == 0, len(b) == 0, a[0] != b[0], bytes.Equal(a, b) && !top:
		return a, b, nil
	case a[0] == '{' && k.members != nil:
		return k.differingMembers(a, b, top)
	case a[0] == '[' && k.elements != nil && !k.isMap:
		return k.differingElements(a, b)
	}
	return a, b, nil
}

func (k *jsonKeep) differingMembers(a, b []byte, top bool) (x, y []byte, err error) {
	others, count := make(map[string][]byte, len(k.members)), 0
	err = scan.Members(b, func(name string, value []byte) error {
		others[name] = value
		count++
		return nil
	})
	if err != nil || len(others) < count {
		return a, b, err // a name that comes twice is not worth the thought
	}
	x, y = append(make([]byte, 0, len(a)), '{'), append(make([]byte, 0, len(b)), '{')
	member := func(dst []byte, name string, value []byte) []byte {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		return append(append(appendQuoted(dst, name), ':'), value...)
	}
	err = scan.Members(a, func(name string, value []byte) error {
		other, both := others[name]
		switch {
		case !both:
			x = member(x, name, value)
			return nil
		case top && bytes.Equal(value, other):
		default:
			v, w, err := k.members[name].differing(value, other, false)
			if err != nil {
				return err
			}
			x, y = member(x, name, v), member(y, name, w)
		}
		delete(others, name)
		return nil
	})
	for name, value := range others {
		y = member(y, name, value)
	}
	return append(x, '}'), append(y, '}'), err
}

func (k *jsonKeep) differingElements(a, b []byte) (x, y []byte, err error) {
	elements := func(list []byte) (all [][]byte, err error) {
		err = scan.Elements(list, func(e []byte) error { all = append(all, e); return nil })
		return all, err
	}
	was, err := elements(a)
	if err != nil {
		return nil, nil, err
	}
	is, err := elements(b)
	if err != nil || len(was) != len(is) {
		return a, b, err // such lists count as changed whole
	}
	x, y = append(make([]byte, 0, len(a)), '['), append(make([]byte, 0, len(b)), '[')
	for i := range was {
		v, w := null, null
		if !bytes.Equal(was[i], is[i]) {
			if v, w, err = k.elements.differing(was[i], is[i], false); err != nil {
				return nil, nil, err
			}
		}
		if i > 0 {
			x, y = append(x, ','), append(y, ',')
		}
		x, y = append(x, v...), append(y, w...)
	}
	return append(x, ']'), append(y, ']'), nil
}
