package wire

import (
	"encoding/binary"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pintle-go/pintle/internal/jsonfields"
	"github.com/pintle-go/pintle/kube/internal/scan"
)

// A store and a view pay only for the fields that their type names: the other fields are
// cut from an object's bytes before the bytes are kept.

// jsonKeep tells which parts of a JSON value a Go type would decode. Nil keeps
// everything.
type jsonKeep struct {
	members  map[string]*jsonKeep // of an object that is a struct
	elements *jsonKeep            // of an array, or the values of a map
	isMap    bool
}

// keepJSON returns the parts that decoding into t reads.
func keepJSON(t reflect.Type, seen map[reflect.Type]*jsonKeep) *jsonKeep {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if jsonfields.Decodes(t) {
		return nil
	}
	if k, ok := seen[t]; ok {
		return k
	}
	switch t.Kind() {
	case reflect.Struct:
		k := &jsonKeep{members: make(map[string]*jsonKeep)}
		seen[t] = k
		for _, f := range jsonfields.Of(t) {
			k.members[f.Member] = keepJSON(f.Type, seen)
		}
		return k
	case reflect.Slice, reflect.Array, reflect.Map:
		if e := keepJSON(t.Elem(), seen); e != nil {
			return &jsonKeep{elements: e, isMap: t.Kind() == reflect.Map}
		}
	}
	return nil
}

// append appends the kept part of value.
func (k *jsonKeep) append(dst, value []byte) ([]byte, error) {
	if k == nil || len(value) == 0 {
		return append(dst, value...), nil
	}
	switch {
	case value[0] == '{' && (k.members != nil || k.isMap):
		dst = append(dst, '{')
		start := len(dst)
		err := scan.Members(value, func(name string, v []byte) (err error) {
			sub := k.elements
			if !k.isMap {
				var ok bool
				if sub, ok = k.members[name]; !ok {
					return nil
				}
			}
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst = appendQuoted(dst, name)
			dst = append(dst, ':')
			dst, err = sub.append(dst, v)
			return err
		})
		return append(dst, '}'), err
	case value[0] == '[' && k.elements != nil && !k.isMap:
		dst = append(dst, '[')
		start := len(dst)
		err := scan.Elements(value, func(v []byte) (err error) {
			if len(dst) > start {
				dst = append(dst, ',')
			}
			dst, err = k.elements.append(dst, v)
			return err
		})
		return append(dst, ']'), err
	}
	return append(dst, value...), nil
}

func appendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // invalid UTF-8 becomes U+FFFD, and nothing else can fail
	return dst
}

// protoKeep tells which fields of a message to keep, by number. Nil keeps everything.
type protoKeep struct {
	fields map[int]*protoKeep
}

// append appends the kept part of msg.
func (k *protoKeep) append(dst, msg []byte) ([]byte, error) {
	if k == nil {
		return append(dst, msg...), nil
	}
	for len(msg) > 0 {
		f, rest, err := nextField(msg)
		if err != nil {
			return dst, err
		}
		msg = rest
		sub, ok := k.fields[f.num]
		switch {
		case !ok:
		case sub == nil || f.wire != wireBytes:
			dst = append(dst, f.all...)
		default:
			// The length stands before the content and is known after it. So append the
			// content, then the header, then swap the two.
			start := len(dst)
			if dst, err = sub.append(dst, f.val); err != nil {
				return dst, err
			}
			size := len(dst) - start
			var head [2 * binary.MaxVarintLen64]byte
			n := binary.PutUvarint(head[:], uint64(f.num)<<3|wireBytes)
			n += binary.PutUvarint(head[n:], uint64(size))
			dst = append(dst, head[:n]...)
			copy(dst[start+n:], dst[start:start+size])
			copy(dst[start:], head[:n])
		}
	}
	return dst, nil
}
