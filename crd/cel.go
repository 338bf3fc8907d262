package crd

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// reserved words of CEL must be escaped where they name fields. See the
// documentation of x-kubernetes-validations.
var reserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
	"if", "import", "let", "loop", "package", "namespace", "return"}

var escapes = strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__")

// celName returns how a rule in CEL names a field.
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

// usesOldSelf reports whether a rule compares with the object before.
func usesOldSelf(rule string) bool {
	return oldSelf.MatchString(celStrings.ReplaceAllString(rule, `""`))
}

// checkTransitions finds rules that compare with the object before where the
// server cannot tell which element was which.
func (b *builder) checkTransitions(s *Schema, lost bool) {
	if s == nil {
		return
	}
	if e := b.transitions[s]; e != nil && lost {
		e.Err = errors.New("oldSelf is not known in a list (unless its listType is map) or in an atomic map, so that nothing there is immutable by itself: say it of the list")
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
