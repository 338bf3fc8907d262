package crd

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/internal/crdtag"
	"github.com/pintle-go/pintle/internal/jsonfields"
)

// membersOf returns the members of struct type t in the order of its fields. It returns
// the blank fields of t and of the structs that t embeds separately: their tags are about
// the struct.
func (b *builder) membersOf(t reflect.Type, at place) (members []member, blanks []member, errs []error) {
	fail := func(owner reflect.Type, f reflect.StructField, key string, err error) {
		where := at
		if owner != t {
			where = b.within(at, owner)
		}
		errs = append(errs, where.field(f.Name).error(key, f.Tag.Get(key), err))
	}
	for _, f := range jsonfields.Of(t) {
		switch _, options, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case slices.Contains(strings.Split(options, ","), "inline"):
			fail(f.Owner, f.StructField, "json", errors.New("inline is for embedded structs"))
		case !f.Tagged:
			name := strings.ToLower(f.Name[:1]) + f.Name[1:]
			fail(f.Owner, f.StructField, "json", fmt.Errorf("the field has no name in JSON: give it one, as in json:%q", name))
		default:
			members = append(members, member{f.StructField, f.Member, f.Optional() || crdtag.Optional(f.Tag), f.Quoted, f.Owner})
		}
	}
	for _, f := range jsonfields.Tied(t) {
		fail(f.Owner, f.StructField, "json", fmt.Errorf("%s has the name %s in JSON twice, from structs that it embeds, "+
			"so that encoding/json knows neither", t, f.Member))
	}
	for _, owner := range jsonfields.Structs(t) {
		for i := range owner.NumField() {
			f := owner.Field(i)
			tag := f.Tag.Get(tagKey)
			switch {
			case tag == "":
			case f.Name == "_":
				blanks = append(blanks, member{StructField: f, owner: owner})
			default:
				if why := unused(f); why != "" {
					fail(owner, f, tagKey, errors.New("the field "+why))
				}
			}
		}
	}
	return members, blanks, errs
}

// unused returns the reason why a crd tag has no effect at a field, or "".
func unused(f reflect.StructField) string {
	switch {
	case f.Tag.Get("json") == "-":
		return "is left out of the JSON"
	case jsonfields.Embedded(f) != nil:
		return "is embedded: tag a blank field `_ struct{}` of the struct itself"
	case !f.IsExported():
		return "is not exported"
	}
	return ""
}
