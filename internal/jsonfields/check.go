package jsonfields

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	experiment "github.com/go-json-experiment/json"
)

// A Problem is the reason why values of a type could be written and then not be read
// back, or why different readers of its tags would name a field differently.
type Problem struct {
	// Where is the Go type that has the problem, followed by the field if the problem is
	// one of a field.
	Where string
	Err   error
}

func (p Problem) Error() string { return p.Where + ": " + p.Err.Error() }

func (p Problem) Unwrap() error { return p.Err }

// Problems returns the problems of type t and of all types in it. If there are none,
// encoding/json can read everything that it writes of t.
func Problems(t reflect.Type) (problems []Problem) {
	for where, t := range Reachable(t) {
		problems = append(problems, check(where, t)...)
	}
	return problems
}

// Check returns the problems of type t as one error, or nil.
func Check(t reflect.Type) error {
	var errs []error
	for _, p := range Problems(t) {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// Reachable yields type t and each type in it once, with a name of the place where it
// found the type first. It does not go into types that encode or decode themselves, nor
// into the types of k8s.io/api and k8s.io/apimachinery, whose tags are in order.
func Reachable(t reflect.Type) iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		w := walker{seen: make(map[reflect.Type]bool), yield: yield}
		w.walk(t.String(), t)
	}
}

type walker struct {
	seen  map[reflect.Type]bool
	yield func(string, reflect.Type) bool
}

func (w *walker) walk(where string, t reflect.Type) bool {
	if w.seen[t] || isKubernetes(t) {
		return true
	}
	w.seen[t] = true
	if t.Name() != "" {
		where = t.String()
	}
	if !w.yield(where, t) {
		return false
	}
	if Encodes(t) || Decodes(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return w.walk(where, t.Elem())
	case reflect.Struct:
		for _, f := range Of(t) {
			if !w.walk(where+"."+f.Name, f.Type) {
				return false
			}
		}
	}
	return true
}

func isKubernetes(t reflect.Type) bool {
	p := t.PkgPath()
	return strings.HasPrefix(p, "k8s.io/api/") || strings.HasPrefix(p, "k8s.io/apimachinery/")
}

var (
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	marshalerToType     = reflect.TypeFor[experiment.MarshalerTo]()
	unmarshalerFromType = reflect.TypeFor[experiment.UnmarshalerFrom]()
)

func hasAny(t reflect.Type, interfaces ...reflect.Type) bool {
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
		return false // the value in it may have methods, which do not count
	}
	return slices.ContainsFunc(interfaces, reflect.PointerTo(t).Implements)
}

// Encodes reports whether t has a method MarshalJSON, MarshalText or MarshalJSONTo, on the
// value or on the pointer.
func Encodes(t reflect.Type) bool {
	return hasAny(t, marshalerType, textMarshalerType, marshalerToType)
}

// Decodes reports whether t has a method UnmarshalJSON, UnmarshalText or
// UnmarshalJSONFrom.
func Decodes(t reflect.Type) bool {
	return hasAny(t, unmarshalerType, textUnmarshalerType, unmarshalerFromType)
}

// check returns the problems of a type, without those of the types in it.
func check(where string, t reflect.Type) []Problem {
	fail := func(format string, args ...any) []Problem {
		return []Problem{{where, fmt.Errorf(format, args...)}}
	}
	if hasAny(t, marshalerToType) && !hasAny(t, marshalerType, textMarshalerType) {
		return fail("%s has MarshalJSONTo, which encoding/json does not call: give it MarshalJSON as well", t)
	}
	if Encodes(t) != Decodes(t) {
		if text, err := lost(t); err != nil {
			return fail("%s is written as %s, which cannot be read back (%w): "+
				"give it both MarshalJSON and UnmarshalJSON", t, text, err)
		}
	}
	if Encodes(t) || Decodes(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fail("a %s has no JSON form", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fail("the value in interface %s cannot be read back: use runtime.RawExtension, any or a struct", t)
		}
	case reflect.Map:
		if err := checkKey(t.Key()); err != nil {
			return fail("a map with keys of type %s %w", t.Key(), err)
		}
	case reflect.Struct:
		return checkFields(where, t)
	}
	return nil
}

// lost encodes and decodes the zero value of a type. It returns the JSON and the error of
// decoding it. A zero value that cannot be encoded is not a problem.
func lost(t reflect.Type) (text []byte, err error) {
	text = zero(t)
	if text == nil || bytes.Equal(text, []byte("null")) {
		return text, nil
	}
	if hasAny(t, unmarshalerFromType) { // encoding/json does not call it
		return text, experiment.Unmarshal(text, reflect.New(t).Interface(), readOptions)
	}
	return text, json.Unmarshal(text, reflect.New(t).Interface())
}

// zero encodes the zero value of a type, or returns nil if it has no encoding.
func zero(t reflect.Type) (text []byte) {
	defer func() {
		if recover() != nil {
			text = nil // the method panics on a zero value
		}
	}()
	text, err := json.Marshal(reflect.New(t).Interface())
	if err != nil {
		return nil
	}
	return text
}

// checkKey returns the reason why a type cannot be the key of a map, or nil.
func checkKey(t reflect.Type) error {
	plain := t.Kind() == reflect.String || t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr
	text := t.Implements(textMarshalerType) && hasAny(t, textUnmarshalerType)
	switch {
	case plain && !Encodes(t) && !Decodes(t),
		text && t.Kind() != reflect.String && !hasAny(t, marshalerType, unmarshalerType):
		return nil
	case Encodes(t) || Decodes(t):
		return errors.New("is read differently from how it is written: use keys without methods")
	}
	return errors.New("has no JSON form")
}

// checkFields checks the tags of a struct and of the structs that it embeds.
func checkFields(where string, t reflect.Type) (problems []Problem) {
	for _, s := range Structs(t) {
		for i := range s.NumField() {
			f := s.Field(i)
			if err := checkTag(f); err != nil {
				problems = append(problems, Problem{where + "." + f.Name, fmt.Errorf("json:%q: %w", f.Tag.Get("json"), err)})
			}
		}
	}
	return problems
}

func checkTag(f reflect.StructField) error {
	tag := f.Tag.Get("json")
	name, rest, _ := strings.Cut(tag, ",")
	base := indirect(f.Type)
	options := strings.Split(rest, ",")
	switch {
	case tag == "-":
	case f.Anonymous && !f.IsExported() && f.Type.Kind() == reflect.Pointer && base.Kind() == reflect.Struct:
		return errors.New("an embedded pointer to a struct that is not exported cannot be read")
	case !f.IsExported() && !f.Anonymous:
	case name != "" && !validName(name):
		return fmt.Errorf("encoding/json does not accept the name %q", name)
	case slices.Contains(options, "embed") && !f.Anonymous:
		return errors.New("embed is for embedded structs")
	case slices.Contains(options, "string") && quotable(base.Kind()) && (Encodes(base) || Decodes(base)):
		return fmt.Errorf("the option string is not for %s, which encodes itself", base)
	case slices.Contains(options, "string") && base.Kind() == reflect.String && base != reflect.TypeFor[json.Number]():
		return errors.New(`the option string is not for strings: with it some readers take the string "null" for null`)
	case !f.IsExported() && base.Kind() == reflect.Struct && name != "" && (Encodes(base) || Decodes(base)):
		return fmt.Errorf("%s is not exported, and its methods cannot be called", base)
	}
	return nil
}
