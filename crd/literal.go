package crd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// literal turns the text of a value into JSON of the schema's type. The text of a list,
// map or struct is already JSON.
func (s *Schema) literal(text string) (json.RawMessage, error) {
	var value any
	var err error
	switch s.typeText() {
	case "string":
		value = text
	case "integer":
		value, err = strconv.ParseInt(text, 10, 64)
	case "boolean":
		if value = text == "true"; text != "true" && text != "false" {
			err = errors.New("it is neither true nor false")
		}
	case "int-or-string":
		if n, nerr := strconv.ParseInt(text, 10, 64); nerr == nil {
			value = n
		} else {
			value = text
		}
	default:
		return s.literalJSON(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid %s", text, s.Type)
	}
	return json.Marshal(value)
}

func (s *Schema) literalJSON(text string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", text, err)
	}
	if s.Type == "number" {
		if _, err := strconv.ParseFloat(b.String(), 64); err != nil {
			return nil, fmt.Errorf("%q is not a number", text)
		}
	}
	return b.Bytes(), nil
}

// markLiteral turns the JSON of a marker into JSON of the schema's type. A marker does not
// know the type: the text of a scalar may stand in quotes, and an empty list in braces.
func (s *Schema) markLiteral(text string) (json.RawMessage, error) {
	var word string
	quoted := json.Unmarshal([]byte(text), &word) == nil && text != "null"
	switch kind := s.typeText(); {
	case kind == "array" && text == "{}":
		return json.RawMessage("[]"), nil
	case kind == "array", kind == "object", kind == "map", kind == anyText, kind == "int-or-string" && quoted:
		return json.RawMessage(text), nil
	case quoted:
		text = word
	}
	return s.literal(text)
}

// setEnum reads the values of an enum: values with bars between them, or a JSON array. The
// JSON array of a marker has the texts of the values.
func (s *Schema) setEnum(d directive) error {
	if err := s.onlyFor("string", "integer", "number", "boolean", "int-or-string"); err != nil {
		return err
	}
	var values []json.RawMessage
	var parts []string
	switch {
	case d.mark != nil && json.Unmarshal([]byte(d.value), &parts) == nil:
	case strings.HasPrefix(d.value, "["):
		if err := json.Unmarshal([]byte(d.value), &values); err != nil {
			return fmt.Errorf("%q is not a JSON array: %w", d.value, err)
		}
	case strings.Contains(d.value, ";"):
		return errors.New("separate its values with bars, as in enum=a|b: " +
			"a value with a semicolon is written in a JSON array")
	default:
		parts = strings.Split(d.value, "|")
	}
	for _, part := range parts {
		value, err := s.literal(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		values = append(values, value)
	}
	for i, v := range values {
		if slices.ContainsFunc(values[:i], func(o json.RawMessage) bool { return sameJSON(o, v) }) {
			return fmt.Errorf("%s is given twice", v)
		}
	}
	s.Enum = values
	return nil
}
