// Package tag writes crd tags.
package tag

import "strings"

// Quote writes a value as a tag needs it: in quotes if it has a comma.
func Quote(value string) string {
	if strings.TrimSpace(value) == value && !strings.Contains(value, ",") && !strings.HasPrefix(value, "'") {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}
