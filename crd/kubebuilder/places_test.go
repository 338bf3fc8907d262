package kubebuilder_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/kubebuilder"
)

type plainSpec struct {
	A int `json:"a"`
	b int
	C int `json:"-"`
}

var _ = plainSpec{}.b

type withWord struct {
	Common word `json:"common"`
}

// A marker belongs to the declaration below its comment. Elsewhere it is an error.
func TestPlaces(t *testing.T) {
	const minimum = "// +kubebuilder:validation:Minimum=1"
	const nowhere = minimum + ": it belongs to no type or field"
	for _, c := range []struct {
		place, source string
		want          string // "" if the marker is that of the field
	}{
		{"directly above", "type plainSpec struct {\n MARK\n A int\n}", ""},
		{"in the comment above that", "type plainSpec struct {\n MARK\n\n // A is it.\n A int\n}", ""},
		{"apart from the field", "type plainSpec struct {\n MARK\n\n A int\n}", ""},
		{"at the end of the line", "type plainSpec struct {\n A int MARK\n}", ""},
		{"of a removed field",
			"type plainSpec struct {\n MARK\n // Old int\n\n // Next.\n\n // A is it.\n A int\n}", nowhere},
		{"two comments above", "type plainSpec struct {\n MARK\n\n // Next.\n\n A int\n}", nowhere},
		{"after the last field", "type plainSpec struct {\n A int\n MARK\n}", nowhere},
		{"behind the brace", "type plainSpec struct { MARK\n A int\n}", nowhere},
		{"above a blank field", "type plainSpec struct {\n MARK\n _ struct{}\n A int\n}", nowhere},
		{"behind a type", "type plainSpec struct { A int }\ntype old int MARK", nowhere},
		{"above a group of types", "MARK\ntype (\n plainSpec struct { A int }\n)", nowhere},
		{"above a function", "type plainSpec struct { A int }\nMARK\nfunc f() {}", nowhere},
		{"above an unexported field", "type plainSpec struct {\n A int\n MARK\n b int\n}",
			minimum + ": the field is not exported"},
		{"above a field without JSON", "type plainSpec struct {\n A int\n MARK\n C int\n}",
			minimum + ": the field is left out of the JSON"},
		{"in a function", "type plainSpec struct { A int }\nfunc f() {\n MARK\n}", nowhere},
		{"above a constant", "type plainSpec struct { A int }\nMARK\nconst c = 1", nowhere},
		{"below the package", "MARK\n\nimport \"fmt\"\ntype plainSpec struct { A int }", nowhere},
		{"at the end of the file", "type plainSpec struct { A int }\nMARK", nowhere},
		{"above the package", "type plainSpec struct { A int }", minimum + ": it is for types and fields, not for packages"},
	} {
		head := ""
		if !strings.Contains(c.source, "MARK") {
			head = minimum + "\n"
		}
		text := head + "package kubebuilder_test\n" + strings.ReplaceAll(c.source, "MARK", minimum)
		d := define[plainSpec](file(text + "\n"))
		line := strings.Count(strings.Split(text, minimum)[0], "\n") + 1
		switch err := d.Err(); {
		case c.want != "":
			want := "a.go:" + string(rune('0'+line)) + ": " + strings.TrimPrefix(c.want, "// ")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", c.place, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", c.place, err)
		case d.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"].Minimum == nil:
			t.Errorf("%s: there is no minimum", c.place)
		}
	}
	for _, other := range []string{
		"// +kubebuilder:rbac:groups=apps\n\ntype plainSpec struct { A int }\n// +kubebuilder:rbac:groups=batch\nfunc f() {}",
		"type plainSpec struct { A int }\nfunc f() {\n\t// +something\n}",
	} {
		if err := define[plainSpec](file("package kubebuilder_test\n" + other)).Err(); err != nil {
			t.Errorf("a marker for other generators: %v", err)
		}
	}
}

// The source must have each type of its packages, and once.
func TestSourceOfTypes(t *testing.T) {
	const head = "package kubebuilder_test\n"
	const holders = "type holder[S any] struct { Spec S }\n"
	const spec = head + "type plainSpec struct {\n // +kubebuilder:validation:Minimum=1\n A int\n}\n"
	files := func(texts ...string) fs.FS {
		all := fstest.MapFS{}
		for i := 0; i < len(texts); i += 2 {
			all[texts[i]] = &fstest.MapFile{Data: []byte(texts[i+1])}
		}
		return all
	}
	for _, c := range []struct {
		definition *crd.Definition
		want       string
	}{
		{define[plainSpec](files("a.go", head+holders, "b.go", spec)), ""},
		{define[plainSpec](nil), "kubebuilder_test.holder: the source lacks the type kubebuilder_test.holder"},
		{define[plainSpec](files("a.go", head+holders)),
			"the source lacks the type kubebuilder_test.plainSpec, so its markers are lost: embed its file"},
		{define[plainSpec](files("b.go", spec)), "the source lacks the type kubebuilder_test.holder"},
		{define[withWord](files("a.go", head+holders+"type withWord struct { Common word }\n")),
			"kubebuilder_test.withWord.Common: the source lacks the type kubebuilder_test.word"},
		{define[plainSpec](files("a.go", head+holders, "b.go", spec, "c.go", spec)),
			"the source declares kubebuilder_test.plainSpec twice, at b.go:2 and c.go:2"},
		// The package of the kind is that in kubebuilder_test, and the other one has only its name.
		{define[plainSpec](files("kubebuilder_test/a.go", head+holders, "kubebuilder_test/b.go", spec,
			"other/kubebuilder_test/c.go", strings.ReplaceAll(spec, "Minimum=1", "Minimum=x"))), ""},
		{define[plainSpec](files("kubebuilder_test/a.go", head+holders, "other/kubebuilder_test/c.go", spec)),
			"the source lacks the type kubebuilder_test.plainSpec"},
		{define[plainSpec](files("one/a.go", head+holders+"type plainSpec struct { A int }\n", "two/a.go", spec+holders)),
			"the source declares kubebuilder_test.holder twice, at one/a.go:2 and two/a.go:6"},
		{crd.Of[holder[condition]](crd.Options{Markers: kubebuilder.Tags,
			Source: files("a.go", head+"import metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n"+holders+
				"type condition metav1.Condition\n")}), ""},
	} {
		switch err := c.definition.Err(); {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %s", err, c.want)
		case c.want == "":
			a := c.definition.Version("v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"]
			if a != nil && (a.Minimum == nil || *a.Minimum != 1) {
				t.Errorf("got %+v, want the minimum 1", a)
			}
		}
	}
}
