package crd

import (
	"errors"
	"slices"
)

// whole applies the tag of a blank field to the schema of its struct.
func (b *builder) whole(s *Schema, m member, at place, root bool) {
	tag := m.Tag.Get(tagKey)
	directives, err := parseTag(tag)
	if err != nil {
		b.errs = append(b.errs, at.error(tagKey, tag, err))
		return
	}
	a := application{b: b, at: at, tag: tag, member: m, schema: s, rules: map[*Schema]int{}}
	allowed := []string{"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf",
		"minProperties", "maxProperties", "mapType", "preserveUnknownFields", "description", "deprecated"}
	for _, d := range directives {
		err := errors.New("it does not apply to a struct as a whole")
		switch {
		case len(d.path) > 0 || !slices.Contains(allowed, d.key):
		case d.key == "deprecated" && root:
			b.deprecated, err = &d.value, nil
		default:
			err = a.one(d, s)
		}
		if err != nil {
			a.failed(d, err)
		}
	}
	if err := consistent(s); err != nil {
		a.fail(err)
	}
}
