package owned

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Set returns the fields as nested sets, as encoding/json decodes the format FieldsV1.
func (f *Fields) Set() map[string]any { return setOf(f.root) }

func setOf(elements []element) map[string]any {
	set := make(map[string]any, len(elements))
	for i := range elements {
		set[elements[i].path()] = setOf(elements[i].within)
	}
	return set
}

// path returns an element of a path as FieldsV1 names it.
func (e *element) path() string {
	switch e.kind {
	case itself:
		return string(itself)
	case byKey:
		members := make([]string, len(e.key))
		for i, m := range e.key {
			name, _ := jsontext.AppendQuote(nil, m.name) // it was read from JSON
			members[i] = string(name) + ":" + m.value
		}
		return "k:{" + strings.Join(members, ",") + "}"
	case byIndex:
		return "i:" + strconv.Itoa(e.index)
	}
	return string(e.kind) + ":" + e.name
}
