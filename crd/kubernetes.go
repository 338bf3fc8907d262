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

// applyTable applies the table's entry for a field to the field's schema.
func applyTable(s *Schema, f fieldMarks) {
	if s.Type == "array" {
		s.ListType, s.ListMapKeys = "", nil // other lists are atomic
		switch {
		case f.list == "map" && checkMapKeys(s, f.keys) == nil:
			s.ListType, s.ListMapKeys = f.list, f.keys
		case f.list == "set" && (s.Items.Type != "object" || s.Items.MapType == "atomic"):
			s.ListType = f.list
		}
	}
	if f.atomic && s.Type == "object" {
		s.MapType = "atomic"
	}
	if f.fallback != nil && fits(s, f.fallback) == nil {
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

// mergeKeys makes a list with a patchMergeKey a map by that key, if every element is sure
// to have the key. The table has the lists of Kubernetes' own types.
func mergeKeys(s *Schema, m member) {
	key := m.Tag.Get("patchMergeKey")
	if key == "" || s.ListType != "" || s.Type != "array" || s.Items.Type != "object" || s.Items.Nullable {
		return
	}
	if keys := []string{key}; checkMapKeys(s, keys) == nil {
		s.ListType, s.ListMapKeys = "map", keys
	}
}

// contradicted are types of k8s.io/api. There the comments +optional and +required can
// contradict the tags, and a program cannot see them. The list has the fields where that
// matters. A test compares it with the schemas of an API server.
var contradicted = map[string]contradiction{
	"k8s.io/api/apps/v1.StatefulSetOrdinals":                     {optional: []string{"start"}},
	"k8s.io/api/apps/v1.StatefulSetSpec":                         {optional: []string{"serviceName"}},
	"k8s.io/api/batch/v1.PodFailurePolicyOnPodConditionsPattern": {optional: []string{"status"}},
	"k8s.io/api/core/v1.AzureFilePersistentVolumeSource":         {optional: []string{"secretNamespace"}},
	"k8s.io/api/core/v1.ContainerImage":                          {optional: []string{"names"}},
	"k8s.io/api/core/v1.ContainerRestartRule":                    {required: []string{"action"}},
	"k8s.io/api/core/v1.ContainerRestartRuleOnExitCodes":         {required: []string{"operator"}},
	"k8s.io/api/core/v1.GRPCAction":                              {optional: []string{"service"}},
	"k8s.io/api/core/v1.ImageVolumeStatus":                       {required: []string{"imageRef"}},
	"k8s.io/api/core/v1.NodeRuntimeHandler":                      {optional: []string{"name"}},
	"k8s.io/api/core/v1.PodCertificateProjection":                {required: []string{"signerName", "keyType"}},
	"k8s.io/api/core/v1.ProjectedVolumeSource":                   {optional: []string{"sources"}},
	"k8s.io/api/core/v1.TypedLocalObjectReference":               {optional: []string{"apiGroup"}},
	"k8s.io/api/core/v1.TypedObjectReference":                    {optional: []string{"apiGroup"}},
	"k8s.io/api/networking/v1.NetworkPolicySpec":                 {optional: []string{"podSelector"}},
	"k8s.io/api/rbac/v1.ClusterRole":                             {optional: []string{"rules"}},
	"k8s.io/api/rbac/v1.Role":                                    {optional: []string{"rules"}},
}

// contradiction lists the fields of a type whose comments contradict their tags.
type contradiction struct {
	optional, required []string
}
