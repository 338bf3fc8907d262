package podrun

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// replacer replaces texts in one pass, so that no replacement is replaced.
type replacer struct {
	pattern *regexp.Regexp
	by      map[string]string
}

// newReplacer returns a replacer of paths and of other texts. A path is replaced where it ends,
// or where another part of a path follows: /config in /config/config.json once. Where several
// fit, the longest is replaced.
func newReplacer(paths, texts map[string]string) replacer {
	r := replacer{by: map[string]string{}}
	maps.Copy(r.by, paths)
	maps.Copy(r.by, texts)
	all := slices.SortedFunc(maps.Keys(r.by), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var patterns []string
	for _, old := range all {
		p := regexp.QuoteMeta(old)
		if _, ok := paths[old]; ok {
			p += `(?:[/"'\s]|$)`
		}
		patterns = append(patterns, p)
	}
	if len(patterns) > 0 {
		r.pattern = regexp.MustCompile(strings.Join(patterns, "|"))
	}
	return r
}

// Replace returns a text with all that is replaced.
func (r replacer) Replace(s string) string {
	if r.pattern == nil {
		return s
	}
	return r.pattern.ReplaceAllStringFunc(s, func(found string) string {
		if by, ok := r.by[found]; ok {
			return by
		}
		last := len(found) - 1 // the character after a path
		return r.by[found[:last]] + found[last:]
	})
}
