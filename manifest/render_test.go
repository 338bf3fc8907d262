package manifest

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// nowhere is a configuration for handles that send no request.
func nowhere() *rest.Config { return &rest.Config{Host: "http://nowhere.invalid"} }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs from the rendered objects (go test -update rewrites it):\n%s", path, got)
	}
}

func TestYAML(t *testing.T) {
	for name, namespace := range map[string]string{"cluster.yaml": "", "namespaced.yaml": "apps"} {
		op := newGadgetry(t, nowhere(), namespace).operator(t)
		got, err := op.YAML()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, got)
		for range 20 {
			if again, _ := op.YAML(); string(again) != string(got) {
				t.Fatal("rendered twice, it is not the same")
			}
		}
	}
}

func TestChartFiles(t *testing.T) {
	op := newGadgetry(t, nowhere(), "apps").operator(t)
	files, err := op.chart()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		golden(t, "chart/"+name, data)
	}
	dir := t.TempDir()
	if err := op.WriteChart(dir); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"Chart.yaml", "crds/gadgets.manifest.test.yaml", "templates/deployment.yaml", "templates/rbac.yaml",
		"templates/service.yaml", "templates/serviceaccount.yaml", "values.yaml",
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files %s", got)
	}
}

func TestMerging(t *testing.T) {
	client, err := kube.Config{Rest: nowhere()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	pods, maps := kube.For[corev1.Pod](client), kube.For[corev1.ConfigMap](client)
	rule := func(resources, verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs), ResourceNames: names,
		}
	}
	for name, test := range map[string]struct {
		needs []Rules
		want  map[string][]rbacv1.PolicyRule
	}{
		"verbs of a kind": {
			[]Rules{Deletes(pods), Watches(pods), Gets(pods)},
			map[string][]rbacv1.PolicyRule{"": {rule("pods", "get list watch delete")}},
		},
		"kinds with the same verbs": {
			[]Rules{Applies(pods, maps)},
			map[string][]rbacv1.PolicyRule{"": {rule("configmaps pods", "create patch")}},
		},
		"everywhere covers somewhere": {
			[]Rules{Gets(pods), Gets(pods.In("a")), Lists(pods.In("a", "b"))},
			map[string][]rbacv1.PolicyRule{"": {rule("pods", "get")}, "a": {rule("pods", "list")}, "b": {rule("pods", "list")}},
		},
		"all covers named": {
			[]Rules{Gets(pods).Named("x"), Gets(pods), Watches(pods), Deletes(pods).Named("x", "y")},
			map[string][]rbacv1.PolicyRule{"": {rule("pods", "get list watch"), rule("pods", "delete", "x", "y")}},
		},
		"creating has no names": {
			[]Rules{Applies(pods).Named("x")},
			map[string][]rbacv1.PolicyRule{"": {rule("pods", "create"), rule("pods", "patch", "x")}},
		},
		"subresources": {
			[]Rules{AppliesStatus(pods), Uses(pods, "eviction", "create").Named("x")},
			map[string][]rbacv1.PolicyRule{"": {rule("pods/eviction", "create", "x"), rule("pods/status", "patch")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := grants(test.needs, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]rbacv1.PolicyRule{}
			for ns, of := range second(byNamespace(all)) {
				got[ns] = policies(of)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
		})
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestBadOperators(t *testing.T) {
	client, err := kube.Config{Rest: nowhere()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]Operator{
		"nothing":            {},
		"bad name":           {Name: "A b", Image: "x"},
		"replicas":           {Name: "a", Image: "x", Install: Install{Replicas: 2}},
		"unknown plural":     {Name: "a", Image: "x", Needs: []Rules{Gets(kube.For[Gadget](client))}},
		"mistaken handle":    {Name: "a", Image: "x", Needs: []Rules{Gets(kube.For[corev1.Node](client).In("x"))}},
		"nil client":         {Name: "a", Image: "x", Needs: []Rules{Gets(kube.For[Gadget](nil))}},
		"bad port":           {Name: "a", Image: "x", Options: controller.Options{Address: ":70000"}},
		"no port":            {Name: "a", Image: "x", Options: controller.Options{Address: ":0"}},
		"bad address":        {Name: "a", Image: "x", Options: controller.Options{Address: "8080"}},
		"loopback":           {Name: "a", Image: "x", Options: controller.Options{Address: "127.0.0.1:8080"}},
		"probes at loopback": {Name: "a", Image: "x", Options: controller.Options{ProbeAddress: "127.0.0.1:8081"}},
		"one port for both":  {Name: "a", Image: "x", Options: controller.Options{Address: ":1", ProbeAddress: ":1"}},
		"zero value handle":  {Name: "a", Image: "x", Needs: []Rules{Gets(kube.Resource[Gadget]{})}},
	} {
		for _, render := range []func() error{
			func() error { _, err := op.YAML(); return err },
			func() error { _, err := op.chart(); return err },
		} {
			if err := render(); err == nil {
				t.Errorf("%s: no error", name)
			} else {
				t.Log(err)
			}
		}
	}
}
