package crd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// literalOf turns the text of a value into JSON of the schema's type. The text of a list,
// map or struct is already JSON.
func literalOf(s *Schema, text string) (json.RawMessage, error) {
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
		return literalJSON(s, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a valid %s", text, s.Type)
	}
	return json.Marshal(value)
}

func literalJSON(s *Schema, text string) (json.RawMessage, error) {
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
func markLiteral(s *Schema, text string) (json.RawMessage, error) {
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
	return literalOf(s, text)
}
