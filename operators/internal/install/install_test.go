package install

import (
	"testing"

	"github.com/pintle-go/pintle/operators"
)

// TestShipped reads all shipped manifests, and moves them to another namespace.
func TestShipped(t *testing.T) {
	list, err := Read(operators.Files, "book/crd.yaml", "book/sample.yaml", "foo/sample.yaml",
		"foo/deploy/crd.yaml", "foo/deploy/rbac.yaml", "foo/deploy/deployment.yaml", "foo/deploy/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 11 {
		t.Errorf("%d objects: %v", len(list), list)
	}
	moved, err := InNamespace(list, "default", "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range moved {
		if was := list[i].Namespace; was == "default" && m.Namespace != "elsewhere" || was == "" && m.Namespace != "" {
			t.Errorf("%s, moved: %s", list[i], m)
		}
	}
}

func TestParse(t *testing.T) {
	for name, data := range map[string]string{
		"not YAML":    "{",
		"no kind":     "apiVersion: v1\nmetadata: {name: a}\n",
		"no name":     "apiVersion: v1\nkind: Pod\n",
		"bad version": "apiVersion: a/b/c\nkind: Pod\nmetadata: {name: a}\n",
	} {
		if list, err := Parse([]byte(data)); err == nil {
			t.Errorf("%s: %v", name, list)
		}
	}
}
