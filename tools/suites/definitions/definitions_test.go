package definitions

import (
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
	"github.com/pintle-go/pintle/crd/kubebuilder"
	"github.com/pintle-go/pintle/internal/crddiff"
	"github.com/pintle-go/pintle/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// A kind is a Go type and the file of its published definition.
type kind struct {
	file string
	typ  reflect.Type
	of   func(crd.Options) *crd.Definition
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
				ours := k.of(crd.Options{
					Kind:   kube.Kind{GVK: kube.GVK{Group: theirs.Spec.Group, Version: k.version(), Kind: theirs.Spec.Names.Kind}},
					Source: p.source(t, dir, k), Markers: kubebuilder.Tags,
				})
				found := []crddiff.Difference{{What: "error", Ours: fmt.Sprint(ours.Err())}}
				if ours.Err() == nil {
					found = crddiff.Compare(ours, theirs, k.version())
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
