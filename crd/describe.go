package crd

import (
	"iter"
	"reflect"
)

// SwaggerDoc returns descriptions of the fields of a type. It calls the type's own method
// SwaggerDoc, which the types of k8s.io/api and similar packages have. Set
// [Options].Describe to this function to have the descriptions in the schema. Types with
// more than about fifty fields, such as PodSpec, get no description, because their
// descriptions would make up most of the definition.
//
// It is not the default because a program that calls it contains the texts of all API
// types that it links: some 300 KB with those of core/v1 and apps/v1.
func SwaggerDoc(t reflect.Type) map[string]string {
	if d, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// worldSize is the largest number of fields of a type that keeps its descriptions.
const worldSize = 50

// typeDescription returns the description of a named type.
func (b *builder) typeDescription(t reflect.Type) string {
	for {
		for _, name := range b.source.Names(docName(t)) {
			if doc := b.source.Doc(name); doc != "" && t.Name() != "" {
				return doc
			}
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	if t.Name() == "" {
		return ""
	}
	if b.describe != nil {
		return b.describe(t)[""]
	}
	return ""
}

// description returns the description of a field: its own comment, or else the
// description of its type.
func (b *builder) description(m member, at place) string {
	if doc := b.source.Doc(at.typ + "." + at.fields); doc != "" {
		return doc
	}
	if b.describe != nil && m.owner.Name() != "" {
		if doc := b.describe(m.owner)[m.name]; doc != "" {
			return doc
		}
	}
	return b.typeDescription(m.Type)
}

// walk yields a schema and every schema in it.
func (s *Schema) walk() iter.Seq[*Schema] {
	return func(yield func(*Schema) bool) { s.each(yield) }
}

func (s *Schema) each(yield func(*Schema) bool) bool {
	if s == nil {
		return true
	}
	if !yield(s) || !s.Items.each(yield) || !s.values().each(yield) {
		return false
	}
	for _, p := range s.Properties {
		if !p.each(yield) {
			return false
		}
	}
	return true
}

// properties counts the fields of a schema and of every schema in it.
func (s *Schema) properties() int {
	n := 0
	for c := range s.walk() {
		n += len(c.Properties)
	}
	return n
}

// undescribe removes the descriptions of a schema and of every schema in it.
func (s *Schema) undescribe() {
	for c := range s.walk() {
		c.Description = ""
	}
}
