package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Tree draws a plan for people: the state of each node, since when it holds, and the reason
// for it. It needs the owner's status alone, so another process than the operator can draw
// it. [Follow] draws a tree again and again. The counterpart is kubectl tree for
// owner references; kro and Java Operator SDK have none.
type Tree struct {
	// Width is the number of columns of the terminal. Longer lines are cut. 0 cuts none.
	Width int
	// Color colours the states by the sequences of ECMA-48.
	Color bool
}

// Lines draws the nodes. Each is shown once, below one of the nodes that it needs: the one
// that is farthest from the roots. Control characters in names and messages are shown as
// spaces.
//
//	✓ secret         Ready 2m
//	└─ ✓ database    Ready 90s
//	   └─ … migrate  Waiting 40s: 0 of 1 completed
//	      └─ · app   Blocked 40s: waits for migrate
//
// Objects whose nodes have left the plan follow the nodes.
func (t Tree) Lines(s *Status, now time.Time) []string {
	below, roots := branches(s.Nodes)
	type row struct {
		stem string
		node *NodeStatus
	}
	var rows []row
	widest := 0
	var grow func(nodes []int, indent string, root bool)
	grow = func(nodes []int, indent string, root bool) {
		for i, n := range nodes {
			stem, deeper := "├─ ", "│  "
			if i == len(nodes)-1 {
				stem, deeper = "└─ ", "   "
			}
			if root {
				stem, deeper = "", ""
			}
			r := row{indent + stem, &s.Nodes[n]}
			rows = append(rows, r)
			widest = max(widest, columns(r.stem)+columns(plain(r.node.Name)))
			grow(below[n], indent+deeper, false)
		}
	}
	grow(roots, "", true)
	if t.Width > 0 {
		widest = min(widest, t.Width/2)
	}
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		name := plain(r.node.Name)
		pad := strings.Repeat(" ", max(0, widest-columns(r.stem)-columns(name)))
		look := looks[r.node.State]
		if look.mark == "" {
			look.mark = "?"
		}
		lines = append(lines, t.line(r.stem, look, name+pad+"  "+r.node.story(now)))
	}
	return lines
}

// look is how a state is drawn: its mark, and the parameter of SGR for its colour.
type look struct {
	mark  string
	color int
}

var looks = map[State]look{
	Ready: {"✓", 32}, Waiting: {"…", 33}, Blocked: {"·", 90}, Degraded: {"!", 31}, Failed: {"✗", 31},
	Absent: {"○", 90}, Deleting: {"−", 33},
}

func (t Tree) line(stem string, l look, text string) string {
	whole := t.cut(stem + l.mark + " " + strings.TrimRight(text, " "))
	if rest, ok := strings.CutPrefix(whole, stem+l.mark); ok && t.Color {
		return fmt.Sprintf("%s\x1b[%dm%s\x1b[0m%s", stem, l.color, l.mark, rest)
	}
	return whole
}

// cut cuts a line to the width.
func (t Tree) cut(line string) string {
	if t.Width <= 0 || columns(line) <= t.Width {
		return line
	}
	return string([]rune(line)[:t.Width-1]) + "…"
}

// story tells the state of a node, for how long it holds, and why.
func (s *NodeStatus) story(now time.Time) string {
	text := plain(string(s.State))
	if !s.Since.IsZero() {
		text += " " + duration.HumanDuration(max(0, now.Sub(s.Since.Time)))
	}
	if s.Message != "" {
		text += ": " + plain(s.Message)
	}
	return text
}

// columns counts the columns of a text on a terminal. It takes each character for one
// column wide, as those of most languages are.
func columns(s string) int { return len([]rune(s)) }

// plain returns a text without control characters, which could command a terminal, and
// without those that change the direction of writing.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return ' '
		case unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// branches puts each node below one of those that it needs. It returns the nodes below
// each node, and the nodes below none. A status that somebody else has written may have
// cycles: they are cut.
func branches(nodes []NodeStatus) (below [][]int, roots []int) {
	g := statusGraph(nodes)
	g.cut()
	depth := make([]int, len(nodes))
	below = make([][]int, len(nodes))
	parent := make([]int, len(nodes))
	w := g.forward()
	for next := w.first(); len(next) > 0; next = next[1:] {
		i := next[0]
		parent[i] = -1
		for _, need := range g.needs[i] {
			if depth[need]+1 > depth[i] {
				parent[i], depth[i] = need, depth[need]+1
			}
		}
		next = append(next, w.done(i)...)
	}
	for i, p := range parent {
		if p < 0 {
			roots = append(roots, i)
		} else {
			below[p] = append(below[p], i)
		}
	}
	return below, roots
}

// statusGraph returns the needs of the nodes in a status. Names that are not in it are
// left out.
func statusGraph(nodes []NodeStatus) *graph {
	at := make(map[string]int, len(nodes))
	for i, n := range nodes {
		at[n.Name] = i
	}
	g := emptyGraph(len(nodes))
	for i, n := range nodes {
		for _, need := range slices.Compact(slices.Sorted(slices.Values(n.Needs))) {
			if to, known := at[need]; known && to != i {
				g.add(i, to)
			}
		}
	}
	return g
}
