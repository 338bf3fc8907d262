package crd

import (
	_ "embed"
	"encoding/json"
	"strings"
)

// kubernetesMarks holds markers in the comments of k8s.io/api and apimachinery. A program
// cannot read comments at run time: +listType, +listMapKey, +mapType, +structType and
// +default. Each line is a type with its fields. The test TestKubernetesMarks compares
// the file with the sources, and writes it with
//
//	go test ./crd -run TestKubernetesMarks -update
//
//go:embed kubernetes.txt
var kubernetesMarks string

// fieldMarks holds the markers of a field, or of a type as a whole.
type fieldMarks struct {
	list     string // atomic, set or map
	keys     []string
	atomic   bool // a map or struct that is applied as a whole
	fallback json.RawMessage
}

// isKubernetes reports whether a package is one of Kubernetes' own, whose types the table
// has.
func isKubernetes(path string) bool {
	return strings.HasPrefix(path, "k8s.io/api/") || strings.HasPrefix(path, "k8s.io/apimachinery/")
}

// kubernetesField returns the table's entry for a field of the type with this full name,
// or for the type itself if the field is ".".
func kubernetesField(name, field string) (f fieldMarks) {
	_, rest, ok := strings.Cut(kubernetesMarks, "\n"+name+" ")
	if !ok {
		return f
	}
	line, _, _ := strings.Cut(rest, "\n")
	for word := range strings.FieldsSeq(line) {
		name, said, _ := strings.Cut(word, ":")
		if name != field {
			continue
		}
		switch what, value, _ := strings.Cut(said, "="); what {
		case "default":
			f.fallback = json.RawMessage(value)
		case "map":
			f.list, f.keys = what, strings.Split(value, ",")
		case "set":
			f.list = what
		case "whole":
			f.atomic = true
		}
	}
	return f
}

// kubernetes applies the table's entry for a field to the field's schema.
func (s *Schema) kubernetes(f fieldMarks) {
	if s.Type == "array" {
		s.ListType, s.ListMapKeys = "", nil // other lists are atomic
		switch {
		case f.list == "map" && s.mapKeys(f.keys) == nil:
			s.ListType, s.ListMapKeys = f.list, f.keys
		case f.list == "set" && (s.Items.Type != "object" || s.Items.MapType == "atomic"):
			s.ListType = f.list
		}
	}
	if f.atomic && s.Type == "object" {
		s.MapType = "atomic"
	}
	if f.fallback != nil && s.fits(f.fallback) == nil {
		s.Default = f.fallback
	}
}

// constrainCondition applies the markers for controller-gen in metav1.Condition.
func constrainCondition(s *Schema) {
	limit := func(field string, lowest, highest int64, pattern string) {
		p := s.Properties[field]
		if p.MaxLength = &highest; lowest > 0 {
			p.MinLength = &lowest
		}
		p.Pattern = pattern
	}
	limit("type", 0, 316, conditionType)
	limit("reason", 1, 1024, `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	limit("message", 0, 32768, "")
	s.Properties["observedGeneration"].Minimum = bound(0)
	for _, status := range []string{`"True"`, `"False"`, `"Unknown"`} {
		s.Properties["status"].Enum = append(s.Properties["status"].Enum, json.RawMessage(status))
	}
}

const conditionType = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?` +
	`(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
