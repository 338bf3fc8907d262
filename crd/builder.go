package crd

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/source"
)

const tagKey = "crd"

// fieldError is the error of a wrong field. It names the field and the wrong tag.
type fieldError struct {
	// Type is the named Go type that declares the field.
	Type string
	// Field is the field's name. If the field is in unnamed structs, the names of the
	// fields around it come first.
	Field string
	// Tag is the tag as it stands in the source. It is empty if the tag is not the error.
	Tag string
	Err error
}

func (e *fieldError) Error() string {
	s := e.Type
	if e.Field != "" {
		s += "." + e.Field
	}
	if e.Tag != "" {
		s += ", " + e.Tag
	}
	return s + ": " + e.Err.Error()
}

func (e *fieldError) Unwrap() error { return e.Err }

// place is the position of a value in the Go types and in the object.
type place struct {
	typ    string // the named Go type
	fields string // the fields in it
	path   string // the JSONPath from the root of the object
	// repeated means that the place is in a list or map, so no JSONPath leads to a single
	// value.
	repeated bool
	// types are the directives about the JSON type of the place and the places below it.
	types []directive
}

// field returns the place of a field of the struct at p.
func (p place) field(name string) place {
	if p.fields != "" {
		p.fields += "."
	}
	p.fields += name
	p.types = nil
	return p
}

// within returns the place of the named struct type t. Its fields have the name of the
// type that declares them.
func (b *builder) within(p place, t reflect.Type) place {
	names := b.source.Names(b.docName(t))
	p.typ, p.fields, p.types = names[len(names)-1], "", nil
	return p
}

// element returns the place of an element of the list or map at p.
func (p place) element(kind string) place {
	p.repeated = true
	var below []directive
	for _, d := range p.types {
		if len(d.path) > 0 && d.path[0] == kind {
			d.path = d.path[1:]
			below = append(below, d)
		}
	}
	p.types = below
	return p
}

// directive returns the directive about the value itself with a key. A tag stands behind
// the markers, and overrides them.
func (p place) directive(key string) (directive, bool) {
	for _, d := range slices.Backward(p.types) {
		if len(d.path) == 0 && d.key == key {
			return d, true
		}
	}
	return directive{}, false
}

// has reports whether there is a directive about the value itself with a key.
func (p place) has(key string) bool {
	_, ok := p.directive(key)
	return ok
}

// override returns the type that the field's tag or marker sets, or "".
func (p place) override() string {
	d, _ := p.directive("type")
	return d.value
}

// marked reports whether the type is from a marker.
func (p place) marked() bool {
	d, _ := p.directive("type")
	return d.mark != nil
}

func (p place) error(key, tag string, err error) *fieldError {
	if key != "" {
		key = fmt.Sprintf("%s:%q", key, tag)
	}
	return &fieldError{Type: source.Plain(p.typ), Field: p.fields, Tag: key, Err: err}
}

// docName returns the name of a type as comments name it: package.Type, without type
// arguments.
func docName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.String(), "[")
	return name
}

// typeName returns the name of a type without type arguments.
func typeName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	return name
}

// builder builds the schema of a version.
type builder struct {
	source   source.Source
	markers  func([]string, *Definition) iter.Seq2[string, error]
	kind     *Definition // which the markers of the kind change
	kindType reflect.Type
	checked  map[reflect.Type]bool
	packages []*source.Package // of the types in checked
	// strangers are the types in checked whose packages the source does not have.
	strangers []reflect.Type

	schemaOfKind *Schema
	faults       map[string]bool // of the kind, that have been reported

	columns    []Column
	selectable []SelectableField
	deprecated *string
	errs       []error

	open []reflect.Type // the enclosing structs
	// transitions are the rules that use the old object, with their fields.
	transitions map[*Schema]*fieldError
}

func (b *builder) fail(at place, err error) { b.errs = append(b.errs, at.error("", "", err)) }

func (b *builder) failMark(at place, m source.Marker, err error) {
	b.fail(at, fmt.Errorf("%s: %w", m, err))
}

// draft returns a definition that markers and options complete.
func draft() *Definition {
	return &Definition{Spec: Spec{Versions: []Version{{Served: true}}}}
}

// application applies the tag of a field to the field's schema.
type application struct {
	b        *builder
	at       place
	tag      string
	member   member
	schema   *Schema
	parent   *Schema
	optional bool

	column    *Column
	rules     map[*Schema]int // the rules that the tag has added
	immutable []*Schema
}

func (a *application) fail(err error) { a.b.errs = append(a.b.errs, a.error(err)) }

// failed adds the error of a directive. The error of a marker names the marker's line.
func (a *application) failed(d directive, err error) {
	err = fmt.Errorf("%s: %w", d, err)
	if d.mark != nil {
		a.b.fail(a.at, err)
		return
	}
	a.fail(err)
}

// error returns an error at the field, with its tag if it has one.
func (a *application) error(err error) *fieldError {
	if a.tag == "" {
		return a.at.error("", "", err)
	}
	return a.at.error(tagKey, a.tag, err)
}

// member is a member of the JSON object that a struct is encoded as.
type member struct {
	reflect.StructField
	name     string
	optional bool
	quoted   bool         // encoded as a string, by the string option
	owner    reflect.Type // the struct that declares it
}
