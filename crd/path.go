package crd

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/crd/internal/nearest"
)

// jsonPathStep returns the JSONPath step to a field.
func jsonPathStep(name string) string {
	return "." + strings.ReplaceAll(name, ".", `\.`)
}

// find follows a JSONPath of a kubectl column through a schema. If the path leads into
// metadata or into values of any kind, find returns the schema of any value.
func find(s *Schema, path string) (*Schema, error) {
	if path == "" {
		return nil, errors.New("the JSONPath is empty")
	}
	for rest := path; rest != ""; {
		step, after, err := cutStep(rest)
		if err != nil {
			return nil, fmt.Errorf("JSONPath %s: %w", path, err)
		}
		walked := path[:len(path)-len(rest)]
		if walked == "" && step.name == "metadata" && s.Properties["metadata"] == nil {
			return anyValue(), nil // the server knows its schema
		}
		if s, err = follow(s, step); err != nil {
			return nil, fmt.Errorf("JSONPath %s: after %q: %w", path, walked, err)
		}
		rest = after
	}
	return s, nil
}

// pathStep is a name, or the text between brackets.
type pathStep struct {
	name  string
	index string
}

// cutStep cuts the first step off a JSONPath.
func cutStep(path string) (step pathStep, rest string, err error) {
	switch path[0] {
	case '.':
		var b strings.Builder
		for i := 1; i < len(path); i++ {
			switch c := path[i]; {
			case c == '\\' && i+1 < len(path):
				i++
				b.WriteByte(path[i])
				continue
			case c == '.' || c == '[':
				rest = path[i:]
			case strings.IndexByte("{}()]'\" \t", c) >= 0:
				return step, "", fmt.Errorf("%q is not expected", c)
			default:
				b.WriteByte(c)
				continue
			}
			break
		}
		if b.Len() == 0 {
			return step, "", errors.New("a name is missing after a dot")
		}
		return pathStep{name: b.String()}, rest, nil
	case '[':
		end, err := closing(path)
		if err != nil {
			return step, "", err
		}
		inside := strings.TrimSpace(path[1:end])
		if n := len(inside); n > 2 && strings.IndexByte(`'"`, inside[0]) >= 0 && inside[n-1] == inside[0] {
			return pathStep{name: inside[1 : n-1]}, path[end+1:], nil
		}
		if !indexText.MatchString(inside) && !filterText.MatchString(inside) {
			return step, "", fmt.Errorf("[%s] is neither an index, a range nor a filter", inside)
		}
		return pathStep{index: inside}, path[end+1:], nil
	}
	return step, "", fmt.Errorf("%q must begin with a dot", path)
}

var (
	indexText  = regexp.MustCompile(`^(\*|-?\d+(,-?\d+)*|(-?\d+)?:(-?\d+)?(:-?\d+)?)$`)
	filterText = regexp.MustCompile(`^\?\(\s*@[^()]+\)$`)
)

// closing returns the position of the bracket that closes the first one of a path.
func closing(path string) (int, error) {
	quote := byte(0)
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case c == ']':
			return i, nil
		}
	}
	return 0, errors.New("the closing ] is missing")
}

// follow returns the schema one step further.
func follow(s *Schema, step pathStep) (*Schema, error) {
	if step.index != "" {
		switch {
		case s.Items != nil:
			return s.Items, nil
		case s.values() != nil:
			return s.values(), nil
		case s.Type == "" || s.PreserveUnknownFields:
			return anyValue(), nil
		}
		return nil, fmt.Errorf("%s has no [%s]", s.typeText(), step.index)
	}
	if p := s.Properties[step.name]; p != nil {
		return p, nil
	}
	switch {
	case s.values() != nil:
		return s.values(), nil
	case s.PreserveUnknownFields:
		return anyValue(), nil
	case len(s.Properties) == 0:
		return nil, fmt.Errorf("%s has no field %s", s.typeText(), step.name)
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("there is no field %s%s", step.name, nearest.DidYouMean(step.name, names))
}
