package kubebuilder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cut cuts a value off a text at the first separator. It does not cut inside quotes and braces.
func cut(text, separators string) (value, rest string, found bool, err error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '`':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return "", "", false, fmt.Errorf("%s: the closing quote is missing", text[i:])
			}
			i += len(quoted) - 1
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth == 0 && strings.IndexByte(separators, c) >= 0:
			return strings.TrimSpace(text[:i]), text[i+1:], true, nil
		}
	}
	return strings.TrimSpace(text), "", false, nil
}

// split splits a text at the separators. A last part without text is left out.
func split(text, separators string) (parts []string, err error) {
	for more := true; more && strings.TrimSpace(text) != ""; {
		var part string
		if part, text, more, err = cut(text, separators); err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// list splits a list: a;b or {a,b}.
func list(text string) ([]string, error) {
	inner, braced := strings.CutPrefix(text, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	separators := ";"
	if braced && closed {
		text, separators = inner, ",;"
	}
	parts, err := split(text, separators)
	for i, part := range parts {
		if part == "" || part[0] != '"' && part[0] != '`' && strings.ContainsAny(part, ",{}[]") {
			return nil, fmt.Errorf("%q is no value of a list: values with commas and brackets have quotes", part)
		}
		if err == nil {
			parts[i], err = unquoted(part)
		}
	}
	return parts, err
}

// enum returns the values of an enum as a tag needs them: with bars or as a JSON array.
func enum(text string) (string, error) {
	values, err := list(text)
	joined := strings.Join(values, "|")
	special := func(v string) bool { return strings.ContainsAny(v, "|;[") || strings.TrimSpace(v) != v }
	if err != nil || joined != "" && !slices.ContainsFunc(values, special) {
		return joined, err
	}
	data, err := json.Marshal(values)
	return string(data), err
}

// unquoted returns a value without its quotes, if it is quoted.
func unquoted(text string) (string, error) {
	if text == "" || text[0] != '"' && text[0] != '`' {
		return text, nil
	}
	value, err := strconv.Unquote(text)
	if err != nil {
		err = fmt.Errorf("%s: the closing quote is missing, or not at the end", text)
	}
	return value, err
}

// valueJSON returns the JSON of a value of any type: JSON, {a, b} for a list, {a: b} for a map, or words for a string.
func valueJSON(text string) (string, error) {
	v, err := value(text)
	data, wrong := json.Marshal(v)
	return string(data), errors.Join(err, wrong)
}

func value(text string) (any, error) {
	switch {
	case text == "":
		return nil, errors.New("a value is missing")
	case strings.HasPrefix(text, "ref("):
		return nil, errors.New("a reference to a constant cannot be read: write the value")
	case text[0] == '{' || text[0] == '[':
		return braces(text)
	case text[0] == '"' || text[0] == '`':
		return unquoted(text)
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return text, nil
}

// braces reads a list, or a map if a colon follows its first word.
func braces(text string) (any, error) {
	closing := map[byte]string{'{': "}", '[': "]"}[text[0]]
	inner, ok := strings.CutSuffix(text[1:], closing)
	if !ok {
		return nil, fmt.Errorf("%s: the closing %s is missing", text, closing)
	}
	parts, err := split(inner, ",;")
	entries, list := map[string]any{}, []any{}
	for _, part := range parts {
		name, rest, named, wrong := cut(part, ":")
		if named {
			part = strings.TrimSpace(rest)
		}
		v, wrongValue := value(part)
		name, wrongName := unquoted(name)
		if bare, _ := v.(string); bare == part && strings.ContainsAny(part, "{}[]") {
			wrongValue = fmt.Errorf("%q is not expected", part)
		}
		if entries[name] != nil {
			wrongName = fmt.Errorf("%s is given twice", name)
		}
		if err = errors.Join(err, wrong, wrongValue, wrongName); named {
			entries[name] = v
		} else {
			list = append(list, v)
		}
	}
	switch {
	case len(list) > 0 && len(entries) > 0:
		err = errors.New("it is a list in one part and a map in another")
	case len(list) > 0 || closing == "]":
		return list, err
	}
	return entries, err
}
