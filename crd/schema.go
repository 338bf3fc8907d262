package crd

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const tagKey = "crd"

// FieldError says which field is wrong and which of its tags.
type FieldError struct {
	// Type is the named Go type that the field is declared in.
	Type string
	// Field is the field's name, with those of the fields around it if they are
	// structs without a name.
	Field string
	// Tag is the tag as it stands in the source, empty if it is not the tag
	// that is wrong.
	Tag string
	Err error
}

func (e *FieldError) Error() string {
	s := e.Type
	if e.Field != "" {
		s += "." + e.Field
	}
	if e.Tag != "" {
		s += ", " + e.Tag
	}
	return s + ": " + e.Err.Error()
}

func (e *FieldError) Unwrap() error { return e.Err }

// place is where in the Go types and in the object something is.
type place struct {
	typ    string // the named Go type
	fields string // the fields in it
	path   string // the JSONPath from the root of the object
	// repeated: in a list or map, where no JSONPath leads to one value.
	repeated bool
	// types are what type directives say, for it and what is below.
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

// within returns the place of the struct type t, which has a name.
func (p place) within(t reflect.Type) place {
	p.typ, p.fields, p.types = docName(t), "", nil
	return p
}

// element returns the place of what is in the list or map at p.
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

// override returns the type that the field's tag gives it.
func (p place) override() string {
	for _, d := range p.types {
		if len(d.path) == 0 {
			return d.value
		}
	}
	return ""
}

func (p place) error(key, tag string, err error) *FieldError {
	if key != "" {
		key = fmt.Sprintf("%s:%q", key, tag)
	}
	return &FieldError{Type: p.typ, Field: p.fields, Tag: key, Err: err}
}

// docName is how comments know a type: package.Type, without type arguments.
func docName(t reflect.Type) string {
	name, _, _ := strings.Cut(t.String(), "[")
	return name
}

// builder builds the schema of a version.
type builder struct {
	docs     comments
	describe func(reflect.Type) map[string]string

	columns    []Column
	selectable []SelectableField
	deprecated *string
	errs       []error

	open []reflect.Type // the structs around
	// transitions are the rules that compare with the object before, with the
	// fields that have them.
	transitions map[*Schema]*FieldError
}

func (b *builder) fail(at place, err error) { b.errs = append(b.errs, at.error("", "", err)) }

// root returns the schema of an object.
func (b *builder) root(t reflect.Type) *Schema {
	b.transitions = map[*Schema]*FieldError{}
	s := b.object(t, place{}.within(t), true)
	s.Description = b.typeDescription(t)
	b.checkTransitions(s, false)
	return s
}

// any is the schema of any value.
func anyValue() *Schema { return &Schema{PreserveUnknownFields: true} }

func bound(f float64) *float64 { return &f }

// schema returns the schema of what a Go type is encoded as.
func (b *builder) schema(t reflect.Type, at place) *Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Duration]() {
		b.fail(at, errors.New("time.Duration is encoded as a number of nanoseconds: use metav1.Duration"))
		return anyValue()
	}
	if s := known(t); s != nil {
		return s
	}
	switch override := at.override(); {
	case override == "":
	case !encodesItself(t) && !isAny(t):
		b.fail(at, fmt.Errorf("type=%s: that of %s is known", override, t))
		return anyValue()
	default:
		return b.overridden(override, at)
	}
	if s, err := selfDescribed(t); s != nil || err != nil {
		if err != nil {
			b.fail(at, err)
			return anyValue()
		}
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
		if isAny(t) {
			return anyValue()
		}
		b.fail(at, fmt.Errorf("what interface %s holds is not known: use runtime.RawExtension, any or a struct", t))
		return anyValue()
	}
	if s := scalar(t.Kind()); s != nil {
		return s
	}
	b.fail(at, fmt.Errorf("%s has no JSON", t))
	return anyValue()
}

func (b *builder) overridden(name string, at place) *Schema {
	switch name {
	case "string", "integer", "number", "boolean":
		return &Schema{Type: name}
	case "object":
		return &Schema{Type: name, PreserveUnknownFields: true}
	case "int-or-string":
		return intOrString()
	case "any":
		return anyValue()
	}
	b.fail(at, fmt.Errorf("type=%s: want string, integer, number, boolean, object, int-or-string or any", name))
	return anyValue()
}

// scalar returns the schema of what is neither list, map, struct nor pointer.
func scalar(kind reflect.Kind) *Schema {
	integer := func(format string, lowest, highest *float64) *Schema {
		return &Schema{Type: "integer", Format: format, Minimum: lowest, Maximum: highest}
	}
	switch kind {
	case reflect.Bool:
		return &Schema{Type: "boolean"}
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Int32:
		return integer("int32", nil, nil)
	case reflect.Int, reflect.Int64:
		return integer("int64", nil, nil)
	case reflect.Int8:
		return integer("int32", bound(-1<<7), bound(1<<7-1))
	case reflect.Int16:
		return integer("int32", bound(-1<<15), bound(1<<15-1))
	case reflect.Uint8:
		return integer("int32", bound(0), bound(1<<8-1))
	case reflect.Uint16:
		return integer("int32", bound(0), bound(1<<16-1))
	case reflect.Uint32:
		return integer("int64", bound(0), bound(1<<32-1))
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return integer("int64", bound(0), nil)
	case reflect.Float32:
		return &Schema{Type: "number", Format: "float"}
	case reflect.Float64:
		return &Schema{Type: "number", Format: "double"}
	}
	return nil
}

func intOrString() *Schema {
	return &Schema{IntOrString: true, AnyOf: []*Schema{{Type: "integer"}, {Type: "string"}}}
}

