package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/internal/hooks"
)

// WriteChart writes the files of a Helm chart into a directory, which it creates if
// necessary. Other files in the directory stay. The same operator always gives the same
// files. The chart installs the objects of [Operator.YAML] except the namespace, because a
// release has its own. The chart's values are image, replicas, args, env and resources of the
// operator's own Deployment. The objects have the name of the operator, not of the release: a cluster has one such
// operator.
//
// The definitions are in crds/: Helm installs them and leaves them alone when the release
// is upgraded or removed. A definition whose objects the operator converts is a template: Helm
// upgrades it and leaves it alone when the release is removed.
func (o Operator) WriteChart(dir string) error {
	files, err := o.chart()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write chart: %w", err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("write chart: %w", err)
		}
	}
	return nil
}

// chart returns the files of the chart by their paths.
func (o Operator) chart() (map[string][]byte, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, o.wrap(err)
	}
	parts, err := o.parts()
	if err != nil {
		return nil, o.wrap(err)
	}
	files := make(map[string][]byte)
	for _, p := range parts {
		var documents [][]byte
		for _, object := range p.objects {
			doc, err := o.template(object, p.name == "deployment")
			if err != nil {
				return nil, o.wrap(err)
			}
			documents = append(documents, doc)
		}
		files["templates/"+p.name+".yaml"] = bytes.Join(documents, []byte("---\n"))
	}
	for i, d := range o.serving().Definitions(o.place(), o.Definitions) {
		path := "crds/" + d.Name + ".yaml"
		text, err := d.YAML()
		if err == nil && hooks.Converts(o.Definitions[i]) {
			path = "templates/" + d.Name + ".yaml" // the address of its conversion has the release's namespace
			text, err = o.kept(text)
		}
		if err != nil {
			return nil, o.wrap(err)
		}
		files[path] = text
	}
	chart := map[string]any{
		"apiVersion": "v2", "name": o.Name, "type": "application", "version": o.Install.Version,
		"appVersion": o.Install.Version,
	}
	if o.Install.Description != "" {
		chart["description"] = o.Install.Description
	}
	if files["Chart.yaml"], err = yaml.Marshal(chart); err != nil {
		return nil, o.wrap(err)
	}
	if files["values.yaml"], err = o.values(); err != nil {
		return nil, o.wrap(err)
	}
	return files, nil
}

// kept returns a definition as a template. Helm leaves it alone when the release is removed, for all
// objects of the kind would be removed with it.
func (o Operator) kept(definition []byte) ([]byte, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(definition, &tree); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = make(map[string]any)
	}
	annotations["helm.sh/resource-policy"] = "keep"
	metadata["annotations"] = annotations
	return o.template(tree, false)
}

// values returns the chart's values, with the operator's settings as defaults.
func (o Operator) values() ([]byte, error) {
	tree, err := treeOf(o.deployment(nil)) // its strategy is no value
	if err != nil {
		return nil, err
	}
	spec, container := places(tree)
	var b bytes.Buffer
	for _, v := range []struct {
		name, says string
		is         any
	}{
		{"image", "The image to run.", container["image"]},
		{"replicas", "The number of replicas. One holds the lease and reconciles, the others wait.", spec["replicas"]},
		{"args", "The arguments of the program.", container["args"]},
		{"env", "The environment variables. GOMEMLIMIT should be somewhat less than the memory limit.", container["env"]},
		{"resources", "The requests and limits of resources.", container["resources"]},
	} {
		if v.name == "replicas" && o.Options.Lease.Name == "" {
			v.says = "The number of replicas. More than one would all reconcile."
		}
		if v.is == nil {
			v.is = map[string]any{}
			if v.name != "resources" {
				v.is = []any{}
			}
		}
		text, err := yaml.Marshal(map[string]any{v.name: v.is})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "# %s\n%s", v.says, text)
	}
	return b.Bytes(), nil
}

// places returns the pod spec of a Deployment and its container.
func places(deployment map[string]any) (spec, container map[string]any) {
	spec = deployment["spec"].(map[string]any)
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	return spec, pod["containers"].([]any)[0].(map[string]any)
}

// value returns a placeholder. The template has the named chart value in its place.
func value(name string) string { return "values:" + name }

// template returns an object as a template, which may be the operator's own Deployment. The release's
// namespace replaces the operator's, and chart values replace fields of the own Deployment.
func (o Operator) template(object any, own bool) ([]byte, error) {
	tree, err := treeOf(object)
	if err != nil {
		return nil, err
	}
	o.move(tree)
	if own {
		spec, container := places(tree)
		spec["replicas"] = value("replicas")
		for _, name := range []string{"image", "args", "env", "resources"} {
			container[name] = value(name)
		}
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		return nil, err
	}
	// An object may have texts for another template engine, such as those of alerts.
	text = bytes.ReplaceAll(text, []byte("{{"), []byte("{{`{{`}}"))
	return marked.ReplaceAllFunc(text, func(line []byte) []byte {
		m := marked.FindSubmatch(line)
		before, name := string(m[1]), string(m[2])
		switch {
		case name == "namespace":
			return fmt.Appendf(nil, "%s '{{ .Release.Namespace }}'", before)
		case !own:
			return line
		case name == "replicas":
			return fmt.Appendf(nil, "%s {{ .Values.replicas }}", before)
		case name == "image":
			return fmt.Appendf(nil, "%s '{{ .Values.image }}'", before)
		}
		// A list item's dash counts as indentation.
		indent := len(before) - len(strings.TrimLeft(before, " -")) + 2
		return fmt.Appendf(nil, "%s {{- toYaml .Values.%s | nindent %d }}", before, name, indent)
	}), nil
}

var marked = regexp.MustCompile(`(?m)^([ -]*(?:[a-z]+:|-)) values:([a-z]+)$`)

// move replaces the operator's namespace by the release's.
func (o Operator) move(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			if key == "namespace" && field == o.Install.Namespace {
				v[key] = value("namespace")
			}
			if names, ok := field.([]any); ok && key == "values" && v["key"] == corev1.LabelMetadataName {
				for i := range names {
					if names[i] == o.Install.Namespace {
						names[i] = value("namespace")
					}
				}
			}
			o.move(field)
		}
	case []any:
		for _, item := range v {
			o.move(item)
		}
	}
}
