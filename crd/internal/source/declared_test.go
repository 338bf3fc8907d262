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
type P (*(Q))
type R[S, T any, _ interface{ U }] struct { S T; U [N](T) }
`)}})
	if err != nil {
		t.Fatal(err)
	}
	unnamed := []string{"example.com/one", "example.com/three/v3"}
	for name, want := range map[string]declaration{
		"a.A":   {name: "B"},
		"a.B":   {name: "C", qualifier: "one", paths: unnamed, qualified: true, pointer: true, alias: true},
		"a.D":   {name: "E", paths: []string{"example.com/other/v2"}, qualified: true, steps: []string{Values, Items}},
		"a.F":   {name: "G", qualifier: "three", paths: unnamed, qualified: true, steps: []string{Items}},
		"a.H":   {},
		"a.N":   {name: "O", steps: []string{Items}},
		"a.H.I": {name: "J", paths: []string{"example.com/api/v1"}, qualified: true},
		"a.L":   {name: "M", paths: []string{"example.com/api/v1"}, qualified: true},
		"a.P":   {name: "Q", pointer: true},
		"a.R":   {},
		"a.R.S": {},
		"a.R.U": {},
	} {
		if want.name != "" {
			want.pkg = "a"
		}
		if want.name != "" && want.paths == nil {
			want.paths = []string{"example.com/dot"}
		}
		if got, ok := found.types[name]; !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
