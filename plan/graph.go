package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// errGraph is wrapped by the error of a plan whose nodes do not form a graph: there is a
// cycle, two nodes have one name, or a node needs something that is not in the plan.
var errGraph = errors.New("the plan is wrong")

// vertex is a node as the graph sees it.
type vertex struct {
	name  string
	needs []string
}

// graph is the order between nodes. Nodes are numbers: their places in the description.
type graph struct {
	needs    [][]int // the nodes that a node needs
	neededBy [][]int
}

// A record of a node in the status has about recordSize bytes beside its names and needs. The records of
// all nodes have at most mostRecords bytes: etcd takes requests of 1.5 MiB, with the rest of the object.
const (
	recordSize  = 400
	mostRecords = 1_250_000
)

// newGraph checks the names and needs of nodes.
func newGraph(nodes []vertex) (*graph, error) {
	at := make(map[string]int, len(nodes))
	size := 0
	for i, v := range nodes {
		size += recordSize + 3*len(v.name)
		switch _, twice := at[v.name]; {
		case v.name == "":
			return nil, fmt.Errorf("%w: node %d has no name", errGraph, i+1)
		case twice:
			return nil, fmt.Errorf("%w: two nodes have the name %q", errGraph, v.name)
		}
		at[v.name] = i
	}
	g := emptyGraph(len(nodes))
	for i, v := range nodes {
		for _, need := range v.needs {
			size += len(need) + len(`"",`)
			n, known := at[need]
			if !known {
				return nil, fmt.Errorf("%w: %q needs %q, which is not in the plan", errGraph, v.name, need)
			}
			g.add(i, n)
		}
	}
	if size > mostRecords {
		return nil, fmt.Errorf("%w: the nodes with the names of what they need would fill %d bytes of the status, "+
			"and an object has room for %d: give the nodes shorter names, or put one node between two layers of many",
			errGraph, size, mostRecords)
	}
	if cycle := g.cycle(); cycle != nil {
		var path []string
		for _, i := range cycle {
			path = append(path, nodes[i].name)
		}
		return nil, fmt.Errorf("%w: a node needs itself: %s", errGraph, strings.Join(path, " → "))
	}
	return g, nil
}

func emptyGraph(n int) *graph { return &graph{make([][]int, n), make([][]int, n)} }

// add makes node i need node n.
func (g *graph) add(i, n int) {
	if !slices.Contains(g.needs[i], n) {
		g.needs[i], g.neededBy[n] = append(g.needs[i], n), append(g.neededBy[n], i)
	}
}

// cycle returns a path from a node through its needs to the same node, nil if there is
// none.
func (g *graph) cycle() []int {
	const unseen, open, closed = 0, 1, 2
	state := make([]int, len(g.needs))
	var path []int
	var visit func(i int) []int
	visit = func(i int) []int {
		switch state[i] {
		case closed:
			return nil
		case open:
			return append(slices.Clone(path[slices.Index(path, i):]), i)
		}
		state[i], path = open, append(path, i)
		for _, n := range g.needs[i] {
			if cycle := visit(n); cycle != nil {
				return cycle
			}
		}
		state[i], path = closed, path[:len(path)-1]
		return nil
	}
	for i := range g.needs {
		if cycle := visit(i); cycle != nil {
			return cycle
		}
	}
	return nil
}

// cut removes needs until there is no cycle. It is for a graph that was put together from
// the needs of different times.
func (g *graph) cut() {
	for cycle := g.cycle(); cycle != nil; cycle = g.cycle() {
		i, n := cycle[0], cycle[1]
		g.needs[i] = slices.DeleteFunc(g.needs[i], func(o int) bool { return o == n })
		g.neededBy[n] = slices.DeleteFunc(g.neededBy[n], func(o int) bool { return o == i })
	}
}

// walk visits the nodes of a graph, each after all nodes before it. Of a walk forward,
// these are the nodes that it needs; of a walk backward, those that need it.
type walk struct {
	open  []int // how many nodes before a node are not done
	after [][]int
}

func (g *graph) forward() *walk  { return newWalk(g.needs, g.neededBy) }
func (g *graph) backward() *walk { return newWalk(g.neededBy, g.needs) }

func newWalk(before, after [][]int) *walk {
	w := &walk{make([]int, len(before)), after}
	for i := range before {
		w.open[i] = len(before[i])
	}
	return w
}

// first returns the nodes with no node before them.
func (w *walk) first() (nodes []int) {
	for i, n := range w.open {
		if n == 0 {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// done notes that a node is done, and returns the nodes that can be visited since. A node
// that is never done keeps those after it from being visited.
func (w *walk) done(i int) (nodes []int) {
	for _, n := range w.after[i] {
		if w.open[n]--; w.open[n] == 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
