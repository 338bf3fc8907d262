package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A guide is a document for users.
type guide struct {
	name   string // the file, relative to the repository
	code   string // its code, inline and in blocks
	blocks []block
}

// A block is the part of a source file that a guide shows.
type block struct {
	file        string
	first, last int // lines, from 1
}

// shows reports whether the guide shows the line of a file.
func (g guide) shows(file string, line int) bool {
	return slices.ContainsFunc(g.blocks, func(b block) bool {
		return b.file == file && b.first <= line && line <= b.last
	})
}

// readGuides reads README.md and the files of docs.
func readGuides(dir string) ([]guide, error) {
	files, err := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("list guides: %w", err)
	}
	var all []guide
	for _, file := range append(files, filepath.Join(dir, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read guide: %w", err)
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return nil, fmt.Errorf("read guide: %w", err)
		}
		g, err := readGuide(dir, filepath.ToSlash(rel), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

var inlineCode = regexp.MustCompile("`[^`]+`")

func readGuide(dir, name, text string) (guide, error) {
	g := guide{name: name}
	var code []string
	for _, s := range readSnippets(name, text) {
		code = append(code, s.text)
		if !strings.HasSuffix(s.marker, ".go") || strings.Contains(s.marker, " ") {
			continue
		}
		first, err := s.lineIn(filepath.Join(dir, filepath.FromSlash(s.marker)))
		if err != nil {
			return guide{}, fmt.Errorf("%s:%d: %w", name, s.line, err)
		}
		g.blocks = append(g.blocks, block{s.marker, first, first + strings.Count(s.text, "\n")})
	}
	var prose []string
	inBlock := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
		} else if !inBlock {
			prose = append(prose, line)
		}
	}
	code = append(code, inlineCode.FindAllString(strings.Join(prose, ""), -1)...)
	g.code = strings.Join(code, "\n")
	return g, nil
}

// mentions finds symbols by the names that guides use: kube.Kind, kube.Kind.Plural, Kind.Plural
// or Plural if only one symbol has that name, and Plural in kube.Kind{Plural: "books"}.
type mentions map[string][]*symbol

func newMentions(all []*symbol) mentions {
	n := make(mentions)
	for _, s := range all {
		parts := strings.Split(s.name[strings.LastIndex(s.name, "/")+1:], ".")
		n.add(strings.Join(parts, "."), s)
		if len(parts) == 3 {
			n.add(strings.Join(parts[1:], "."), s)
		}
		n.add(parts[len(parts)-1], s)
	}
	return n
}

func (n mentions) add(name string, s *symbol) { n[name] = append(n[name], s) }

var (
	dotted  = regexp.MustCompile(`\w+(\.\w+)+`)
	bare    = regexp.MustCompile("`([A-Z]\\w+)(:[^`]*)?`") // a name, also with a value
	literal = regexp.MustCompile(`([\w.]+)\{([^{}]*)\}`)
	keyed   = regexp.MustCompile(`(\w+):`)
)

// in lists the symbols that code names.
func (n mentions) in(code string) []*symbol {
	var found []*symbol
	find := func(name string) {
		if all := n[name]; len(all) == 1 {
			found = append(found, all[0])
		}
	}
	for _, name := range dotted.FindAllString(code, -1) {
		parts := strings.Split(name, ".")
		for i := 2; i <= min(3, len(parts)); i++ {
			find(strings.Join(parts[:i], "."))
		}
	}
	for _, name := range bare.FindAllStringSubmatch(code, -1) {
		find(name[1])
	}
	for _, l := range literal.FindAllStringSubmatch(code, -1) {
		for _, key := range keyed.FindAllStringSubmatch(l[2], -1) {
			find(l[1] + "." + key[1])
		}
	}
	return found
}

// peers are the projects in which a symbol may have its counterpart. Of two names of which one
// contains the other, the longer one is first.
var peers = []string{
	"controller-runtime", "client-go", "client_golang", "kube-rs", "controller-tools", "kubebuilder",
	"crossplane-runtime", "cluster-api", "apiextensions-apiserver", "apiserver", "apimachinery", "cli-utils",
	"Java Operator SDK", "Argo CD", "kubectl", "cert-manager", "cert-controller", "kro",
}

var isCounterpart = regexp.MustCompile(`[Cc]ounterparts?\b.* (is|are) |(is|are) (the )?counterparts? of|calls (it|them) `)

// counterpart returns the peer that a comment names as one with a counterpart, or "".
func counterpart(comment string) string {
	for sentence := range strings.SplitSeq(strings.Join(strings.Fields(comment), " "), ". ") {
		at := isCounterpart.FindStringIndex(sentence)
		if at == nil || strings.Contains(sentence, "no counterpart") {
			continue
		}
		found := slices.DeleteFunc(slices.Clone(peers), func(p string) bool { return !strings.Contains(sentence, p) })
		if len(found) > 0 {
			return slices.MinFunc(found, func(a, b string) int {
				return cmp.Compare(strings.Index(sentence, a), strings.Index(sentence, b))
			})
		}
	}
	return ""
}
