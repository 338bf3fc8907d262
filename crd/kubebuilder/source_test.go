package kubebuilder_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/kubebuilder"
	"github.com/pintle-go/pintle/crd/testdata/kubebuilder/place"
)

type twoSpec struct {
	A int `json:"a"`
	B int `json:"b"`
}

// Valid Go has comments in odd places. A marker there is that of the field that it stands at,
// or an error with its line.
func TestOddPlaces(t *testing.T) {
	const minimum = "// +kubebuilder:validation:Minimum=1"
	for _, c := range []struct {
		place, source string
		line          string // of the error, or "" if the marker is that of A
	}{
		{"behind a tag of two lines", "type twoSpec struct {\n A int `json:\"a\"\n` MARK\n B int\n}", ""},
		{"behind a comment of two lines", "type twoSpec struct {\n A int /* a\n b */ MARK\n B int\n}", ""},
		{"with carriage returns", "type twoSpec struct {\r\n MARK\r\n A int\r\n B int\r\n}\r\n", ""},
		{"below a line directive",
			"type twoSpec struct {\n// +optional\n A int\n B int\n}\n//line x.go:2\nfunc f() {\nMARK\n}", "9"},
		{"behind a space", "type twoSpec struct {\n // + kubebuilder:validation:Minimum=1\n A int\n B int\n}", "3"},
		{"in a block comment",
			"type twoSpec struct {\n /* A\n +kubebuilder:validation:Minimum=1 */\n A int\n B int\n}", "4"},
		{"in a block comment with stars",
			"type twoSpec struct {\n /*\n * +kubebuilder:validation:Minimum=1\n */\n A int\n B int\n}", "4"},
		{"in a block comment of one line",
			"type twoSpec struct {\n A int /* +kubebuilder:validation:Minimum=1 */\n B int\n}", "3"},
	} {
		d := define[twoSpec](file("package kubebuilder_test\n" + strings.ReplaceAll(c.source, "MARK", minimum) + "\n"))
		switch err := d.Err(); {
		case c.line != "":
			want := "a.go:" + c.line + ": +"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", c.place, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", c.place, err)
		default:
			p := d.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties
			if p["a"].Minimum == nil || p["b"].Minimum != nil {
				t.Errorf("%s: the minimum is not that of A", c.place)
			}
		}
	}
}

type group[T any] struct {
	V T `json:"v"`
}

type text = string

type texts = text

type part = struct {
	X string `json:"x"`
}

type named struct {
	Texts texts            `json:"texts"`
	Round (alias)          `json:"round"` //nolint:gofumpt // the parentheses are what is tested
	Part  part             `json:"part"`
	Parts map[string]*part `json:"parts"`
	Param group[string]    `json:"param"`
}

// The markers of a declaration are found however its type is written, and those of another
// declaration with its name are not taken for them.
func TestOddDeclarations(t *testing.T) {
	s := schema[named](t, file(`package kubebuilder_test
// +kubebuilder:validation:MaxLength=1
type text = string
type texts = text
// +kubebuilder:validation:MaxLength=2
type alias = string
type part = struct {
	// X is inside.
	// +kubebuilder:validation:MaxLength=3
	X string
}
// +kubebuilder:validation:MaxLength=4
type T = string
type group[T any] struct { V T }
type named struct {
	Texts texts
	Round (alias)
	Part part
	Parts map[string]*part
	Param group[string]
}
`))
	limit := func(s *crd.Schema) int64 {
		if s.MaxLength == nil {
			return 0
		}
		return *s.MaxLength
	}
	p := s.Properties
	for name, got := range map[string][2]int64{
		"an alias of an alias":         {limit(p["texts"]), 1},
		"an alias in parentheses":      {limit(p["round"]), 2},
		"an alias of a struct":         {limit(p["part"].Properties["x"]), 3},
		"an alias of a struct in maps": {limit(p["parts"].AdditionalProperties.Schema.Properties["x"]), 3},
		"a type parameter":             {limit(p["param"].Properties["v"]), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: the length is at most %d, want %d", name, got[0], got[1])
		}
	}
}

type pairSpec struct {
	A struct {
		X int `json:"x"`
	} `json:"a"`
	B struct {
		X int `json:"x"`
	} `json:"b"`
}

