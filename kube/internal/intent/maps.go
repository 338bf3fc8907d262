package intent

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strconv"
)

// entry is an entry of a map while the map's entries are sorted.
type entry struct {
	key   string
	value reflect.Value
	text  string // the value, in a map of strings
}

// byKey sorts entries. Package slices would be compiled for this type.
type byKey []entry

func (b byKey) Len() int           { return len(b) }
func (b byKey) Less(i, j int) bool { return b[i].key < b[j].key }
func (b byKey) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

var stringMapType = reflect.TypeFor[map[string]string]()

func (c *compiler) mapEncoder(t reflect.Type) (encodeFunc, error) {
	if t.ConvertibleTo(stringMapType) && t.Elem() == stringMapType.Elem() && t.Key() == stringMapType.Key() {
		return encodeStringMap, nil
	}
	elem, err := c.node(t.Elem())
	if err != nil {
		return nil, err
	}
	name, err := keyNames(t.Key())
	if err != nil {
		return nil, err
	}
	elided := t.Elem().Kind() == reflect.Pointer
	return func(s *state, v reflect.Value) error {
		if err := s.enter(); err != nil {
			return err
		}
		base := len(s.keys)
		for iter := v.MapRange(); iter.Next(); {
			value := iter.Value()
			if elided && leadsToNil(value) {
				continue
			}
			key, err := name(iter.Key())
			if err != nil {
				return atKey(fmt.Sprint(iter.Key()), err)
			}
			s.keys = append(s.keys, entry{key: key, value: value})
		}
		box := reflect.New(t.Elem()).Elem()
		err := s.appendEntries(base, func(e entry) error {
			box.Set(e.value)
			return elem.encode(s, box)
		})
		s.leave()
		return err
	}, nil
}

// encodeStringMap is for labels, annotations and similar maps.
func encodeStringMap(s *state, v reflect.Value) error {
	m := v.Convert(stringMapType).Interface().(map[string]string)
	base := len(s.keys)
	for key, text := range m {
		s.keys = append(s.keys, entry{key: key, text: text})
	}
	return s.appendEntries(base, func(e entry) error { return appendString(s, e.text) })
}

// appendEntries appends the object that has the entries of s.keys from base on.
func (s *state) appendEntries(base int, appendValue func(entry) error) error {
	entries := s.keys[base:]
	sort.Sort(byKey(entries))
	s.buf = append(s.buf, '{')
	for i, e := range entries {
		if i > 0 {
			if entries[i-1].key == e.key {
				return atKey(e.key, errors.New("two keys of the map have this text"))
			}
			s.buf = append(s.buf, ',')
		}
		if err := appendString(s, e.key); err != nil {
			return atKey(e.key, err)
		}
		s.buf = append(s.buf, ':')
		if err := appendValue(e); err != nil {
			return atKey(e.key, err)
		}
	}
	s.buf = append(s.buf, '}')
	s.keys = s.keys[:base]
	return nil
}

// keyNames returns the function that turns keys of a map into names: strings as they are,
// then MarshalText, then integers in decimal.
func keyNames(t reflect.Type) (func(reflect.Value) (string, error), error) {
	switch {
	case t.Kind() == reflect.String:
		return func(v reflect.Value) (string, error) { return v.String(), nil }, nil
	case t.Implements(textMarshalerType):
		return func(v reflect.Value) (string, error) {
			if nilable(v.Kind()) && v.IsNil() {
				return "", nil
			}
			text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			return string(text), err
		}, nil
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		return func(v reflect.Value) (string, error) { return strconv.FormatInt(v.Int(), 10), nil }, nil
	case t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uintptr:
		return func(v reflect.Value) (string, error) { return strconv.FormatUint(v.Uint(), 10), nil }, nil
	}
	return nil, fmt.Errorf("a map with keys of type %s has no JSON form", t)
}
