package crd

import "reflect"

// typeDescription returns the description of a named type.
func (b *builder) typeDescription(t reflect.Type) string {
	for {
		for _, name := range b.source.Names(b.docName(t)) {
			if doc := b.source.Doc(name); doc != "" && t.Name() != "" {
				return doc
			}
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	return ""
}

// description returns the description of a field: its own comment, or else the
// description of its type.
func (b *builder) description(m member, at place) string {
	if doc := b.source.Doc(at.typ + "." + at.fields); doc != "" {
		return doc
	}
	return b.typeDescription(m.Type)
}
