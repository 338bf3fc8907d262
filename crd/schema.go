package crd

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/crd/internal/source"
	"github.com/pintle-go/pintle/internal/jsonfields"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const tagKey = "crd"

// typeKeys are the keys of directives that can say which JSON a type has.
var typeKeys = []string{"type", "schemaless", "preserveUnknownFields", "embeddedResource"}

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
	names := b.source.Names(docName(t))
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
	return &fieldError{Type: p.typ, Field: p.fields, Tag: key, Err: err}
}

// docName returns the name of a type as comments name it: package.Type, without type
// arguments.
func docName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.String(), "[")
	return name
}

// builder builds the schema of a version.
type builder struct {
	source  source.Source
	markers func([]string, *Definition) iter.Seq2[string, error]
	kind    *Definition // which the markers of the kind change

	columns    []Column
	selectable []SelectableField
	deprecated *string
	errs       []error

	open []reflect.Type // the enclosing structs
	// transitions are the rules that use the old object, with their fields.
	transitions map[*Schema]*fieldError
}

func (b *builder) fail(at place, err error) { b.errs = append(b.errs, at.error("", "", err)) }

// build returns the schema of an object.
func (b *builder) build(t reflect.Type) (*Schema, error) {
	root := b.root(t)
	if len(b.errs) == 0 {
		// The schema would allow such values, and a client could not read them back.
		for _, p := range jsonfields.Problems(t) {
			b.errs = append(b.errs, &fieldError{Type: p.Where, Err: p.Err})
		}
	}
	return root, errors.Join(b.errs...)
}

func (b *builder) root(t reflect.Type) *Schema {
	b.transitions = map[*Schema]*fieldError{}
	s := b.object(t, b.within(place{}, t), true)
	s.Description = b.typeDescription(t)
	b.checkTransitions(s, false)
	return s
}

// anyValue returns the schema of any value.
func anyValue() *Schema { return &Schema{PreserveUnknownFields: true} }

func bound(f float64) *float64 { return &f }

// schema returns the schema of the JSON of a Go type.
func (b *builder) schema(t reflect.Type, at place) *Schema {
	if at.has("schemaless") {
		return b.overridden(cmp.Or(at.override(), "any"), at)
	}
	before := len(b.errs)
	s := b.unmarked(t, at)
	// The markers of a struct are applied with its fields.
	plain := t.Kind() != reflect.Struct || jsonfields.Encodes(t) || b.hasTypeMark(t, "schemaless")
	if plain && t.Name() != "" && len(b.errs) == before {
		b.markedType(s, t, at)
	}
	return s
}

// unmarked returns the schema without the effect of the type's markers.
func (b *builder) unmarked(t reflect.Type, at place) *Schema {
	switch {
	case t.Kind() == reflect.Pointer:
		return b.schema(t.Elem(), at)
	case t == reflect.TypeFor[time.Duration]():
		b.fail(at, errors.New("time.Duration is encoded as a number of nanoseconds: use metav1.Duration"))
		return anyValue()
	}
	if s := known(t); s != nil {
		return s
	}
	tagged, marked := at.override(), b.typeMark(t)
	free := jsonfields.Encodes(t) || isAny(t)
	switch {
	case b.hasTypeMark(t, "schemaless"):
		return b.overridden(cmp.Or(tagged, marked, "any"), at)
	case free && tagged+marked != "":
		return b.overridden(cmp.Or(tagged, marked), at)
	case tagged != "" && !at.marked(): // a marker is compared with the schema
		b.fail(at, fmt.Errorf("type=%s: the type of %s is already known", tagged, t))
		return anyValue()
	}
	return b.typed(t, at)
}

// typed returns the schema of a type whose JSON no marker or tag names.
func (b *builder) typed(t reflect.Type, at place) *Schema {
	switch s, err := selfDescribed(t); {
	case err != nil && (at.has("embeddedResource") || b.hasTypeMark(t, "embeddedResource")):
		return b.overridden("object", at)
	case err != nil && (at.has("preserveUnknownFields") || b.hasTypeMark(t, "preserveUnknownFields")):
		return anyValue()
	case err != nil:
		b.fail(at, err)
		return anyValue()
	case s != nil:
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.structure(t, at)
	case reflect.Map:
		return b.mapping(t, at)
	case reflect.Slice, reflect.Array:
		return b.list(t, at)
	case reflect.Interface:
		b.fail(at, fmt.Errorf("the type of the value in interface %s is not known: "+
			"use runtime.RawExtension, any or a struct", t))
		return anyValue()
	}
	if s := scalar(t.Kind()); s != nil {
		return s
	}
	b.fail(at, fmt.Errorf("%s has no JSON form", t))
	return anyValue()
}

func (b *builder) overridden(name string, at place) *Schema {
	switch name {
	case "string", "integer", "number", "boolean":
		return &Schema{Type: name}
	case "object":
		return &Schema{Type: name, PreserveUnknownFields: true}
	case "array":
		return &Schema{Type: name, Items: anyValue()}
	case "int-or-string":
		return intOrString()
	case "any":
		return anyValue()
	}
	b.fail(at, fmt.Errorf("type=%s: want string, integer, number, boolean, object, array, "+
		"int-or-string or any", name))
	return anyValue()
}

