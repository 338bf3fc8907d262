package crd

import (
	"bytes"
	"encoding/json"
)

// Schema is a structural OpenAPI v3 schema, with the fields of apiextensions.k8s.io/v1.
// Its counterpart is JSONSchemaProps of k8s.io/apiextensions-apiserver.
type Schema struct {
	Title            string            `json:"title,omitempty"`
	Description      string            `json:"description,omitempty"`
	Type             string            `json:"type,omitempty"`
	Format           string            `json:"format,omitempty"`
	Nullable         bool              `json:"nullable,omitempty"`
	Default          json.RawMessage   `json:"default,omitempty"`
	Enum             []json.RawMessage `json:"enum,omitempty"`
	Minimum          *float64          `json:"minimum,omitempty"`
	ExclusiveMinimum bool              `json:"exclusiveMinimum,omitempty"`
	Maximum          *float64          `json:"maximum,omitempty"`
	ExclusiveMaximum bool              `json:"exclusiveMaximum,omitempty"`
	MultipleOf       *float64          `json:"multipleOf,omitempty"`
	MinLength        *int64            `json:"minLength,omitempty"`
	MaxLength        *int64            `json:"maxLength,omitempty"`
	Pattern          string            `json:"pattern,omitempty"`
	MinItems         *int64            `json:"minItems,omitempty"`
	MaxItems         *int64            `json:"maxItems,omitempty"`
	MinProperties    *int64            `json:"minProperties,omitempty"`
	MaxProperties    *int64            `json:"maxProperties,omitempty"`
	Required         []string          `json:"required,omitempty"`

	Items                *Schema            `json:"items,omitempty"`
	Properties           map[string]*Schema `json:"properties,omitempty"`
	AdditionalProperties *SchemaOrBool      `json:"additionalProperties,omitempty"`

	AllOf []*Schema `json:"allOf,omitempty"`
	OneOf []*Schema `json:"oneOf,omitempty"`
	AnyOf []*Schema `json:"anyOf,omitempty"`
	Not   *Schema   `json:"not,omitempty"`

	PreserveUnknownFields bool     `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	EmbeddedResource      bool     `json:"x-kubernetes-embedded-resource,omitempty"`
	IntOrString           bool     `json:"x-kubernetes-int-or-string,omitempty"`
	ListType              string   `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys           []string `json:"x-kubernetes-list-map-keys,omitempty"`
	MapType               string   `json:"x-kubernetes-map-type,omitempty"`
	Rules                 []Rule   `json:"x-kubernetes-validations,omitempty"`
}

// Rule is a validation rule in CEL, an entry of x-kubernetes-validations. In
// controller-tools it is +kubebuilder:validation:XValidation.
type Rule struct {
	Rule              string `json:"rule"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
	Reason            string `json:"reason,omitempty"`
	FieldPath         string `json:"fieldPath,omitempty"`
	OptionalOldSelf   *bool  `json:"optionalOldSelf,omitempty"`
}

// SchemaOrBool is the schema of a map's values. Without a schema it says whether there
// may be any value. Its counterpart is JSONSchemaPropsOrBool of
// k8s.io/apiextensions-apiserver.
type SchemaOrBool struct {
	Allows bool
	Schema *Schema
}

// MarshalJSON encodes the schema or, without a schema, the boolean.
func (s SchemaOrBool) MarshalJSON() ([]byte, error) {
	if s.Schema != nil {
		return json.Marshal(s.Schema)
	}
	return json.Marshal(s.Allows)
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (s *SchemaOrBool) UnmarshalJSON(data []byte) error {
	if string(data) == "true" || string(data) == "false" {
		*s = SchemaOrBool{Allows: string(data) == "true"}
		return nil
	}
	*s = SchemaOrBool{Allows: true, Schema: new(Schema)}
	return json.Unmarshal(data, s.Schema)
}

// values returns the schema of a map's values, or nil.
func (s *Schema) values() *Schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

const anyText = "a value of any type"

// typeText names the type of the values that a schema describes.
func (s *Schema) typeText() string {
	switch {
	case s.IntOrString:
		return "int-or-string"
	case s.Type == "":
		return anyText
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "map"
	}
	return s.Type
}

// isWhole reports whether a schema allows integers only.
func (s *Schema) isWhole() bool { return s.Type == "integer" || s.IntOrString }

// typed reports whether a schema restricts the type.
func (s *Schema) typed() bool { return s.Type != "" || s.IntOrString }

// types returns the JSON types that a schema allows.
func (s *Schema) types() []string {
	switch {
	case s.IntOrString:
		return []string{"integer", "string"}
	case s.Type == "number":
		return []string{"integer", "number"}
	case s.Type == "":
		return []string{"array", "boolean", "integer", "number", "object", "string"}
	}
	return []string{s.Type}
}

// same reports whether two schemas are equal word by word.
func (s *Schema) same(o *Schema) bool {
	a, erra := json.Marshal(s)
	b, errb := json.Marshal(o)
	return erra == nil && errb == nil && bytes.Equal(a, b)
}

// anyValue returns the schema of any value.
func anyValue() *Schema { return &Schema{PreserveUnknownFields: true} }

func bound(f float64) *float64 { return &f }
