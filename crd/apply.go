package crd

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/nearest"
)

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

func (a *application) apply(directives []directive) {
	if len(directives) == 0 {
		return
	}
	a.rules = map[*Schema]int{}
	before := len(a.b.errs)
	touched := []*Schema{a.schema}
	each := func(which func(directive) bool) {
		for _, d := range directives {
			if !which(d) {
				continue
			}
			s, err := d.follow(a.schema)
			if err == nil {
				err = a.one(d, s)
			}
			if err != nil {
				a.failed(d, err)
				continue
			}
			if !slices.Contains(touched, s) {
				touched = append(touched, s)
			}
		}
	}
	// Defaults and enums are values, so the constraints on values come first. A tag
	// overrides a marker.
	isValue := func(d directive) bool { return d.key == "default" || d.key == "enum" || d.key == "notEmpty" }
	isMark := func(d directive) bool { return d.mark != nil && !isValue(d) }
	below := a.constraintsBelow(directives, isMark)
	each(isMark)
	for s, constraints := range below {
		s.narrow(constraints)
	}
	each(func(d directive) bool { return d.mark == nil && !isValue(d) })
	each(isValue)
	if len(a.b.errs) > before {
		return
	}
	for _, s := range touched {
		if err := s.consistent(); err != nil {
			a.fail(err)
		}
	}
	a.finish()
}

// constraintsBelow takes the constraints off the schemas that markers are about. They are
// those of the Go type and of its markers, and hold beside the markers' own.
func (a *application) constraintsBelow(directives []directive, isMark func(directive) bool) map[*Schema]*Schema {
	below := map[*Schema]*Schema{}
	for _, d := range directives {
		if s, err := d.follow(a.schema); err == nil && isMark(d) && below[s] == nil {
			below[s] = s.takeConstraints()
		}
	}
	return below
}

// follow returns the part of a field's schema that a directive is about.
func (d directive) follow(s *Schema) (*Schema, error) {
	for _, step := range d.path {
		next := s.Items
		if step == inValues {
			next = s.values()
		}
		if next == nil {
			return nil, fmt.Errorf("%s has no %s", s.typeText(), step)
		}
		s = next
	}
	return s, nil
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

// onlyFor returns an error if a schema has none of the types.
func (s *Schema) onlyFor(types ...string) error {
	if slices.Contains(types, s.typeText()) || s.typeText() == "map" && slices.Contains(types, "object") {
		return nil
	}
	return fmt.Errorf("it is for %s, this is %s", strings.Join(types, ", "), s.typeText())
}

// one applies one directive to the schema that it is about.
func (a *application) one(d directive, s *Schema) error {
	nested := len(d.path) > 0
	switch d.key {
	case "min", "max", "exclusiveMin", "exclusiveMax", "multipleOf":
		return s.setNumber(d)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return s.setCount(d)
	case "pattern":
		if _, err := regexp.Compile(d.value); err != nil {
			return err
		}
		s.Pattern = d.value
		return s.onlyFor("string", "int-or-string")
	case "format":
		return s.setFormat(d)
	case "enum":
		return s.setEnum(d)
	case "default":
		if nested {
			return errors.New("elements have no default")
		}
		literal := s.literal
		if d.mark != nil {
			literal = s.markLiteral
		}
		value, err := literal(d.value)
		s.Default = value
		return err
	case "nullable":
		s.Nullable = true
	case "required", "optional":
		if nested {
			return errors.New("it is for fields, not for elements")
		}
		a.optional = d.key == "optional"
	case "preserveUnknownFields":
		s.PreserveUnknownFields = true
		return s.onlyFor("object", anyText)
	case "embeddedResource":
		s.EmbeddedResource, s.PreserveUnknownFields = true, true
		return s.onlyFor("object")
	case "listType", "listMapKey", "mapType":
		return s.setListOrMap(d)
	case "immutable":
		a.immutable = append(a.immutable, s)
		return a.rule(s, Rule{Rule: "self == oldSelf", Message: a.member.name + " is immutable"})
	case "title":
		s.Title = d.value
	case "description":
		s.Description = d.value
	case "deprecated":
		s.Description = deprecatedText(s.Description, d.value)
	case "rule":
		return a.rule(s, Rule{Rule: d.value})
	case "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf":
		return a.ruleDetail(d, s)
	case "column", "columnPath", "columnType", "columnFormat", "priority":
		if nested {
			return errors.New("it is for fields, not for elements")
		}
		return a.setColumn(d)
	case "selectable":
		if nested || a.at.repeated {
			return errors.New("a field in a list or map cannot be selected")
		}
		a.b.selectable = append(a.b.selectable, SelectableField{a.at.path})
		return s.onlyFor("string", "integer", "boolean")
	case "notEmpty":
		return s.requireContent()
	case "type": // it was used to make the schema
		if t := s.typeText(); d.mark != nil && t != d.value && s.Type != d.value {
			return fmt.Errorf("the Go type is encoded as %s", t)
		}
	}
	return nil
}

// requireContent gives a string, list, map or struct a minimum of 1, unless it has a minimum.
func (s *Schema) requireContent() error {
	one := int64(1)
	least := map[string]**int64{"string": &s.MinLength, "array": &s.MinItems, "object": &s.MinProperties}[s.Type]
	if least != nil && *least == nil {
		*least = &one
	}
	return nil
}

func deprecatedText(description, instead string) string {
	text := "Deprecated"
	if instead != "" {
		text += ": " + instead
	}
	if description == "" {
		return text
	}
	return description + "\n\n" + text
}

func (s *Schema) setNumber(d directive) error {
	if !d.given { // the limit that the schema has is exclusive
		s.ExclusiveMinimum = s.ExclusiveMinimum || d.key == "exclusiveMin"
		s.ExclusiveMaximum = s.ExclusiveMaximum || d.key == "exclusiveMax"
		return s.onlyFor("integer", "number", "int-or-string")
	}
	n, err := strconv.ParseFloat(d.value, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return errors.New("it is not a number")
	}
	if s.isWhole() && n != math.Trunc(n) {
		return errors.New("an integer's must be an integer")
	}
	switch d.key {
	case "min", "exclusiveMin":
		s.Minimum, s.ExclusiveMinimum = &n, d.key == "exclusiveMin" || d.mark != nil && s.ExclusiveMinimum
	case "max", "exclusiveMax":
		s.Maximum, s.ExclusiveMaximum = &n, d.key == "exclusiveMax" || d.mark != nil && s.ExclusiveMaximum
	default:
		if n <= 0 {
			return errors.New("it must be above 0")
		}
		s.MultipleOf = &n
	}
	return s.onlyFor("integer", "number", "int-or-string")
}

func (s *Schema) setCount(d directive) error {
	n, err := strconv.ParseInt(d.value, 10, 64)
	if err != nil || n < 0 {
		return errors.New("it is not a number of 0 or more")
	}
	switch d.key {
	case "minLength":
		s.MinLength = &n
		return s.onlyFor("string", "int-or-string")
	case "maxLength":
		s.MaxLength = &n
		return s.onlyFor("string", "int-or-string")
	case "minItems":
		s.MinItems = &n
		return s.onlyFor("array")
	case "maxItems":
		s.MaxItems = &n
		return s.onlyFor("array")
	case "minProperties":
		s.MinProperties = &n
	default:
		s.MaxProperties = &n
	}
	return s.onlyFor("object")
}

// formats are the formats that API servers check. Servers ignore all other formats.
var formats = map[string][]string{
	"string": {"bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac",
		"uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor",
		"byte", "password", "date", "duration", "date-time", "k8s-short-name", "k8s-long-name"},
	"integer": {"int32", "int64"},
	"number":  {"float", "double"},
}

// setFormat sets a format. Markers may name formats that servers ignore.
func (s *Schema) setFormat(d directive) error {
	known, ok := formats[s.Type]
	switch {
	case d.mark != nil:
	case !ok || s.IntOrString:
		return s.onlyFor("string", "integer", "number")
	case !slices.Contains(known, d.value):
		return fmt.Errorf("servers do not know this format%s", nearest.DidYouMean(d.value, known))
	}
	s.Format = d.value
	return nil
}

func (s *Schema) setListOrMap(d directive) error {
	switch d.key {
	case "mapType":
		if d.value != "atomic" && d.value != "granular" {
			return errors.New("want atomic or granular")
		}
		s.MapType = d.value
		return s.onlyFor("object")
	case "listMapKey":
		if keys := strings.Split(d.value, "|"); d.mark == nil {
			s.ListMapKeys = keys
		} else if !slices.Contains(s.ListMapKeys, d.value) { // each marker names one key
			s.ListMapKeys = append(s.ListMapKeys, keys...)
		}
		if s.ListType == "" {
			s.ListType = "map"
		}
		return s.onlyFor("array")
	}
	if !slices.Contains([]string{"atomic", "set", "map"}, d.value) {
		return errors.New("want atomic, set or map")
	}
	if s.ListType = d.value; s.ListType != "map" {
		s.ListMapKeys = nil
	}
	return s.onlyFor("array")
}

// rule adds a rule to a schema.
func (a *application) rule(s *Schema, r Rule) error {
	if s.Type == "" && !s.IntOrString {
		return errors.New("a value of any type can have no rule")
	}
	s.Rules = append(s.Rules, r)
	a.rules[s]++
	if usesOldSelf(r.Rule) {
		a.b.transitions[s] = a.error(nil)
	}
	return nil
}

// ruleDetail adds a detail to the last rule of a tag.
func (a *application) ruleDetail(d directive, s *Schema) error {
	if a.rules[s] == 0 {
		return errors.New("it must follow a rule")
	}
	r := &s.Rules[len(s.Rules)-1]
	switch d.key {
	case "message":
		if strings.ContainsAny(d.value, "\n\r") {
			return errors.New("it must be one line")
		}
		r.Message = d.value
	case "messageExpression":
		r.MessageExpression = d.value
	case "reason":
		reasons := []string{"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"}
		if !slices.Contains(reasons, d.value) {
			return fmt.Errorf("want one of %s", strings.Join(reasons, ", "))
		}
		r.Reason = d.value
	case "fieldPath":
		r.FieldPath = d.value
	case "optionalOldSelf":
		yes := true
		r.OptionalOldSelf = &yes
	}
	return nil
}

// finish applies the parts that need the whole tag.
func (a *application) finish() {
	if a.column != nil {
		if err := a.finishColumn(); err != nil {
			a.fail(fmt.Errorf("column: %w", err))
		}
	}
	for _, s := range a.immutable {
		// An absent field has no value that a rule could check.
		if s == a.schema && a.optional && s.Default == nil {
			name := celName(a.member.name)
			r := Rule{
				Rule:    fmt.Sprintf("has(self.%s) == has(oldSelf.%s)", name, name),
				Message: a.member.name + " is immutable: it can be neither added nor removed",
			}
			if name == a.member.name {
				r.FieldPath = "." + name
			}
			a.parent.Rules = append(a.parent.Rules, r)
			a.b.transitions[a.parent] = a.error(nil)
		}
	}
}
