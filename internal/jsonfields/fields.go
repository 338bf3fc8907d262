// Package jsonfields returns the members that encoding/json makes of the fields of a
// struct. It also checks which types encoding/json can write and read back.
//
// [Of] is the one place that knows the rules for names, embedding and shadowing. [Check]
// refuses a type before a value of it is written. It finds each type that a reader or
// writer would handle differently from encoding/json. [ReadOptions] and [Encode] are how objects
// are read and written.
package jsonfields

import (
	"cmp"
	"reflect"
	"slices"
	"sort"
	"strings"
	"unicode"
)

// A Field is a field that is a member of the JSON object of a struct. The struct or a
// struct embedded in it declares the field.
type Field struct {
	reflect.StructField
	// Member is the name in JSON.
	Member string
	// Tagged is true if the tag gives the name.
	Tagged bool
	// Path leads to the field through embedded structs, in the form of FieldByIndex.
	Path []int
	// Owner is the struct that declares the field.
	Owner reflect.Type
	// Outer are the embedded fields that lead to it.
	Outer []reflect.StructField

	OmitEmpty, OmitZero bool
	// Quoted is true if the tag has the option string and the type supports it.
	Quoted bool
}

// Optional reports whether encoding/json may leave the field out of the JSON. It also may
// if an embedded pointer leads to the field.
func (f Field) Optional() bool {
	return f.OmitEmpty || f.OmitZero || f.ThroughPointer()
}

// ThroughPointer reports whether an embedded pointer leads to the field.
func (f Field) ThroughPointer() bool {
	return slices.ContainsFunc(f.Outer, func(o reflect.StructField) bool { return o.Type.Kind() == reflect.Pointer })
}

// level is a struct whose fields are being read: the root, or an embedded one.
type level struct {
	typ   reflect.Type
	path  []int
	outer []reflect.StructField
}

// Of returns the members of struct type t in the order in which encoding/json writes
// them. It searches breadth first through embedded structs that have no name of their
// own. Of the fields of one name the shallowest wins. Of several shallowest fields the
// one with a tag wins. If this rule does not decide, no such member exists.
func Of(t reflect.Type) []Field {
	fields, _ := collect(t)
	kept, _ := dominant(fields)
	out := make([]Field, len(kept))
	for i, f := range kept {
		out[i] = *f
	}
	return out
}

// Tied returns the fields of a struct type that are no members because of one another: embedded
// structs have them under one name.
func Tied(t reflect.Type) []*Field {
	fields, _ := collect(t)
	_, tied := dominant(fields)
	return tied
}

// Structs returns the struct types whose fields are t's members: t itself, then the
// structs that it embeds, each once.
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
					found = append(found, &f) // embedded twice at this level: the two hide each other
				}
			}
		}
	}
	return found, structs
}

// Embedded returns the struct type whose fields a field adds to those of the struct
// around it. It returns nil if the field is a member of its own, or no member.
func Embedded(sf reflect.StructField) reflect.Type {
	_, embedded, _ := fieldOf(sf)
	return embedded
}

// fieldOf reads one struct field. If the field is embedded, it returns the struct type to
// search. It returns false if the field is no part of the JSON.
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

// indirect returns the type that an unnamed pointer type points to.
func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer && t.Name() == "" {
		return t.Elem()
	}
	return t
}

func quotable(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
}

// validName reports whether encoding/json accepts a tag's name.
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

// dominant returns the winning field of each name, if there is one, and the fields of the names that
// have none.
func dominant(fields []*Field) (members, tied []*Field) {
	sort.SliceStable(fields, func(i, j int) bool {
		a, b := fields[i], fields[j]
		return cmp.Or(
			strings.Compare(a.Member, b.Member),
			cmp.Compare(len(a.Path), len(b.Path)),
			taggedFirst(a, b),
		) < 0
	})
	for i := 0; i < len(fields); {
		j := i + 1
		for j < len(fields) && fields[j].Member == fields[i].Member {
			j++
		}
		if j > i+1 && len(fields[i].Path) == len(fields[i+1].Path) && fields[i].Tagged == fields[i+1].Tagged {
			tied = append(tied, fields[i], fields[i+1])
		} else {
			members = append(members, fields[i])
		}
		i = j
	}
	slices.SortFunc(members, func(a, b *Field) int { return slices.Compare(a.Path, b.Path) })
	return members, tied
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

// Value returns the field's value in a struct. It returns false if an embedded pointer on
// the way to it is nil.
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
