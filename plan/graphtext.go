package plan

import (
	"fmt"
	"strings"
)

// Graphviz returns the nodes and their needs in the language DOT of Graphviz, coloured by
// state. An arrow leads from a node to one that needs it.
func (s *Status) Graphviz() string {
	var b strings.Builder
	b.WriteString("digraph plan {\n\trankdir=LR\n\tnode [shape=box style=\"rounded,filled\" fontname=\"sans-serif\"]\n")
	for i, n := range s.Nodes {
		label := dotString(plain(n.Name)) + `\n` + dotString(plain(string(n.State)))
		fmt.Fprintf(&b, "\tn%d [label=\"%s\" tooltip=\"%s\" fillcolor=\"%s\"]\n",
			i, label, dotString(plain(n.Message)), fillOf(n.State))
	}
	s.arrows(func(from, to int) { fmt.Fprintf(&b, "\tn%d -> n%d\n", from, to) })
	b.WriteString("}\n")
	return b.String()
}

// dotString escapes a text for a quoted string of DOT, in which a backslash begins an
// escape of labels.
func dotString(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }

// Mermaid returns the nodes and their needs as a flowchart of Mermaid, which GitHub and
// others draw in Markdown. An arrow leads from a node to one that needs it.
func (s *Status) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i, n := range s.Nodes {
		fmt.Fprintf(&b, "    n%d[\"%s<br/>%s\"]\n", i, mermaidString(plain(n.Name)), mermaidString(plain(string(n.State))))
		fmt.Fprintf(&b, "    style n%d fill:%s\n", i, fillOf(n.State))
	}
	s.arrows(func(from, to int) { fmt.Fprintf(&b, "    n%d --> n%d\n", from, to) })
	return b.String()
}

// mermaidString escapes a text for a quoted label of Mermaid: all characters that may have
// a meaning there are written as entities, which begin with # and have decimal codes.
func mermaidString(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\"#&<>;`*_\\[](){}|", r) {
			fmt.Fprintf(&b, "#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// arrows calls arrow with each node and one that needs it, by their places.
func (s *Status) arrows(arrow func(from, to int)) {
	for to, needs := range statusGraph(s.Nodes).needs {
		for _, from := range needs {
			arrow(from, to)
		}
	}
}

// fillOf returns a colour for a state, on which black text can be read.
func fillOf(s State) string {
	switch s {
	case Ready:
		return "#b7e4c7"
	case Waiting, Deleting:
		return "#ffe8a1"
	case Failed, Degraded:
		return "#f5b7b1"
	case Blocked, Absent:
		return "#e5e7e9"
	}
	return "#ffffff"
}
