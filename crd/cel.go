package crd

import (
	"regexp"
	"slices"
	"strings"
)

// reserved are the words of CEL that must be escaped as names of fields. See the
// documentation of x-kubernetes-validations.
var reserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
	"if", "import", "let", "loop", "package", "namespace", "return"}

var escapes = strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__")

// celAccess matches the names of fields that a CEL rule can use.
var celAccess = regexp.MustCompile(`^[a-zA-Z_./-][a-zA-Z0-9_./-]*$`)

// celName returns the name of a field in a CEL rule.
func celName(name string) string {
	if slices.Contains(reserved, name) {
		return "__" + name + "__"
	}
	return escapes.Replace(name)
}

var (
	celStrings = regexp.MustCompile(`"(\\.|[^"\\])*"|'(\\.|[^'\\])*'`)
	oldSelf    = regexp.MustCompile(`\boldSelf\b`)
)

// usesOldSelf reports whether a rule uses the old object.
func usesOldSelf(rule string) bool {
	return oldSelf.MatchString(celStrings.ReplaceAllString(rule, `""`))
}
