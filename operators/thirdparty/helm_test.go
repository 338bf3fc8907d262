package thirdparty

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pintle-go/pintle/manifest"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Package manifest's own tests compare these files with the rendered manifests.
const rendered = "../../manifest/testdata"

// TestChart makes Helm render the chart, and compares the result with the plain
// manifests.
func TestChart(t *testing.T) {
	c, err := loader.LoadDir(rendered + "/chart")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(rendered + "/namespaced.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := objects(t, text)
	for name := range plain {
		if strings.HasPrefix(name, "Namespace ") || strings.HasPrefix(name, "CustomResourceDefinition ") {
			delete(plain, name)
		}
	}
	if diff := cmp.Diff(plain, render(t, c, "apps", nil)); diff != "" {
		t.Errorf("with the values that come with it, -plain +chart:\n%s", diff)
	}
	if crds := c.CRDObjects(); len(crds) != 1 ||
		!strings.Contains(string(crds[0].File.Data), "kind: CustomResourceDefinition") {
		t.Errorf("%d definitions", len(crds))
	}
}

func TestChartValues(t *testing.T) {
	c, err := loader.LoadDir(rendered + "/chart")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"image":     "other.example.com/gadgetry@sha256:0123",
		"replicas":  3,
		"args":      []any{},
		"env":       []any{map[string]any{"name": "A", "value": "{{ b: 'c' }}"}},
		"resources": map[string]any{"limits": nil, "requests": map[string]any{"cpu": "2"}},
	}
	all := render(t, c, "elsewhere", values)
	spec := all["Deployment gadgetry"]["spec"].(map[string]any)
	container := spec["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	got := map[string]any{
		"image": container["image"], "replicas": spec["replicas"], "args": container["args"],
		"env": container["env"], "resources": container["resources"],
	}
	want := map[string]any{
		"image": values["image"], "replicas": 3.0, "args": values["args"], "env": values["env"],
		"resources": map[string]any{"requests": map[string]any{"cpu": "2", "memory": "32Mi"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, o := range all {
		if ns := o["metadata"].(map[string]any)["namespace"]; ns != "elsewhere" {
			t.Errorf("%s is in %v", name, ns)
		}
	}
	if ns := all["RoleBinding gadgetry"]["subjects"].([]any)[0].(map[string]any)["namespace"]; ns != "elsewhere" {
		t.Errorf("the role is bound to an account in %v", ns)
	}
}

// render returns the objects that a release would install.
func render(t *testing.T, c *chart.Chart, namespace string, values map[string]any) map[string]map[string]any {
	t.Helper()
	release := common.ReleaseOptions{Name: "release", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]map[string]any)
	for name, text := range files {
		if path.Ext(name) != ".yaml" {
			t.Errorf("a template %s", name)
		}
		for key, o := range objects(t, []byte(text)) {
			found[key] = o
		}
	}
	return found
}

// objects returns the documents of a text by kind and name.
func objects(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	found := make(map[string]map[string]any)
	for doc := range bytes.SplitSeq(text, []byte("---\n")) {
		var o map[string]any
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		kind, _ := o["kind"].(string)
		meta, _ := o["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		found[kind+" "+name] = o
	}
	return found
}

// A program's own objects come out of Helm as they are in the plain manifests, whatever the values
// are, and Helm's linter says nothing against the chart.
func TestChartOfObjects(t *testing.T) {
	meta := func(name string) map[string]any { return map[string]any{"name": name, "namespace": "web"} }
	own := []any{
		map[string]any{"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": meta("down"),
			"spec": map[string]any{"groups": []any{map[string]any{"name": "g", "rules": []any{map[string]any{
				"alert": "Down", "expr": "up == 0", "annotations": map[string]any{
					"summary": "{{ $labels.instance }} is down", "text": "{{- end }}\n{{{{ \"x\" }}\n"},
			}}}}}},
		map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("ui"),
			"spec": map[string]any{"replicas": 3, "selector": map[string]any{"matchLabels": map[string]any{"a": "ui"}},
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "ui"}},
					"spec": map[string]any{"containers": []any{map[string]any{"name": "ui", "image": "example.com/ui:v7"}}}}}},
		map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta("np"),
			"spec": map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{
				"from": []any{map[string]any{"namespaceSelector": map[string]any{}}}}}}},
		map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": meta("self"),
			"spec": map[string]any{"selfSigned": map[string]any{}}},
	}
	operator := manifest.Operator{Name: "web", Image: "example.com/web:v1", Install: manifest.Install{
		Args: []string{"{{ not a template }}"}, Description: "Serves pages",
		Objects: func(manifest.Operator) ([]any, error) { return own, nil },
	}}
	text, err := operator.YAML()
	if err != nil {
		t.Fatal(err)
	}
	plain := objects(t, text)
	delete(plain, "Namespace web")
	dir := filepath.Join(t.TempDir(), "web")
	if err := operator.WriteChart(dir); err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, render(t, c, "web", nil)); diff != "" {
		t.Errorf("with the values that come with it, -plain +chart:\n%s", diff)
	}
	delete(plain, "Deployment web")
	for i, values := range []map[string]any{
		{},
		{"image": "example.com/web@sha256:0123"},
		{"image": "localhost:5000/web"},
		{"replicas": 0},
		{"args": []any{}},
		{"args": []any{"-a={{ b }}", "- c", "'d'", ""}},
		{"env": []any{}},
		{"env": []any{map[string]any{"name": "A", "value": "b: {c}\n# d"}}},
		{"resources": map[string]any{}},
		{"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}, "replicas": 1, "unknown": true},
	} {
		all := render(t, c, "web", values)
		spec := all["Deployment web"]["spec"].(map[string]any)
		pod := spec["template"].(map[string]any)["spec"].(map[string]any)
		container := pod["containers"].([]any)[0].(map[string]any)
		for _, name := range []string{"image", "args", "env"} {
			if want, ok := values[name]; ok && !cmp.Equal(container[name], want) {
				t.Errorf("values %d: %s is %v, want %v", i, name, container[name], want)
			}
		}
		delete(all, "Deployment web")
		if diff := cmp.Diff(plain, all); diff != "" {
			t.Errorf("values %d, -plain +chart:\n%s", i, diff)
		}
		for _, m := range lint.RunAll(dir, values, "web").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("values %d: %v", i, m)
			}
		}
	}
}
