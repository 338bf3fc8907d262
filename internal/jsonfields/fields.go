// Package jsonfields says which members encoding/json makes of the fields of a
// struct, and which types it can write and then read back.
//
// [Of] is the one place that knows the rules for names, embedding and shadowing.
// [Check] refuses a type before anything of it is written: what one reader or
// writer of a type would do otherwise than encoding/json is found there.
package jsonfields

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A Field is a field of a struct, or of a struct that is embedded in it, that is
// a member of the JSON object.
type Field struct {
	reflect.StructField
	// Member is the name in JSON.
	Member string
	// Tagged: the tag gives the name.
	Tagged bool
	// Path leads to the field through embedded structs, as FieldByIndex takes
	// it.
	Path []int
	// Owner is the struct that declares the field.
	Owner reflect.Type
	// Outer are the embedded fields that lead to it.
	Outer []reflect.StructField

	OmitEmpty, OmitZero bool
	// Quoted: the string option is there, and of a type where it counts.
	Quoted bool
}

// Optional reports that the field, or an embedded pointer that leads to it, may
// be left out of the JSON.
func (f Field) Optional() bool {
	return f.OmitEmpty || f.OmitZero || f.ThroughPointer()
}

// ThroughPointer reports that an embedded pointer leads to the field.
func (f Field) ThroughPointer() bool {
	return slices.ContainsFunc(f.Outer, func(o reflect.StructField) bool { return o.Type.Kind() == reflect.Pointer })
}

// level is a struct whose fields are looked at: the root, or an embedded one.
type level struct {
	typ   reflect.Type
	path  []int
	outer []reflect.StructField
}

// Of returns the members of struct type t in the order in which encoding/json
// writes them. It goes breadth first through embedded structs that have no name
// of their own. Of the fields of one name the shallowest wins, among these one
// with a tag. If that does not decide, there is no such member.
func Of(t reflect.Type) []Field {
	fields, _ := collect(t)
	return dominant(fields)
}

// Structs returns the struct types whose fields make up t's members: t itself,
// then those that it embeds, each once.
func Structs(t reflect.Type) []reflect.Type {
	_, structs := collect(t)
	return structs
}

func collect(t reflect.Type) (found []*Field, structs []reflect.Type) {
	var (
		current         []level
		next            = []level{{typ: t}}
		count, upcoming map[reflect.Type]int
		visited         = map[reflect.Type]bool{}
	)
	for len(next) > 0 {
		current, next = next, nil
		count, upcoming = upcoming, map[reflect.Type]int{}
		for _, l := range current {
			if visited[l.typ] {
				continue
			}
			visited[l.typ] = true
			structs = append(structs, l.typ)
			for i := range l.typ.NumField() {
				f, embedded, ok := fieldOf(l.typ.Field(i))
				if !ok {
					continue
				}
				f.Owner, f.Outer, f.Path = l.typ, l.outer, append(slices.Clone(l.path), i)
				if embedded != nil {
					if upcoming[embedded]++; upcoming[embedded] == 1 {
						next = append(next, level{embedded, f.Path, append(slices.Clone(l.outer), f.StructField)})
					}
					continue
				}
				found = append(found, &f)
				if count[l.typ] > 1 {
					found = append(found, &f) // embedded twice at this level: it hides itself
				}
			}
		}
	}
	return found, structs
}

// Embedded returns the struct type whose fields a field adds to those of the
// struct around it, or nil if the field is a member of its own, or none.
func Embedded(sf reflect.StructField) reflect.Type {
	_, embedded, _ := fieldOf(sf)
	return embedded
}

// fieldOf reads one struct field. It returns the struct type to look into if the
// field is embedded, and false if the field is no part of the JSON.
func fieldOf(sf reflect.StructField) (f Field, embedded reflect.Type, ok bool) {
	base := indirect(sf.Type)
	if !sf.IsExported() && (!sf.Anonymous || base.Kind() != reflect.Struct) {
		return f, nil, false
	}
	tag := sf.Tag.Get("json")
	if tag == "-" {
		return f, nil, false
	}
	name, rest, _ := strings.Cut(tag, ",")
	if !validName(name) {
		name = ""
	}
	f = Field{StructField: sf, Member: name, Tagged: name != ""}
	if name == "" {
		if sf.Anonymous && base.Kind() == reflect.Struct {
			return f, base, true
		}
		f.Member = sf.Name
	}
	for option := range strings.SplitSeq(rest, ",") {
		switch option {
		case "omitempty":
			f.OmitEmpty = true
		case "omitzero":
			f.OmitZero = true
		case "string":
			f.Quoted = quotable(base.Kind())
		}
	}
	return f, nil, true
}

// indirect returns the type that a pointer without a name leads to.
func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		return t.Elem()
	}
	return t
}

func quotable(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
}

// validName reports whether encoding/json takes a tag's name as such.
func validName(name string) bool {
	if name == "" {
		return false
	}
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}

// dominant leaves of the fields of each name the one that wins, if any.
func dominant(fields []*Field) []Field {
	slices.SortStableFunc(fields, func(a, b *Field) int {
		return cmp.Or(
			strings.Compare(a.Member, b.Member),
			cmp.Compare(len(a.Path), len(b.Path)),
			taggedFirst(a, b),
		)
	})
	kept := fields[:0]
	for i := 0; i < len(fields); {
		j := i + 1
		for j < len(fields) && fields[j].Member == fields[i].Member {
			j++
		}
		tie := j > i+1 && len(fields[i].Path) == len(fields[i+1].Path) && fields[i].Tagged == fields[i+1].Tagged
		if !tie {
			kept = append(kept, fields[i])
		}
		i = j
	}
	slices.SortFunc(kept, func(a, b *Field) int { return slices.Compare(a.Path, b.Path) })
	out := make([]Field, len(kept))
	for i, f := range kept {
		out[i] = *f
	}
	return out
}

func taggedFirst(a, b *Field) int {
	switch {
	case a.Tagged == b.Tagged:
		return 0
	case a.Tagged:
		return -1
	}
	return 1
}

// Value returns the field in a struct, or false if an embedded pointer on the
// way to it is nil.
func (f Field) Value(v reflect.Value) (reflect.Value, bool) {
	for i, x := range f.Path {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, true
}
