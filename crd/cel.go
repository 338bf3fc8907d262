package crd

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// reserved are the words of CEL that must be escaped as names of fields. See the
// documentation of x-kubernetes-validations.
var reserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
	"if", "import", "let", "loop", "package", "namespace", "return"}

var escapes = strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__")

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

// checkTransitions finds rules that use the old object in places where the API server
// cannot match old and new elements.
func (b *builder) checkTransitions(s *Schema, lost bool) {
	if s == nil {
		return
	}
	if e := b.transitions[s]; e != nil && lost {
		e.Err = errors.New("oldSelf is not defined in a list (unless its listType is map) or in an atomic map, " +
			"so a part of it cannot be immutable by itself: put the rule on the whole list or map")
		b.errs = append(b.errs, e)
		delete(b.transitions, s)
	}
	b.checkTransitions(s.Items, lost || s.ListType != "map")
	below := lost || s.MapType == "atomic"
	b.checkTransitions(s.values(), below)
	for _, p := range s.Properties {
		b.checkTransitions(p, below)
	}
}
