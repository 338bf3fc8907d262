package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/operators/internal/install"
)

// TestHooksReachTheOperator looks up the URL of the hooks that the printed manifests have: it
// must be that of a Service and a port among them.
func TestHooksReachTheOperator(t *testing.T) {
	t.Parallel()
	for namespace, args := range map[string][]string{
		"neon-operator": nil, "data": {"-namespace=data"},
	} {
		list := binary.Manifests(t, args...)
		lookUpHooks(t, list, namespace)
	}
}

// TestHooksOfTheChart installs the chart in another namespace than the one that the program
// names: Helm replaces the namespace of the objects, and leaves the arguments alone.
func TestHooksOfTheChart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary.Manifests(t, "-chart="+dir)
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(values), "neon-operator.neon-operator") {
		t.Errorf("the chart's values name a namespace:\n%s", values)
	}
}

// lookUpHooks looks up the URL of the hooks as the storage controllers' pods do.
func lookUpHooks(t *testing.T, list []install.Manifest, namespace string) {
	t.Helper()
	var d appsv1.Deployment
	services := map[string]corev1.Service{}
	for _, m := range list {
		switch m.GVK.Kind {
		case "Deployment":
			if err := yaml.Unmarshal(m.YAML, &d); err != nil {
				t.Fatal(err)
			}
		case "Service":
			var s corev1.Service
			if err := yaml.Unmarshal(m.YAML, &s); err != nil {
				t.Fatal(err)
			}
			services[s.Name+"."+s.Namespace+".svc"] = s
		}
	}
	if d.Namespace != namespace {
		t.Fatalf("the Deployment is in namespace %q, want %q", d.Namespace, namespace)
	}
	c := d.Spec.Template.Spec.Containers[0]
	expand := func(text string) string {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
				text = strings.ReplaceAll(text, "$("+e.Name+")", d.Namespace)
			}
		}
		return text
	}
	var text string
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "-hooks="); ok {
			text = expand(value)
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		t.Fatalf("the URL of the hooks is %q: %v", text, err)
	}
	s, ok := services[u.Hostname()]
	if !ok {
		t.Fatalf("%s: there is no such Service", text)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, p := range s.Spec.Ports {
		if strconv.Itoa(int(p.Port)) != port {
			continue
		}
		for _, of := range c.Ports {
			if of.Name == p.TargetPort.StrVal {
				return
			}
		}
		t.Fatalf("%s: port %s of the Service leads to no port of the pod", text, port)
	}
	t.Fatalf("%s: the Service has no port %s", text, port)
}
