package crd

import (
	"iter"
	"reflect"
)

// SwaggerDoc returns what the types of k8s.io/api and its like say of
// themselves with their method of that name. Give it as [Options].Describe to
// have it in the schema. Types that are a world of their own, with more than
// some fifty fields, such as PodSpec, are left undescribed: their descriptions
// would make most of the definition.
//
// It is not the default because a program that calls it contains the texts of
// all API types that it links: some 300 KB with those of core/v1 and apps/v1.
func SwaggerDoc(t reflect.Type) map[string]string {
	if d, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// worldSize is how many fields the descriptions of a type are kept for.
const worldSize = 50

// typeDescription returns what is known of a named type as such.
func (b *builder) typeDescription(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() == "" {
		return ""
	}
	if doc := b.docs[docName(t)]; doc != "" {
		return doc
	}
	if b.describe != nil {
		return b.describe(t)[""]
	}
	return ""
}

// description returns what is known of a field: from its own comment, else from
// its type.
func (b *builder) description(m member, at place) string {
	if doc := b.docs[at.typ+"."+at.fields]; doc != "" {
		return doc
	}
	if b.describe != nil && m.owner.Name() != "" {
		if doc := b.describe(m.owner)[m.name]; doc != "" {
			return doc
		}
	}
	return b.typeDescription(m.Type)
}

// walk yields a schema and all in it.
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

// properties counts the fields of a schema and all in it.
func (s *Schema) properties() int {
	n := 0
	for c := range s.walk() {
		n += len(c.Properties)
	}
	return n
}

// undescribe drops the descriptions of a schema and all in it.
func (s *Schema) undescribe() {
	for c := range s.walk() {
		c.Description = ""
	}
}
