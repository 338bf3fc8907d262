package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGraphErrorsShowThePath(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []vertex
		want  string
	}{
		"no name":        {[]vertex{{"", nil}}, `node 1 has no name`},
		"two of a name":  {[]vertex{{"a", nil}, {"a", nil}}, `two nodes have the name "a"`},
		"need not there": {[]vertex{{"a", []string{"b"}}}, `"a" needs "b", which is not in the plan`},
		"itself":         {[]vertex{{"a", []string{"a"}}}, `a node needs itself: a → a`},
		"two":            {[]vertex{{"a", []string{"b"}}, {"b", []string{"a"}}}, `a node needs itself: a → b → a`},
		"behind others": {
			[]vertex{{"a", []string{"b"}}, {"b", []string{"c", "d"}}, {"c", nil}, {"d", []string{"b"}}},
			`a node needs itself: b → d → b`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newGraph(c.nodes)
			if !errors.Is(err, errGraph) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A plan whose records no object has room for is refused, because nothing could be made.
func TestGraphThatFillsTheStatus(t *testing.T) {
	for layer, want := range map[int]bool{20: false, 50: true} {
		var nodes []vertex
		var last, here []string
		for i := range 200 {
			if i%layer == 0 {
				last, here = here, nil
			}
			v := vertex{fmt.Sprintf("%s-%03d", strings.Repeat("x", 248), i), last}
			nodes, here = append(nodes, v), append(here, v.name)
		}
		_, err := newGraph(nodes)
		if got := err != nil; got != want || got && !strings.Contains(err.Error(), "put one node between two layers") {
			t.Errorf("layers of %d: %v", layer, err)
		}
	}
}

// someGraph draws needs of nodes at random; without cycles, a node needs nodes of smaller
// numbers.
func someGraph(t *rapid.T, cycles bool) (nodes []vertex) {
	n := rapid.IntRange(1, 40).Draw(t, "nodes")
	for i := range n {
		most := i - 1
		if cycles {
			most = n - 1
		}
		v := vertex{name: fmt.Sprint(i)}
		if most >= 0 {
			for _, need := range rapid.SliceOfN(rapid.IntRange(0, most), 0, 4).Draw(t, "needs") {
				v.needs = append(v.needs, fmt.Sprint(need))
			}
		}
		nodes = append(nodes, v)
	}
	return nodes
}

// Both walks visit each node once, after all nodes before it, in any order of ends. If a
// node is never done, exactly the nodes behind it are left out.
func TestWalksVisitInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := someGraph(t, false)
		g, err := newGraph(nodes)
		if err != nil {
			t.Fatal(err)
		}
		before, w := g.needs, g.forward()
		if rapid.Bool().Draw(t, "backward") {
			before, w = g.neededBy, g.backward()
		}
		stuck := rapid.IntRange(-1, len(nodes)-1).Draw(t, "stuck")
		done := make(map[int]bool)
		visited := make(map[int]bool)
		open := w.first()
		for len(open) > 0 {
			k := rapid.IntRange(0, len(open)-1).Draw(t, "next")
			i := open[k]
			open = slices.Delete(open, k, k+1)
			if visited[i] {
				t.Fatalf("node %d is visited twice", i)
			}
			visited[i] = true
			for _, b := range before[i] {
				if !done[b] {
					t.Fatalf("node %d is visited before %d is done", i, b)
				}
			}
			if i != stuck {
				done[i] = true
				open = append(open, w.done(i)...)
			}
		}
		var behind func(i int) bool
		behind = func(i int) bool {
			return slices.ContainsFunc(before[i], func(b int) bool { return b == stuck || behind(b) })
		}
		for i := range nodes {
			if visited[i] == behind(i) {
				t.Fatalf("node %d: visited is %v, behind %d is %v", i, visited[i], stuck, behind(i))
			}
		}
	})
}

// An error of a cycle names a path that is there, and only graphs with a cycle have one.
// A graph without its cycles keeps its other needs.
func TestCyclesAreFoundAndCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := someGraph(t, true)
		g := emptyGraph(len(nodes))
		reach := make([][]bool, len(nodes))
		for i, v := range nodes {
			reach[i] = make([]bool, len(nodes))
			for _, need := range v.needs {
				var n int
				if _, err := fmt.Sscan(need, &n); err != nil {
					t.Fatal(err)
				}
				g.add(i, n)
				reach[i][n] = true
			}
		}
		for k := range nodes {
			for i := range nodes {
				for j := range nodes {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		cyclic := false
		for i := range nodes {
			cyclic = cyclic || reach[i][i]
		}
		cycle := g.cycle()
		if (cycle != nil) != cyclic {
			t.Fatalf("cycle %v, want one: %v", cycle, cyclic)
		}
		for k := 1; k < len(cycle); k++ {
			if !slices.Contains(g.needs[cycle[k-1]], cycle[k]) {
				t.Fatalf("%v is no path", cycle)
			}
		}
		_, err := newGraph(nodes)
		if (err != nil) != cyclic {
			t.Fatalf("error %v, want one: %v", err, cyclic)
		}
		g.cut()
		for i, v := range nodes {
			for _, need := range v.needs {
				var n int
				if _, err := fmt.Sscan(need, &n); err != nil {
					t.Fatal(err)
				}
				if !reach[n][i] && !slices.Contains(g.needs[i], n) {
					t.Fatalf("%d needs %d no more, though they are in no cycle", i, n)
				}
			}
		}
		if left := g.cycle(); left != nil {
			t.Fatalf("the cycle %v is left", left)
		}
	})
}
