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
// process has sent, which may have been something else; nil: it is not known.
func (t *Things[T]) whose(key sightKey, s *ThingStatus, ref Ref, k kept, is, want *T) whose {
	switch {
	case t.Adopt != nil && t.Adopt(ref, is):
		return ours
	case !s.ours():
		return theirs
	case shows(ref, is):
		return ours
	case len(k.outcome) > 0 && k.token == s.Token:
		return ours // an outcome is kept when the creation is answered
	case t.Adopt != nil, t.tells.Load():
		return theirs
	}
	other := unknown
	if last := t.last(key); last != nil && last.sent != nil {
		want, other = last.sent, theirs
	}
	if want == nil {
		return unknown
	}
	values, same := asSent(reflect.ValueOf(want), reflect.ValueOf(is), ref.Name, false, maxDepth)
	if same && values > 0 || reflect.DeepEqual(want, is) {
		return ours
	}
	return other
}

// shows reports whether a thing that a creation of the owner may have made shows that it has: its name has the
// owner's uid, or one of its texts, such as a tag, has that or the token of the creation.
func shows(ref Ref, is any) bool {
	return strings.Contains(ref.Name, string(ref.Owner)) || mentions(is, ref.Token) || mentions(is, string(ref.Owner))
}

// maxDepth bounds how deep the values of a thing are looked at.
const maxDepth = 32

// mentions reports whether a text is part of a text of a thing.
func mentions(is any, text string) bool {
	return text != "" && hasText(reflect.ValueOf(is), text, make(map[visit]bool), maxDepth)
}

// visit is a pointer that was followed. The parts of a thing may point to one another.
type visit struct {
	at uintptr
	of reflect.Type
}

func hasText(v reflect.Value, text string, seen map[visit]bool, depth int) bool {
	if depth == 0 {
		return false
	}
	has := func(v reflect.Value) bool { return hasText(v, text, seen, depth-1) }
	switch v.Kind() {
	case reflect.String:
		return strings.Contains(v.String(), text)
	case reflect.Pointer:
		at := visit{v.Pointer(), v.Type()}
		if v.IsNil() || seen[at] {
			return false
		}
		seen[at] = true
		return has(v.Elem())
	case reflect.Interface:
		return has(v.Elem())
	case reflect.Struct:
		for f, field := range v.Fields() {
			if isData(f) && has(field) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
			return false // such as bytes
		}
		for i := range v.Len() {
			if has(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next(); {
			if has(all.Key()) || has(all.Value()) {
				return true
			}
		}
	}
	return false
}

// isData reports whether a field is part of what a thing says, and not of how its type works.
func isData(f reflect.StructField) bool { return f.IsExported() || f.Anonymous }

// asSent reports whether a thing has all values that were sent. The target may have added others
// where none was sent, such as an id: a field that is zero was not sent. It returns how many values
// besides the name were sent.
func asSent(sent, is reflect.Value, name string, exact bool, depth int) (values int, same bool) {
	switch {
	case !sent.IsValid(), !exact && sent.IsZero():
		return 0, true
	case depth == 0, !is.IsValid(), sent.Type() != is.Type():
		return 0, false
	}
	same = true
	add := func(sent, is reflect.Value, exact bool) {
		if !same {
			return
		}
		n, s := asSent(sent, is, name, exact, depth-1)
		values, same = values+n, s
	}
	switch sent.Kind() {
	case reflect.Pointer, reflect.Interface:
		if sent.Kind() == reflect.Interface || sent.Pointer() != is.Pointer() {
			add(sent.Elem(), is.Elem(), true)
		}
	case reflect.Struct:
		opaque := sent.CanInterface() // as time.Time is
		for i := range sent.NumField() {
			if isData(sent.Type().Field(i)) {
				opaque = false
				add(sent.Field(i), is.Field(i), false)
			}
		}
		if opaque {
			return 1, reflect.DeepEqual(sent.Interface(), is.Interface())
		}
	case reflect.Slice, reflect.Array:
		if sent.Len() != is.Len() {
			return 0, false
		}
		for i := range sent.Len() {
			add(sent.Index(i), is.Index(i), true)
		}
	case reflect.Map:
		for all := sent.MapRange(); all.Next(); {
			add(all.Value(), is.MapIndex(all.Key()), true)
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
