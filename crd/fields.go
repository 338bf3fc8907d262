package crd

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// member is a member of the JSON object that a struct is encoded as.
type member struct {
	reflect.StructField
	name     string
	optional bool
	quoted   bool         // encoded as a string, by the string option
	owner    reflect.Type // the struct that declares it
	depth    int          // of embedding
	tagged   bool
}

// membersOf returns the members of struct type t in the order of its fields, by
// the rules of encoding/json: of fields of one name the shallowest wins, among
// these one with a tag, and if that does not decide, none. The blank fields of
// t and of the structs it embeds, whose tags speak of the struct, come apart.
func membersOf(t reflect.Type, at place) (members []member, blanks []member, errs []error) {
	c := memberCollector{root: t, at: at}
	c.collect(t, 0, false)
	best := map[string][]member{}
	for _, m := range c.members {
		others := best[m.name]
		switch {
		case len(others) == 0, better(m, others[0]):
			best[m.name] = []member{m}
		case !better(others[0], m):
			best[m.name] = append(others, m)
		}
	}
	for _, m := range c.members {
		if b := best[m.name]; len(b) == 1 && b[0].owner == m.owner && b[0].Name == m.Name && b[0].depth == m.depth {
			members = append(members, m)
		}
	}
	return members, c.blanks, c.errs
}

// better reports that a hides b.
func better(a, b member) bool {
	if a.depth != b.depth {
		return a.depth < b.depth
	}
	return a.tagged && !b.tagged
}

type memberCollector struct {
	root            reflect.Type
	at              place // of root
	members, blanks []member
	errs            []error
	open            []reflect.Type
}

func (c *memberCollector) collect(t reflect.Type, depth int, optional bool) {
	for _, o := range c.open {
		if o == t {
			c.errs = append(c.errs, fmt.Errorf("%s embeds itself", t))
			return
		}
	}
	c.open = append(c.open, t)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" {
			if f.Tag.Get(tagKey) != "" {
				c.blanks = append(c.blanks, member{StructField: f, owner: t, depth: depth})
			}
			continue
		}
		tag := f.Tag.Get("json")
		if tag == "-" {
			c.unused(t, f, "is left out of the JSON")
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		base := f.Type
		if base.Kind() == reflect.Pointer {
			base = base.Elem()
		}
		if f.Anonymous && name == "" && base.Kind() == reflect.Struct {
			c.unused(t, f, "is embedded: tag a blank field `_ struct{}` of the struct itself")
			c.collect(base, depth+1, optional || f.Type.Kind() == reflect.Pointer)
			continue
		}
		if !f.IsExported() {
			c.unused(t, f, "is not exported")
			continue
		}
		m := member{StructField: f, name: name, owner: t, depth: depth, tagged: name != "", optional: optional}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty", "omitzero":
				m.optional = true
			case "string":
				m.quoted = true
			case "inline":
				c.fail(t, f, "json", tag, errors.New("inline is for embedded structs"))
			}
		}
		if name == "" {
			c.fail(t, f, "json", tag, fmt.Errorf("the field has no name in JSON: give it one, as in json:%q", strings.ToLower(f.Name[:1])+f.Name[1:]))
			continue
		}
		c.members = append(c.members, m)
	}
}

// unused is an error for a crd tag where it says nothing.
func (c *memberCollector) unused(t reflect.Type, f reflect.StructField, why string) {
	if tag := f.Tag.Get(tagKey); tag != "" {
		c.fail(t, f, tagKey, tag, errors.New("the field "+why))
	}
}

func (c *memberCollector) fail(t reflect.Type, f reflect.StructField, key, tag string, err error) {
	at := c.at
	if t != c.root {
		at = at.within(t)
	}
	c.errs = append(c.errs, at.field(f.Name).error(key, tag, err))
}
