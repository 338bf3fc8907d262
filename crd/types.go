package crd

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// scalar returns the schema of a type that is not a list, map, struct or pointer.
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

// quantityPattern is the pattern in Kubernetes' own definitions.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))` +
	`(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

// known returns the schema of a type whose JSON differs from its Go type, or nil.
func known(t reflect.Type) *Schema {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time]():
		return matching("date-time", timePattern)
	case reflect.TypeFor[metav1.MicroTime]():
		return matching("date-time", microTimePattern)
	case reflect.TypeFor[metav1.Duration]():
		return matching("", durationPattern)
	case reflect.TypeFor[resource.Quantity]():
		s := intOrString()
		s.Pattern, s.AllOf = quantityPattern, []*Schema{{Pattern: exponentPattern}}
		return s
	case reflect.TypeFor[intstr.IntOrString]():
		s := intOrString()
		s.AllOf = []*Schema{int32OrString()}
		return s
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

// embeddedMetadata returns the schema of the metadata in pod templates and similar
// structs. The server knows the fields of an object's own metadata. Of embedded metadata
// it drops every field that the schema does not name.
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

// implements reports whether T or *T implements I.
func implements[I any](t reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

// selfDescribed returns the schema of a type that encodes itself. The type's methods for
// Kubernetes' own OpenAPI describe it. Otherwise it is a string if it encodes itself as
// text.
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
			return nil, fmt.Errorf("%s has several JSON types, %s: choose one with crd:%q",
				t, strings.Join(types, " and "), "type=…")
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
		return nil, fmt.Errorf("%s encodes itself: name its JSON type with crd:%q, "+
			"or give it a method OpenAPISchemaType() []string", t, "type=string")
	case implements[encoding.TextMarshaler](t):
		return &Schema{Type: "string"}, nil
	}
	return nil, nil
}

// fullName returns a type's name with the full path of its package.
func fullName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }
