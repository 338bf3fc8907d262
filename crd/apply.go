package crd

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
		narrow(s, constraints)
	}
	each(func(d directive) bool { return d.mark == nil && !isValue(d) })
	each(isValue)
	for _, d := range directives {
		limit := map[string]func(*Schema) *float64{
			"exclusiveMin": func(s *Schema) *float64 { return s.Minimum },
			"exclusiveMax": func(s *Schema) *float64 { return s.Maximum },
		}[d.key]
		if s, err := d.follow(a.schema); err == nil && limit != nil && limit(s) == nil {
			a.failed(d, errors.New("there is no limit that it could make exclusive"))
		} else if err == nil && slices.Contains([]string{"min", "max", "exclusiveMin", "exclusiveMax", "format"}, d.key) {
			if err := a.held(d, s); err != nil {
				a.failed(d, err)
			}
		}
	}
	if len(a.b.errs) > before {
		return
	}
	for _, s := range touched {
		if err := consistent(s); err != nil {
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
			below[s] = takeConstraints(s)
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

// one applies one directive to the schema that it is about.
func (a *application) one(d directive, s *Schema) error {
	nested := len(d.path) > 0
	switch d.key {
	case "min", "max", "exclusiveMin", "exclusiveMax", "multipleOf":
		return setNumber(s, d)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return setCount(s, d)
	case "pattern":
		if _, err := regexp.Compile(d.value); err != nil {
			return err
		}
		if d.mark == nil && s.Pattern == quantityPattern {
			s.AllOf = append(s.AllOf, &Schema{Pattern: s.Pattern})
		}
		s.Pattern = d.value
		return onlyFor(s, "string", "int-or-string")
	case "format":
		return setFormat(s, d)
	case "enum":
		return setEnum(s, d)
	case "default":
		if nested {
			return errors.New("elements have no default")
		}
		literal := literalOf
		if d.mark != nil {
			literal = markLiteral
		}
		value, err := literal(s, d.value)
		s.Default = value
		return err
	case "nullable":
		s.Nullable = true
	case "required", "optional":
		if nested {
			return errors.New("it is for fields, not for elements")
		}
		if a.parent == nil {
			return errors.New("it is for fields, not for types")
		}
		a.optional = d.key == "optional"
	case "preserveUnknownFields":
		s.PreserveUnknownFields = true
		return onlyFor(s, "object", anyText)
	case "embeddedResource":
		s.EmbeddedResource, s.PreserveUnknownFields = true, true
		return onlyFor(s, "object")
	case "listType", "listMapKey", "mapType":
		return setListOrMap(s, d)
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
		return onlyFor(s, "string", "integer", "boolean")
	case "notEmpty":
		if err := requireContent(s); d.mark == nil {
			return err
		}
	case "type": // it was used to make the schema
		if t := s.typeText(); d.mark != nil && t != d.value && s.Type != d.value {
			return fmt.Errorf("the Go type is encoded as %s", t)
		}
	}
	return nil
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
	given := map[string]bool{"message": r.Message != "", "messageExpression": r.MessageExpression != "",
		"reason": r.Reason != "", "fieldPath": r.FieldPath != "", "optionalOldSelf": r.OptionalOldSelf != nil}
	if given[d.key] {
		return errors.New("its rule has one already")
	}
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
			if !celAccess.MatchString(a.member.name) {
				a.fail(errors.New("immutable: CEL cannot name the optional field, so nothing keeps it from being " +
					"added or removed: make it required"))
				return
			}
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
