package main

import (
	"embed"
	"fmt"
	"go/format"
	"io/fs"
	"path"
	"strings"
)

// The template is an operator of its own, in this module. It has no go.mod, because files
// of another module cannot be embedded.
//
//go:embed all:template
var template embed.FS

// templateNames are the names in the template.
var templateNames = names{
	name:    "gizmo-operator",
	kind:    "Gizmo",
	group:   "gizmo.example.org",
	version: "v1alpha1",
}

// goVersion is the version of Go in the new go.mod: the one in pintle's own.
const goVersion = "1.26.0"

// replacer replaces the names of the template. It goes through a text once, so that a
// replaced name is not replaced again. At one place the first fitting pair counts.
func (n names) replacer() *strings.Replacer {
	old := templateNames
	return strings.NewReplacer(
		old.name, n.name,
		old.group, n.group,
		old.version, n.version,
		old.plural(), n.plural(),
		old.kind, n.kind,
		strings.ToLower(old.kind), strings.ToLower(n.kind),
	)
}

// files returns the files of a new operator by their paths.
func (n names) files() (map[string][]byte, error) {
	all := map[string][]byte{"go.mod": n.goMod()}
	replacer := n.replacer()
	err := fs.WalkDir(template, "template", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := template.ReadFile(name)
		if err != nil {
			return err
		}
		text := []byte(replacer.Replace(string(data)))
		if path.Ext(name) == ".go" {
			// Names of another length change the alignment.
			if text, err = format.Source(text); err != nil {
				return fmt.Errorf("format %s: %w", name, err)
			}
		}
		all[strings.TrimPrefix(name, "template/")] = text
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("copy the template: %w", err)
	}
	return all, nil
}

// goMod returns a go.mod to which go mod tidy adds the other requirements, at the
// versions that pintle requires.
func (n names) goMod() []byte {
	return fmt.Appendf(nil, "module %s\n\ngo %s\n\nrequire github.com/pintle-go/pintle %s\n",
		n.module, goVersion, n.pintle)
}
