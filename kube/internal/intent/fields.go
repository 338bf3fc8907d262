package intent

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a field of a struct, or of one embedded in it, that is a member of
// the struct's JSON object.
type field struct {
	name      string
	tagged    bool
	index     []int // path of field indices, through embedded structs
	typ       reflect.Type
	omitEmpty bool
	omitZero  bool
	quoted    bool // the string option, where it applies
}

// fieldsOf returns the members of struct type t in the order of its fields.
// The rules are those of encoding/json: breadth first through embedded structs
// without a name of their own; of fields of one name the shallowest wins,
// among these one with a tag, and if that does not decide, none.
func fieldsOf(t reflect.Type) []field {
	type level struct {
		typ   reflect.Type
		index []int
	}
	var (
		found           []field
		current         []level
		next            = []level{{typ: t}}
		count, upcoming map[reflect.Type]int
		visited         = map[reflect.Type]bool{}
	)
	for len(next) > 0 {
		current, next = next, current[:0:0]
		count, upcoming = upcoming, map[reflect.Type]int{}
		for _, l := range current {
			if visited[l.typ] {
				continue
			}
			visited[l.typ] = true
			for i := range l.typ.NumField() {
				f, embedded, ok := fieldOf(l.typ.Field(i))
				if !ok {
					continue
				}
				f.index = append(slices.Clone(l.index), i)
				if embedded != nil {
					if upcoming[embedded]++; upcoming[embedded] == 1 {
						next = append(next, level{embedded, f.index})
					}
					continue
				}
				found = append(found, f)
				if count[l.typ] > 1 {
					found = append(found, f) // embedded twice at this level: it hides itself
				}
			}
		}
	}
	return dominant(found)
}

// fieldOf reads one struct field. It returns the struct type to look into if
// the field is embedded, and false if it is no member at all.
func fieldOf(sf reflect.StructField) (f field, embedded reflect.Type, ok bool) {
	base := sf.Type
	if base.Kind() == reflect.Pointer && base.Name() == "" {
		base = base.Elem()
	}
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
	f = field{name: name, tagged: name != "", typ: sf.Type}
	if name == "" {
		if sf.Anonymous && base.Kind() == reflect.Struct {
			return f, base, true
		}
		f.name = sf.Name
	}
	for option := range strings.SplitSeq(rest, ",") {
		switch option {
		case "omitempty":
			f.omitEmpty = true
		case "omitzero":
			f.omitZero = true
		case "string":
			f.quoted = quotable(base.Kind())
		}
	}
	return f, nil, true
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
func dominant(fields []field) []field {
	slices.SortFunc(fields, func(a, b field) int {
		tags := 0
		if a.tagged != b.tagged {
			tags = 1
			if a.tagged {
				tags = -1
			}
		}
		return cmp.Or(
			strings.Compare(a.name, b.name),
			cmp.Compare(len(a.index), len(b.index)),
			tags,
			slices.Compare(a.index, b.index),
		)
	})
	out := fields[:0]
	for i := 0; i < len(fields); {
		j := i + 1
		for j < len(fields) && fields[j].name == fields[i].name {
			j++
		}
		tie := j > i+1 && len(fields[i].index) == len(fields[i+1].index) && fields[i].tagged == fields[i+1].tagged
		if !tie {
			out = append(out, fields[i])
		}
		i = j
	}
	slices.SortFunc(out, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return out
}
