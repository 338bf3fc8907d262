package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// markValue reads the value of a marker that allows any value: JSON, {a, b} for a list,
// {a: b} for a map, and words without quotes for a string.
type markValue struct{ rest string }

// parseMarkValue returns the JSON of a marker's value.
func parseMarkValue(text string) (json.RawMessage, error) {
	r := markValue{text}
	v, err := r.value()
	if err == nil && r.skip() != "" {
		err = fmt.Errorf("%q is not expected", r.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return json.Marshal(v)
}

// skip skips white space and returns the rest.
func (r *markValue) skip() string {
	r.rest = strings.TrimLeft(r.rest, " \t")
	return r.rest
}

func (r *markValue) value() (any, error) {
	switch text := r.skip(); {
	case text == "":
		return nil, errors.New("a value is missing")
	case text[0] == '{' || text[0] == '[':
		return r.braces(map[byte]byte{'{': '}', '[': ']'}[text[0]])
	case text[0] == '"' || text[0] == '`':
		return r.quoted()
	}
	word := r.word(",;}]")
	if word == "" {
		return nil, errors.New("a value is missing")
	}
	var scalar any
	d := json.NewDecoder(strings.NewReader(word))
	d.UseNumber()
	if err := d.Decode(&scalar); err == nil && d.InputOffset() == int64(len(word)) {
		return scalar, nil
	}
	return word, nil
}

func (r *markValue) quoted() (string, error) {
	quoted, err := strconv.QuotedPrefix(r.rest)
	if err != nil {
		return "", errors.New("the closing quote is missing")
	}
	r.rest = r.rest[len(quoted):]
	return strconv.Unquote(quoted)
}

// word cuts off the text before the first of some characters.
func (r *markValue) word(ends string) string {
	end := strings.IndexAny(r.rest, ends)
	if end < 0 {
		end = len(r.rest)
	}
	word := strings.TrimSpace(r.rest[:end])
	r.rest = r.rest[end:]
	return word
}

// key reads a name and the colon after it. If there is no colon, it reads nothing.
func (r *markValue) key() (name string, ok bool) {
	before := r.rest
	if text := r.skip(); text != "" && (text[0] == '"' || text[0] == '`') {
		name, _ = r.quoted()
	} else {
		name = r.word(":,;{}[]")
	}
	if strings.HasPrefix(r.skip(), ":") {
		r.rest = r.rest[1:]
		return name, true
	}
	r.rest = before
	return "", false
}

// braces reads a list, or a map if a colon follows its first word.
func (r *markValue) braces(closing byte) (any, error) {
	r.rest = r.rest[1:]
	entries, list := map[string]any{}, []any{}
	for first := true; ; first = false {
		text := r.skip()
		switch {
		case text == "":
			return nil, fmt.Errorf("the closing %c is missing", closing)
		case text[0] == closing:
			r.rest = text[1:]
			if len(list) > 0 || closing == ']' {
				return list, nil
			}
			return entries, nil
		case !first && text[0] != ',' && text[0] != ';':
			return nil, fmt.Errorf("a comma is missing before %q", text)
		case !first:
			r.rest = text[1:]
		}
		name, named := r.key()
		if named != (len(list) == 0 && (first || len(entries) > 0)) && (named || len(entries) > 0) {
			return nil, errors.New("it is a list in one part and a map in another")
		}
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		if named {
			entries[name] = v
		} else {
			list = append(list, v)
		}
	}
}