func (b *builder) list(t reflect.Type, at place) *Schema {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !jsonfields.Encodes(t.Elem()) {
		return &Schema{Type: "string", Format: "byte"}
	}
	s := &Schema{Type: "array", Items: b.schema(t.Elem(), at.element(inItems))}
	if t.Kind() == reflect.Array {
		n := int64(t.Len())
		s.MinItems, s.MaxItems = &n, &n
	}
	if t.Elem() == reflect.TypeFor[metav1.Condition]() {
		s.ListType, s.ListMapKeys = "map", []string{"type"}
	}
	return s
}

func (b *builder) mapping(t reflect.Type, at place) *Schema {
	if t.Key().Kind() != reflect.String || implements[encoding.TextMarshaler](t.Key()) {
		b.fail(at, fmt.Errorf("the keys of %s must be strings", t))
		return anyValue()
	}
	if isAny(t.Elem()) {
		return &Schema{Type: "object", PreserveUnknownFields: true}
	}
	values := b.schema(t.Elem(), at.element(inValues))
	return &Schema{Type: "object", AdditionalProperties: &SchemaOrBool{Allows: true, Schema: values}}
}

// structure returns the schema of a struct inside the object.
func (b *builder) structure(t reflect.Type, at place) *Schema {
	if t.Name() == "" {
		return b.object(t, at, false)
	}
	if i := slices.Index(b.open, t); i >= 0 {
		var cycle []string
		for _, o := range append(b.open[i:], t) {
			cycle = append(cycle, o.String())
		}
		const format = "the type contains itself (%s), and a structural schema cannot: cut it with runtime.RawExtension"
		b.fail(at, fmt.Errorf(format, strings.Join(cycle, " → ")))
		return anyValue()
	}
	s := b.object(t, b.within(at, t), false)
	switch kubernetes := b.kubernetesName(t); {
	case kubernetes == fullName(reflect.TypeFor[metav1.Condition]()):
		constrainCondition(s)
	case kubernetesField(kubernetes, ".").atomic:
		s.MapType = "atomic"
	}
	return s
}

// object returns the schema of a struct: its fields, and the effect of the tags of its
// blank fields.
func (b *builder) object(t reflect.Type, at place, root bool) *Schema {
	b.open = append(b.open, t)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	members, blanks, errs := b.membersOf(t, at)
	before := len(b.errs)
	b.errs = append(b.errs, errs...)
	for _, m := range members {
		if root && (m.name == "apiVersion" || m.name == "kind" || m.name == "metadata") {
			continue // the server knows them
		}
		where := at
		if m.owner != t {
			where = b.within(at, m.owner)
		}
		b.member(s, m, where, at.path+jsonPathStep(m.name))
	}
	errored := len(b.errs) > before
	for _, m := range blanks {
		where := at
		if m.owner != t {
			where = b.within(at, m.owner)
		}
		b.whole(s, m, where.field("_"), root)
	}
	for _, owner := range jsonfields.Structs(t) {
		where := at
		if owner != t {
			where = b.within(at, owner)
		}
		b.markedEmbedded(owner, where)
		if owner.Name() != "" && !errored {
			b.markedType(s, owner, where)
		}
	}
	if len(s.Properties) == 0 {
		s.Properties = nil
	}
	return s
}

// member adds a field to the schema of its struct.
func (b *builder) member(parent *Schema, m member, owner place, path string) {
	at := owner.field(m.Name)
	at.path = path
	tag := m.Tag.Get(tagKey)
	kubernetes := b.kubernetesName(m.owner)
	var aliased, directives []directive
	if kubernetes == "" {
		aliased, directives = b.markedField(at)
	}
	if tag != "" {
		tagged, err := parseTag(tag)
		if err != nil {
			b.errs = append(b.errs, at.error(tagKey, tag, err))
			tagged = nil
		}
		directives = append(directives, tagged...)
	}
	if slices.ContainsFunc(directives, func(d directive) bool { return d.key == "schemaless" && len(d.path) == 0 }) {
		aliased = nil
	}
	for _, d := range slices.Concat(aliased, directives) {
		if slices.Contains(typeKeys, d.key) {
			at.types = append(at.types, d)
		}
	}
	before := len(b.errs)
	s := b.schema(m.Type, at)
	if m.quoted {
		s = &Schema{Type: "string"}
	}
	if len(b.errs) > before {
		parent.Properties[m.name] = s
		return // its tag would cause misleading errors
	}
	if kubernetes != "" {
		s.kubernetes(kubernetesField(kubernetes, m.name))
	} else {
		mergeKeys(s, m)
	}
	s.Description = b.description(m, at)
	optional := m.optional || kubernetes == "" && b.optionalByDefault(at.typ)
	if known, ok := markers[kubernetes]; ok {
		optional = slices.Contains(known.optional, m.name) || optional && !slices.Contains(known.required, m.name)
	}
	below := application{b: b, at: at, member: m, schema: s, parent: parent}
	below.apply(aliased)
	a := application{b: b, at: at, tag: tag, member: m, schema: s, parent: parent, optional: optional}
	a.apply(directives)
	parent.Properties[m.name] = s
	if !a.optional && s.Default == nil {
		parent.Required = append(parent.Required, m.name)
	}
}