// quantityPattern is that of Kubernetes' own definitions.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// known returns the schemas of types that are encoded as something else than
// their Go types say, or nil.
func known(t reflect.Type) *Schema {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[time.Time]():
		return &Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[metav1.Duration]():
		return &Schema{Type: "string"}
	case reflect.TypeFor[resource.Quantity]():
		s := intOrString()
		s.Pattern = quantityPattern
		return s
	case reflect.TypeFor[intstr.IntOrString]():
		return intOrString()
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return &Schema{Type: "object", PreserveUnknownFields: true}
	case reflect.TypeFor[json.Number]():
		return &Schema{Type: "number"}
	case reflect.TypeFor[metav1.ObjectMeta]():
		return embeddedMetadata()
	}
	if t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured" && t.Name() == "Unstructured" {
		return &Schema{Type: "object", PreserveUnknownFields: true, EmbeddedResource: true}
	}
	return nil
}

// embeddedMetadata is the schema of the metadata of pod templates and the like.
// The server knows the fields of an object's own metadata, but drops those of
// embedded ones that the schema does not name.
func embeddedMetadata() *Schema {
	text := func() *Schema { return &Schema{Type: "string"} }
	texts := func() *Schema {
		return &Schema{Type: "object", AdditionalProperties: &SchemaOrBool{Allows: true, Schema: text()}}
	}
	return &Schema{Type: "object", Properties: map[string]*Schema{
		"name": text(), "namespace": text(), "labels": texts(), "annotations": texts(),
		"finalizers": {Type: "array", Items: text()},
	}}
}

func isAny(t reflect.Type) bool {
	switch fullName(t) {
	case "encoding/json.RawMessage",
		"encoding/json/jsontext.Value",
		"github.com/go-json-experiment/json/jsontext.Value",
		"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON",
		"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.JSON":
		return true
	}
	return t.Kind() == reflect.Interface && t.NumMethod() == 0
}

// implements reports whether T or *T is an I.
func implements[I any](t reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

func encodesItself(t reflect.Type) bool {
	return implements[json.Marshaler](t) || implements[encoding.TextMarshaler](t)
}

// selfDescribed returns the schema of a type that encodes itself: as its methods
// for Kubernetes' own OpenAPI say, or text if it encodes itself as text.
func selfDescribed(t reflect.Type) (*Schema, error) {
	if isAny(t) {
		return anyValue(), nil
	}
	if implements[interface{ OpenAPISchemaType() []string }](t) {
		v := reflect.New(t).Interface()
		s := &Schema{}
		switch types := v.(interface{ OpenAPISchemaType() []string }).OpenAPISchemaType(); len(types) {
		case 0:
			return anyValue(), nil
		case 1:
			s.Type = types[0]
		default:
			return nil, fmt.Errorf("%s is of several types, %s: say which with crd:%q", t, strings.Join(types, " and "), "type=…")
		}
		if f, ok := v.(interface{ OpenAPISchemaFormat() string }); ok {
			s.Format = f.OpenAPISchemaFormat()
		}
		switch s.Type {
		case "object":
			s.PreserveUnknownFields = true
		case "array":
			s.Items = anyValue()
		}
		return s, nil
	}
	switch {
	case implements[json.Marshaler](t):
		return nil, fmt.Errorf("%s encodes itself: say as what with crd:%q, or give it a method OpenAPISchemaType() []string", t, "type=string")
	case implements[encoding.TextMarshaler](t):
		return &Schema{Type: "string"}, nil
	}
	return nil, nil
}

func (b *builder) list(t reflect.Type, at place) *Schema {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !encodesItself(t.Elem()) {
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
		b.fail(at, fmt.Errorf("the type contains itself (%s), and a structural schema cannot: cut it with runtime.RawExtension", strings.Join(cycle, " → ")))
		return anyValue()
	}
	s := b.object(t, at.within(t), false)
	if b.describe != nil && b.describe(t) != nil && s.properties() > worldSize {
		s.undescribe()
	}
	return s
}

// object returns the schema of a struct: its fields, and what the tags of its
// blank fields say of it.
func (b *builder) object(t reflect.Type, at place, root bool) *Schema {
	b.open = append(b.open, t)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	members, blanks, errs := membersOf(t, at)
	b.errs = append(b.errs, errs...)
	for _, m := range members {
		if root && (m.name == "apiVersion" || m.name == "kind" || m.name == "metadata") {
			continue // the server knows them
		}
		where := at
		if m.owner != t {
			where = at.within(m.owner)
		}
		b.member(s, m, where, at.path+jsonPathStep(m.name))
	}
	for _, m := range blanks {
		where := at
		if m.owner != t {
			where = at.within(m.owner)
		}
		b.whole(s, m, where.field("_"), root)
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
	var directives []directive
	if tag != "" {
		var err error
		if directives, err = parseTag(tag); err != nil {
			b.errs = append(b.errs, at.error(tagKey, tag, err))
			directives = nil
		}
	}
	for _, d := range directives {
		if d.key == "type" {
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
		return // what its tag says would only be misunderstood
	}
	mergeKeys(s, m)
	s.Description = b.description(m, at)
	optional := m.optional
	if known, ok := markers[fullName(m.owner)]; ok {
		optional = slices.Contains(known.optional, m.name) || optional && !slices.Contains(known.required, m.name)
	}
	a := application{b: b, at: at, tag: tag, member: m, schema: s, parent: parent, optional: optional}
	a.apply(directives)
	parent.Properties[m.name] = s
	if !a.optional && s.Default == nil {
		parent.Required = append(parent.Required, m.name)
	}
}
