// Package groups tells the API groups of custom kinds from those of Kubernetes.
package groups

import "strings"

// IsCustom reports whether a group is none of Kubernetes' own: its kinds are those of a definition, or of an
// aggregated API server.
func IsCustom(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}
