package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// projection copies the fields that a view has from the whole object, which was decoded
// from protobuf.
type projection func(view, whole reflect.Value)

// project returns the projection of whole type w onto view type v, and the fields of w's
// message that the projection needs. It fails if the two types would decode the same JSON
// differently; then the view is read as JSON.
func project(v, w reflect.Type) (projection, *protoKeep, error) {
	switch {
	case v == w:
		return func(view, whole reflect.Value) { view.Set(whole) }, nil, nil
	case v.Kind() == reflect.Struct && w.Kind() == reflect.Struct && !jsonfields.Decodes(v) && !jsonfields.Decodes(w):
		return projectStruct(v, w, nil)
	case v.Kind() == reflect.Slice && w.Kind() == reflect.Slice:
		one, keep, err := project(v.Elem(), w.Elem())
		return func(view, whole reflect.Value) {
			if whole.IsNil() {
				return
			}
			list := reflect.MakeSlice(v, whole.Len(), whole.Len())
			for i := range whole.Len() {
				one(list.Index(i), whole.Index(i))
			}
			view.Set(list)
		}, keep, err
	case v.Kind() == reflect.Pointer && w.Kind() == reflect.Pointer:
		one, keep, err := project(v.Elem(), w.Elem())
		return func(view, whole reflect.Value) {
			if whole.IsNil() {
				return
			}
			p := reflect.New(v.Elem())
			one(p.Elem(), whole.Elem())
			view.Set(p)
		}, keep, err
	case w.Kind() == reflect.Pointer:
		one, keep, err := project(v, w.Elem())
		return func(view, whole reflect.Value) {
			if !whole.IsNil() {
				one(view, whole.Elem())
			}
		}, keep, err
	case v.Kind() == w.Kind() && isScalar(v.Kind()) && !jsonfields.Decodes(v) && !jsonfields.Decodes(w):
		return func(view, whole reflect.Value) { view.Set(whole.Convert(v)) }, nil, nil
	}
	return nil, nil, fmt.Errorf("%s is not part of %s", v, w)
}

func isScalar(k reflect.Kind) bool {
	return k == reflect.String || k == reflect.Bool || k >= reflect.Int && k <= reflect.Float64
}

// setApart holds the members of an object that are not projected: its metadata and type
// are decoded on their own.
var setApart = map[string]bool{"kind": true, "apiVersion": true, "metadata": true}

func projectStruct(v, w reflect.Type, without map[string]bool) (projection, *protoKeep, error) {
	whole := make(map[string]jsonfields.Field)
	for _, f := range jsonfields.Of(w) {
		whole[f.Member] = f
	}
	type step struct {
		to, from []int
		copy     projection
	}
	var steps []step
	keep := &protoKeep{fields: make(map[int]*protoKeep)}
	for _, f := range jsonfields.Of(v) {
		if without[f.Member] {
			continue
		}
		from, ok := whole[f.Member]
		if !ok {
			return nil, nil, fmt.Errorf("%s has no field %s", w, f.Member)
		}
		if f.ThroughPointer() {
			return nil, nil, fmt.Errorf("%s embeds a pointer", v)
		}
		one, sub, err := project(f.Type, from.Type)
		if err != nil {
			return nil, nil, err
		}
		if err := keep.add(from, sub); err != nil {
			return nil, nil, err
		}
		steps = append(steps, step{f.Path, from.Path, one})
	}
	return func(view, whole reflect.Value) {
		for _, s := range steps {
			s.copy(view.FieldByIndex(s.to), whole.FieldByIndex(s.from))
		}
	}, keep, nil
}

// add keeps field f of a message, within the messages of the structs in which the field
// is embedded.
func (k *protoKeep) add(f jsonfields.Field, sub *protoKeep) error {
	at := k
	for _, outer := range f.Outer {
		num, err := protoNumber(outer.Tag)
		if err != nil {
			return err
		}
		inner, ok := at.fields[num]
		if !ok {
			inner = &protoKeep{fields: make(map[int]*protoKeep)}
			at.fields[num] = inner
		}
		at = inner
	}
	num, err := protoNumber(f.Tag)
	if err != nil {
		return err
	}
	at.fields[num] = sub
	return nil
}

// protoNumber reads a field's number from its tag, as in "bytes,3,opt,name=…".
func protoNumber(tag reflect.StructTag) (int, error) {
	parts := strings.Split(tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0, fmt.Errorf("no field number in %q", tag)
	}
	return strconv.Atoi(parts[1])
}