// Fields that share a declaration share its markers.
func TestSharedFields(t *testing.T) {
	s := schema[pairSpec](t, file(`package kubebuilder_test
type pairSpec struct {
	A, B struct {
		X int // +kubebuilder:validation:Minimum=1
	}
}
`))
	for _, name := range []string{"a", "b"} {
		if s.Properties[name].Properties["x"].Minimum == nil {
			t.Errorf("%s.x has no minimum", name)
		}
	}
}

// condition2 is declared as a type of another package in some sources.
type condition2 string

type withCondition struct {
	C condition2 `json:"c"`
}

// A type is that of the source only if its package is, whatever the packages are named.
func TestPackagesOfOneName(t *testing.T) {
	const head = "package kubebuilder_test\n"
	const holders = head + "type holder[S any] struct { Spec S }\ntype withCondition struct { C condition2 }\n"
	const other = "\n// +kubebuilder:validation:MaxLength=5\ntype Condition string\n"
	const own = "github.com/pintle-go/pintle/crd/kubebuilder"
	for _, c := range []struct {
		name, dir, pkg, source string
		want                   bool // whether the marker has effect
	}{
		{"another module's path", "meta/v1", "v1",
			"import meta \"example.com/meta/v1\"\ntype condition2 meta.Condition", false},
		{"another module's path without a name", "v1", "v1",
			"import \"example.com/v1\"\ntype condition2 v1.Condition", false},
		{"another module's path and name", "config", "config",
			"import \"example.com/go-config\"\ntype condition2 config.Condition", false},
		{"the path below the root", "v1", "v1", "import \"" + own + "/v1\"\ntype condition2 v1.Condition", true},
		{"a name that is not in the path", "go-config", "config",
			"import \"" + own + "/go-config\"\ntype condition2 config.Condition", true},
		{"a dot import", "dot", "dot", "import . \"" + own + "/dot\"\ntype condition2 Condition", true},
		{"a vendored package", "vendor/example.com/v1", "v1",
			"import \"example.com/v1\"\ntype condition2 v1.Condition", true},
	} {
		d := define[withCondition](fstest.MapFS{
			"holder.go": {Data: []byte(holders)}, "a.go": {Data: []byte(head + c.source + "\n")},
			c.dir + "/b.go": {Data: []byte("package " + c.pkg + other)},
		})
		if err := d.Err(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		limit := d.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties["c"].MaxLength
		if got := limit != nil; got != c.want {
			t.Errorf("%s: the marker has effect: %v, want %v", c.name, got, c.want)
		}
	}
}

// The source of a type of another package is found by its path, or the type is refused.
func TestOtherPackages(t *testing.T) {
	const holders = "package kubebuilder_test\ntype holder[S any] struct { Spec S }\n"
	const text = "\n" +
		"type Site struct {\n // +kubebuilder:validation:Minimum=x\n Name Name\n Floor int32\n}\ntype Name string\n"
	const path = "github.com/pintle-go/pintle/crd/testdata/kubebuilder/place"
	for _, c := range []struct{ name, dir, want string }{
		{"vendored", "vendor/" + path, "a.go:3: +kubebuilder:validation:Minimum=x: it is not a number"},
		{"elsewhere", "place", "the source has a type place.Site in place, which may be that of " + path + " or another"},
	} {
		err := crd.Of[holder[place.Site]](crd.Options{Markers: kubebuilder.Tags, Source: fstest.MapFS{
			"holder.go": {Data: []byte(holders)}, c.dir + "/a.go": {Data: []byte("package place" + text)},
		}}).Err()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

// The source must be that of the program: its types have all fields, and no type in a
// function has the name of one.
func TestSourceOfProgram(t *testing.T) {
	for source, want := range map[string]string{
		"type twoSpec struct {\n B int\n}": "kubebuilder_test.twoSpec.A: the source lacks the field, so its markers are lost",
		"type twoSpec struct { A, B int }\nfunc f() {\n type (\n  twoSpec struct { A, B int }\n )\n}": "" +
			"the source declares " +
			"kubebuilder_test.twoSpec twice, at a.go:2 and a.go:5",
		"func f() { type twoSpec struct { A, B int } }": "the source lacks the type kubebuilder_test.twoSpec",
	} {
		err := define[twoSpec](file("package kubebuilder_test\n" + source + "\n")).Err()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
