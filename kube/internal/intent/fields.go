package intent

import (
	"reflect"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// field is a field of a struct, or of one embedded in it, that is a member of
// the struct's JSON object.
type field struct{ jsonfields.Field }

// fieldsOf returns the members of struct type t in the order of its fields.
func fieldsOf(t reflect.Type) []field {
	members := jsonfields.Of(t)
	fields := make([]field, len(members))
	for i, m := range members {
		fields[i] = field{m}
	}
	return fields
}
