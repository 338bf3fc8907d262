package crd

import (
	"encoding/json"
	"reflect"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// covered returns the embedded field of a struct whose method encodes the struct, so that values of the
// struct's other fields are lost. It returns "" if there is none.
func covered(t reflect.Type) (embedded string) {
	defer func() {
		if recover() != nil {
			embedded = "" // a method panics: nothing is known
		}
	}()
	if t.Kind() != reflect.Struct || !jsonfields.Encodes(t) || isKubernetes(t.PkgPath()) {
		return ""
	}
	all := reflect.New(t)
	part, others := all, false
	for i := range t.NumField() {
		f, v := t.Field(i), all.Elem().Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if !f.IsExported() {
			v = reflect.NewAt(f.Type, v.Addr().UnsafePointer()).Elem() // which can be set
		}
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(f.Type.Elem()))
			v = v.Elem()
		}
		if f.Anonymous && jsonfields.Encodes(v.Type()) {
			embedded, part = f.Name, v.Addr()
			continue
		}
		if f.Tag.Get("json") == "-" {
			continue
		}
		others = true
		switch { // a method of the struct's own may leave out what is zero
		case v.Kind() == reflect.String:
			v.SetString("1")
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.CanInt():
			v.SetInt(7)
		case v.CanUint():
			v.SetUint(7)
		case v.CanFloat():
			v.SetFloat(7)
		}
	}
	if others && embedded != "" {
		a, errOfAll := json.Marshal(all.Interface())
		b, errOfPart := json.Marshal(part.Interface())
		if errOfAll == nil && errOfPart == nil && string(a) == string(b) {
			return embedded
		}
	}
	return ""
}
