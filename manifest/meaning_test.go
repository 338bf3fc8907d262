package manifest

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// install returns an operator with further objects.
func install(objects ...any) Operator {
	return Operator{Name: "x", Image: "example.com/x:v1", Install: Install{
		Objects: func(Operator) ([]any, error) { return objects, nil },
	}}
}

// documents returns the documents of the objects in the plain manifests and in the chart.
func documents(t *testing.T, o Operator) (plain, chart string) {
	t.Helper()
	text, err := o.YAML()
	if err != nil {
		t.Fatal(err)
	}
	files, err := o.chart()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), string(files["templates/objects.yaml"])
}

// An empty object stays if it has a meaning. Go's zero values of Kubernetes' own types have none.
func TestEmptyObjectsStay(t *testing.T) {
	object := func(group, kind string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": group, "kind": kind, "metadata": map[string]any{"name": "a"}, "spec": spec}
	}
	everywhere := &networkingv1.NetworkPolicy{TypeMeta: typed("networking.k8s.io/v1", "NetworkPolicy")}
	everywhere.Name = "typed"
	for want, object := range map[string]any{
		"selfSigned: {}": &unstructured.Unstructured{
			Object: object("cert-manager.io/v1", "Issuer", map[string]any{"selfSigned": map[string]any{}}),
		},
		"- namespaceSelector: {}": object("networking.k8s.io/v1", "NetworkPolicy", map[string]any{
			"ingress": []any{map[string]any{"from": []any{map[string]any{"namespaceSelector": map[string]any{}}}}},
		}),
		"selector: {}":    object("policy/v1", "PodDisruptionBudget", map[string]any{"selector": map[string]any{}}),
		"resources: {}":   object("example.com/v1", "Store", map[string]any{"resources": map[string]any{}}),
		"spec: {}":        object("example.com/v1", "Store", map[string]any{}),
		"podSelector: {}": everywhere,
	} {
		for _, text := range both(documents(t, install(object))) {
			if !strings.Contains(text, want) {
				t.Errorf("%s is missing:\n%s", want, text)
			}
		}
	}
	bare := &appsv1.StatefulSet{TypeMeta: typed("apps/v1", "StatefulSet")}
	bare.Name = "bare"
	bare.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	bare.Spec.VolumeClaimTemplates = make([]corev1.PersistentVolumeClaim, 1)
	if _, text := documents(t, install(bare)); strings.Contains(text, "{}\n") && !strings.Contains(text, "- {}") {
		t.Errorf("zero values are written:\n%s", text)
	}
}

func both(a, b string) []string { return []string{a, b} }

// The chart's values are those of the operator's own Deployment.
func TestOtherDeploymentsKeepTheirFields(t *testing.T) {
	ui := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "ui", "namespace": "x"},
		"spec": map[string]any{"replicas": 3, "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "ui", "image": "example.com/ui:v7", "args": []any{"-ui"}}},
		}}},
	}
	bare := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "bare"}, "spec": map[string]any{},
	}
	_, text := documents(t, install(ui, bare))
	for _, want := range []string{"image: example.com/ui:v7", "replicas: 3", "- -ui",
		"namespace: '{{ .Release.Namespace }}'"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, ".Values") {
		t.Errorf("it has the operator's values:\n%s", text)
	}
}

// Texts with braces, and texts that look like the chart's own places, are no templates.
func TestTextsAreNoTemplates(t *testing.T) {
	texts := []string{"{{ $labels.instance }} is down", "{{- end }}", "{{{{", "values:args", "say \"{{\"\n{{ x }}\n"}
	data := map[string]string{}
	for i, text := range texts {
		data[string(rune('a'+i))] = text
	}
	o := &corev1.ConfigMap{TypeMeta: typed("v1", "ConfigMap"), Data: data}
	plain, chart := documents(t, install(o))
	if !slices.ContainsFunc(strings.Split(plain, "---\n"), func(doc string) bool {
		return doc == strings.ReplaceAll(chart, "{{`{{`}}", "{{")
	}) {
		t.Errorf("the chart has\n%s\nplain it is\n%s", chart, plain)
	}
	if left := strings.ReplaceAll(chart, "{{`{{`}}", ""); strings.Contains(left, "{{") {
		t.Errorf("it has actions:\n%s", chart)
	}
}
