package crd

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write kubernetes.txt")

// The table equals the markers in the sources of the versions of k8s.io/api and
// apimachinery that this module is built with.
func TestKubernetesMarks(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{.Dir}}",
		"k8s.io/api/...", "k8s.io/apimachinery/pkg/apis/meta/v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for pkg := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(pkg), " ")
		found, err := sourceMarks(path, dir)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, found...)
	}
	slices.Sort(lines)
	want := "# Written by TestKubernetesMarks.\n" + strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile("kubernetes.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != kubernetesMarks {
		t.Error("kubernetes.txt differs from the sources: run go test ./crd -run TestKubernetesMarks -update")
	}
	if len(lines) < 100 {
		t.Errorf("only %d types have markers", len(lines))
	}
}

// sourceMarks reads the markers of the types of a package.
func sourceMarks(path, dir string) (lines []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	constants := map[string]string{}
	var specs []*ast.TypeSpec
	docs := map[*ast.TypeSpec]*ast.CommentGroup{}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "zz_") || strings.HasSuffix(file, "_test.go") ||
			strings.HasSuffix(file, ".pb.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					specs = append(specs, s)
					docs[s] = cmp.Or(s.Doc, g.Doc)
				case *ast.ValueSpec:
					for i, n := range s.Names {
						if i < len(s.Values) {
							if lit, ok := s.Values[i].(*ast.BasicLit); ok {
								constants[n.Name] = lit.Value
							}
						}
					}
				}
			}
		}
	}
	for _, s := range specs {
		words := commentMarks(".", docs[s], constants)
		if st, ok := s.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				if f.Tag == nil {
					continue
				}
				name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
				words = append(words, commentMarks(name, f.Doc, constants)...)
			}
		}
		if len(words) > 0 {
			lines = append(lines, path+"."+s.Name.Name+" "+strings.Join(words, " "))
		}
	}
	return lines, nil
}

// commentMarks returns the markers of a comment in the form of the table.
func commentMarks(name string, doc *ast.CommentGroup, constants map[string]string) (words []string) {
	if doc == nil {
		return nil
	}
	isMap := false
	var keys []string
	for _, c := range doc.List {
		text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
		marker, value, _ := strings.Cut(text, "=")
		switch marker {
		case "+listType":
			if isMap = value == "map"; value == "set" {
				words = append(words, name+":set")
			}
		case "+listMapKey":
			keys = append(keys, value)
		case "+mapType", "+structType":
			if value == "atomic" {
				words = append(words, name+":whole")
			}
		case "+default":
			if constant, ok := strings.CutPrefix(value, "ref("); ok {
				value = constants[strings.TrimSuffix(constant, ")")]
			}
			words = append(words, name+":default="+value)
		}
	}
	if isMap {
		words = append(words, name+":map="+strings.Join(keys, ","))
	}
	return words
}
