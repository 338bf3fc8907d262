package definitions

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// A kind is a Go type and the file of its published definition.
type kind struct {
	file string
	typ  reflect.Type
	of   func(crd.Options) (*crd.Definition, error)
}

// object is the constraint of [crd.Of] on a pointer to T.
type object[T any] interface {
	*T
	metav1.Object
	GetObjectKind() schema.ObjectKind
}

func of[T any, P object[T]](file string) kind {
	return kind{file: file + ".yaml", typ: reflect.TypeFor[T](), of: crd.Of[T, P]}
}

func (k kind) version() string { return path.Base(k.typ.PkgPath()) }

// TestSame makes the definition of each kind from its Go type and its markers. It
// compares the definition with the one that controller-gen made, which the module ships.
func TestSame(t *testing.T) {
	used := map[reason]bool{}
	for _, p := range projects() {
		dir := moduleDir(t, p.module)
		for _, k := range p.kinds {
			t.Run(k.file+"/"+k.version(), func(t *testing.T) {
				theirs := published(t, filepath.Join(dir, p.definitions, k.file))
				ours, err := k.of(crd.Options{
					Kind:   kube.Kind{GVK: kube.GVK{Group: theirs.Spec.Group, Version: k.version(), Kind: theirs.Spec.Names.Kind}},
					Source: p.source(t, dir, k),
				})
				found := []difference{{what: "error", ours: fmt.Sprint(err)}}
				if err == nil {
					found = compare(ours, theirs, k.version())
				}
				for _, d := range found {
					if i := slices.IndexFunc(reasons(), func(r reason) bool { return r.match(k, d) }); i >= 0 {
						used[reasons()[i]] = true
						continue
					}
					t.Error(d)
				}
			})
		}
	}
	for _, r := range reasons() {
		if !used[r] && !t.Failed() {
			t.Errorf("no kind has this difference any more: %+v", r)
		}
	}
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

func published(t *testing.T, file string) *crd.Definition {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d crd.Definition
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// source returns the Go source of a kind, as a program would embed it.
func (p project) source(t *testing.T, dir string, k kind) fs.FS {
	t.Helper()
	sources := fstest.MapFS{}
	for _, from := range append([]string{strings.TrimPrefix(k.typ.PkgPath(), p.module+"/")}, p.sources...) {
		if module, sub, other := strings.Cut(from, "//"); other {
			from = filepath.Join(moduleDir(t, module), sub)
		} else {
			from = filepath.Join(dir, from)
		}
		files, err := filepath.Glob(filepath.Join(from, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") {
				sources[strings.TrimPrefix(file, "/")] = &fstest.MapFile{Data: data}
			}
		}
	}
	return sources
}

// A difference is one between two definitions. The path is empty if it is not in the
// schema.
type difference struct {
	path, what   string
	ours, theirs string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s\n  ours   %s\n  theirs %s", d.path, d.what, d.ours, d.theirs)
}

// compare compares the definitions of a version. Descriptions do not count, nor do words
// without effect.
func compare(ours, theirs *crd.Definition, version string) []difference {
	var c comparer
	o, th := ours.Version(version), theirs.Version(version)
	if th == nil {
		return []difference{{what: "version", ours: version}}
	}
	c.same("", "names", ours.Spec.Names, theirs.Spec.Names)
	c.same("", "scope", ours.Spec.Scope, theirs.Spec.Scope)
	c.same("", "served", o.Served, th.Served)
	c.same("", "deprecated", o.Deprecated, th.Deprecated)
	c.same("", "deprecation warning", o.DeprecationWarning, th.DeprecationWarning)
	c.same("", "columns", plainColumns(o.Columns), plainColumns(th.Columns))
	c.same("", "selectable fields", o.SelectableFields, th.SelectableFields)
	c.same("", "subresources", plainSubresources(o.Subresources), plainSubresources(th.Subresources))
	c.schemas("", o.Schema.OpenAPIV3Schema, th.Schema.OpenAPIV3Schema)
	return c.found
}

func plainColumns(columns []crd.Column) []crd.Column {
	columns = slices.Clone(columns)
	for i := range columns {
		columns[i].Description = ""
	}
	return columns
}

// plainSubresources returns the subresources; nil has the same effect as none.
func plainSubresources(s *crd.Subresources) crd.Subresources {
	if s == nil {
		return crd.Subresources{}
	}
	return *s
}

type comparer struct{ found []difference }

func (c *comparer) same(path, what string, ours, theirs any) {
	if o, t := text(ours), text(theirs); o != t {
		c.found = append(c.found, difference{path, what, o, t})
	}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (c *comparer) schemas(path string, ours, theirs *crd.Schema) {
	if ours == nil || theirs == nil {
		if ours != theirs {
			c.same(path, "field", ours, theirs)
		}
		return
	}
	a, b := words(ours), words(theirs)
	for _, name := range slices.Sorted(slices.Values(append(keys(a), keys(b)...))) {
		if string(a[name]) != string(b[name]) {
			c.found = append(c.found, difference{path, name, string(a[name]), string(b[name])})
			delete(a, name)
			delete(b, name)
		}
	}
	if ours.Items != nil || theirs.Items != nil {
		c.schemas(path+"[]", ours.Items, theirs.Items)
	}
	if ours.AdditionalProperties != nil && theirs.AdditionalProperties != nil {
		c.schemas(path+"[*]", ours.AdditionalProperties.Schema, theirs.AdditionalProperties.Schema)
	}
	for name, p := range theirs.Properties {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue // the server knows these fields
		}
		c.schemas(path+"."+name, ours.Properties[name], p)
	}
	for name, p := range ours.Properties {
		if theirs.Properties[name] == nil {
			c.schemas(path+"."+name, p, nil)
		}
	}
}

func keys(m map[string]json.RawMessage) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	return names
}

// words returns the words of a schema, except for nested schemas and words without
// effect.
func words(s *crd.Schema) map[string]json.RawMessage {
	p := *s
	p.Description, p.Items, p.Properties, p.AdditionalProperties = "", nil, nil, nil
	if p.ListType == "atomic" {
		p.ListType = ""
	}
	if p.MapType == "granular" {
		p.MapType = ""
	}
	p.Required = slices.Sorted(slices.Values(p.Required))
	p.Required = slices.DeleteFunc(p.Required, func(name string) bool {
		// The server requires metadata, and sets a default before it checks.
		f := s.Properties[name]
		return name == "metadata" || f != nil && f.Default != nil
	})
	p.ListMapKeys = slices.Sorted(slices.Values(p.ListMapKeys))
	if p.Type == "integer" && p.Format == "int64" {
		p.Format = "" // integers of servers always have 64 bits
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text(p)), &m); err != nil {
		m["error"] = json.RawMessage(err.Error())
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema == nil {
		m["additionalProperties"] = json.RawMessage(text(s.AdditionalProperties))
	}
	return m
}
