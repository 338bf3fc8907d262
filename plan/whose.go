package plan

import (
	"reflect"
	"strings"
)

// whose says to whom a thing belongs that was found although no creation of it was answered.
// Somebody else may have made one of the name.
type whose int

const (
	unknown whose = iota
	ours
	theirs
)

// whose looks for what says to whom a thing belongs. What is wanted stands for what an earlier
// process has sent; nil: it is not known.
func (t *Things[T]) whose(key sightKey, s *ThingStatus, ref Ref, k kept, is, want *T) whose {
	switch {
	case t.Adopt != nil && t.Adopt(ref, is):
		return ours
	case !s.ours():
		return theirs
	case len(k.outcome) > 0 && k.token == s.Token:
		return ours // an outcome is kept when the creation is answered
	case strings.Contains(ref.Name, string(ref.Owner)), shows(is, ref.Token), shows(is, string(ref.Owner)):
		return ours
	case t.Adopt != nil, t.tells.Load():
		return theirs
	}
	if last := t.last(key); last != nil && last.sent != nil {
		want = last.sent // what is wanted may have changed since
	} else if want != nil {
		t.remember(key, nil, "", nil).sent = want
	}
	if want == nil {
		return unknown
	}
	values, same := asSent(reflect.ValueOf(want), reflect.ValueOf(is), ref.Name, maxDepth)
	if same && values > 0 || reflect.DeepEqual(want, is) {
		return ours
	}
	return theirs
}

// maxDepth bounds how deep the values of a thing are looked at.
const maxDepth = 32

// shows reports whether a text is part of a text of a thing, such as a tag.
func shows(is any, text string) bool {
	return text != "" && hasText(reflect.ValueOf(is), text, maxDepth)
}

func hasText(v reflect.Value, text string, depth int) bool {
	if depth == 0 {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		return strings.Contains(v.String(), text)
	case reflect.Pointer, reflect.Interface:
		return hasText(v.Elem(), text, depth-1)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if hasText(field, text, depth-1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if hasText(v.Index(i), text, depth-1) {
				return true
			}
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next(); {
			if hasText(all.Key(), text, depth-1) || hasText(all.Value(), text, depth-1) {
				return true
			}
		}
	}
	return false
}

// asSent reports whether a thing has all values that were sent. The target may have added others
// where none was sent, such as an id. It returns how many values besides the name were sent.
func asSent(sent, is reflect.Value, name string, depth int) (values int, same bool) {
	switch {
	case !sent.IsValid(), sent.IsZero():
		return 0, true
	case depth == 0, !is.IsValid(), sent.Type() != is.Type():
		return 0, false
	}
	same = true
	add := func(sent, is reflect.Value) {
		n, s := asSent(sent, is, name, depth-1)
		values, same = values+n, same && s
	}
	switch sent.Kind() {
	case reflect.Pointer, reflect.Interface:
		add(sent.Elem(), is.Elem())
	case reflect.Struct:
		for i := range sent.NumField() {
			add(sent.Field(i), is.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if sent.Len() != is.Len() {
			return 0, false
		}
		for i := range sent.Len() {
			add(sent.Index(i), is.Index(i))
		}
	case reflect.Map:
		for all := sent.MapRange(); all.Next(); {
			add(all.Value(), is.MapIndex(all.Key()))
		}
	case reflect.String:
		same = sent.String() == is.String()
		if sent.String() != name {
			values = 1
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer: // say nothing
	default:
		values, same = 1, sent.Equal(is)
	}
	return values, same
}
