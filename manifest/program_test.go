package manifest

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
)

// call calls a program that is the operator of these tests, as from a command line.
func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	flags := flag.NewFlagSet("gadgetry", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	copies := flags.String("copies", "one", "a flag of the program's own")
	var out bytes.Buffer
	err := command{flags: flags, args: args, out: &out, build: func(client *kube.Client) (Operator, error) {
		if *copies == "none" {
			return Operator{}, errors.New("there must be copies")
		}
		o := newGadgetry(t, client.RestConfig(), "").operator(t)
		o.Args, o.Port = []string{"-copies=" + *copies}, 0
		return o, nil
	}}.run(t.Context())
	return out.String(), err
}

// A program prints its manifests without a cluster.
func TestProgramPrints(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"as it says": {[]string{"manifests"}, []string{
			"namespace: gadgetry\n", "image: example.com/gadgetry:v1.2.3\n", "replicas: 2\n", "containerPort: 8080\n",
			"- -addr=:8080\n        - -install=false\n        - -copies=one\n", "kind: CustomResourceDefinition\n",
		}},
		"with flags": {[]string{"-copies=two", "manifests", "-namespace=other", "-image=local/it:v2", "-replicas=3"}, []string{
			"namespace: other\n", "image: local/it:v2\n", "replicas: 3\n", "- -copies=two\n",
		}},
	} {
		text, err := call(t, test.args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "chart")
	if text, err := call(t, "manifests", "-chart", dir); err != nil || text != "" {
		t.Errorf("a chart: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "Chart.yaml")); err != nil {
		t.Error(err)
	}
}

// What is wrong with a command line is told from what is wrong with the program.
func TestProgramRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		usage bool
		want  string
	}{
		"no such command":   {[]string{"manifest"}, true, `"manifest" is no command`},
		"no such flag":      {[]string{"-nonsense"}, true, "flag provided but not defined: -nonsense"},
		"none of manifests": {[]string{"manifests", "-nonsense"}, true, "flag provided but not defined: -nonsense"},
		"an argument":       {[]string{"manifests", "chart"}, true, `manifests takes no argument "chart"`},
		"a bad name":        {[]string{"manifests", "-namespace=A b"}, false, `namespace "A b"`},
		"no operator":       {[]string{"-copies=none", "manifests"}, false, "there must be copies"},
		"no cluster":        {nil, false, "does not exist, and this is not a pod"},
	} {
		text, err := call(t, test.args...)
		wrong := (*usageError)(nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &wrong) != test.usage || text != "" {
			t.Errorf("%s: %v, %q", name, err, text)
		}
	}
	flags := flag.NewFlagSet("taken", flag.ContinueOnError)
	flags.Bool("install", false, "")
	if err := (command{flags: flags}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "the program defines the flag -install") {
		t.Errorf("a flag that is taken: %v", err)
	}
}

// Rights follow from what is run.
func TestOptionsNeed(t *testing.T) {
	has := func(o Operator, namespace, resource string) bool {
		all, err := grants(o.needs(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			if g.namespace == namespace && g.resource == resource && g.verb == "create" {
				return true
			}
		}
		return false
	}
	o := Operator{Options: controller.Options{Events: new(event.Recorder), Authorize: true}}
	if !has(o, "", "events") || !has(o, "", "tokenreviews") {
		t.Error("not those of options")
	}
	o.Needs = []Rules{Events("a")}
	if has(o, "", "events") || !has(o, "a", "events") {
		t.Error("not only where it was said")
	}
	if has(Operator{}, "", "events") {
		t.Error("without options too")
	}
}
