package source

import (
	"reflect"
	"testing"
	"testing/fstest"
)

// The source tells which type a name stands for.
func TestDeclarations(t *testing.T) {
	found, err := Read(fstest.MapFS{"a.go": {Data: []byte(`package a
import "example.com/one"
import ( two "example.com/other/v2"; . "example.com/dot"; _ "embed" )
import (
	"example.com/three/v3"
	api "example.com/api/v1"
)
type A B
type B = *one.C
type D[T any, U interface{ ~[]T }] map[string][]two.E
type F [N]three.G
type N []O
type H [2]struct{ I api.J }
type K, broken
type L api.M
`)}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]declaration{
		"a.A": {name: "B", packages: []string{"a"}},
		"a.B": {name: "C", packages: []string{"one"}, path: "example.com/one", pointer: true, alias: true},
		"a.D": {name: "E", packages: []string{"v2", "other"}, path: "example.com/other/v2",
			steps: []string{Values, Items}},
		"a.F":   {name: "G", packages: []string{"three"}, path: "example.com/three/v3", steps: []string{Items}},
		"a.H":   {},
		"a.N":   {name: "O", packages: []string{"a"}, steps: []string{Items}},
		"a.H.I": {name: "J", packages: []string{"v1", "api"}, path: "example.com/api/v1"},
		"a.L":   {name: "M", packages: []string{"v1", "api"}, path: "example.com/api/v1"},
	} {
		want.dir = "."
		if got, ok := found.types[name]; !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
