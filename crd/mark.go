package crd

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// mark is a marker in a comment, such as +kubebuilder:validation:Minimum=0.
type mark struct {
	file string
	line int
	// text is the marker without its plus sign.
	text string
}

func (m mark) String() string { return fmt.Sprintf("%s:%d: +%s", path.Base(m.file), m.line, m.text) }

// appendMark appends the marker in a one-line comment, if the comment is a marker.
func appendMark(marks []mark, file string, line int, comment string) []mark {
	body, ok := strings.CutPrefix(comment, "//")
	if !ok {
		return marks
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(body), "+")
	if !ok || text == "" || text[0] == ' ' {
		return marks
	}
	return append(marks, mark{file, line, text})
}

// name returns the marker's name and the text after the first equals sign.
func (m mark) name() (name, value string, given bool) {
	text := m.text
	if strings.HasPrefix(text, "k8s:") {
		text, _, _ = strings.Cut(text, "#") // Kubernetes' own markers may have a comment
	}
	name, value, given = strings.Cut(text, "=")
	// A colon may stand before the sign if the value begins with a brace.
	return strings.TrimSuffix(strings.TrimSpace(name), ":"), strings.TrimSpace(value), given
}

// argument is one of the arguments of a marker.
type argument struct {
	name string
	// raw is the unchanged text of the value, for arguments that are lists.
	raw string
	// value is the value without quotes.
	value string
}

// arguments splits the arguments of a marker: name=value,name=value. A value may stand in
// " or ` quotes.
func arguments(text string) ([]argument, error) {
	var list []argument
	for rest := text; strings.TrimSpace(rest) != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=value", rest)
		}
		raw, after, err := cutMarkValue(after, ",")
		if err != nil {
			return nil, err
		}
		a := argument{name: strings.TrimSpace(name), raw: raw, value: raw}
		if value, err := unquoted(raw); err == nil {
			a.value = value
		}
		list = append(list, a)
		rest = after
	}
	return list, nil
}

// cutMarkValue cuts a value off a text at the first separator. It does not cut inside
// quotes and braces.
func cutMarkValue(text, separators string) (value, rest string, err error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '`':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return "", "", fmt.Errorf("%s: the closing quote is missing", text[i:])
			}
			i += len(quoted) - 1
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth == 0 && strings.IndexByte(separators, c) >= 0:
			return strings.TrimSpace(text[:i]), text[i+1:], nil
		}
	}
	return strings.TrimSpace(text), "", nil
}

// markList splits a list: a;b or {a,b}.
func markList(text string) ([]string, error) {
	separators := ";"
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); !ok {
			return nil, errors.New("the closing } is missing")
		}
		text, separators = inner, ",;"
	}
	var list []string
	for rest := text; ; {
		raw, after, err := cutMarkValue(rest, separators)
		if err != nil {
			return nil, err
		}
		value, err := unquoted(raw)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if strings.TrimSpace(after) == "" {
			return list, nil
		}
		rest = after
	}
}

// unquoted returns a value without its quotes, if it is quoted.
func unquoted(text string) (string, error) {
	if text == "" || text[0] != '"' && text[0] != '`' {
		return text, nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: the closing quote is missing", text)
	case quoted != text:
		return "", fmt.Errorf("%q is not expected after %s", text[len(quoted):], quoted)
	}
	return strconv.Unquote(quoted)
}
