package plan

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/ready"
)

// flow is a graph with troubles. The names of nodes are separated by spaces.
type flow struct {
	graph   string // nodes with their needs, as in "a b:a c:a,b"
	off     string // their condition does not hold
	failing string // their functions return an error
	unready string // they do not become ready
	stuck   string // they are deleted with UntilGone, and finalizers keep them
	refused string // the server refuses their deletion
	// orders are sequences of requests that must follow one another, such as "d c a".
	orders []string
	// states are those afterwards, as in "a Ready, b Absent".
	states string
	// left are the plants afterwards.
	left string
}

func (f flow) has(list, name string) bool { return slices.Contains(strings.Fields(list), name) }

// describe adds the nodes.
func (f flow) describe(s *scene, p *Plan, troubles bool) {
	nodes := make(map[string]*Node[plant])
	for spec := range strings.FieldsSeq(f.graph) {
		name, needs, _ := strings.Cut(spec, ":")
		n := Object(p, name, s.handle, func(Inputs) (*plant, error) {
			if troubles && f.has(f.failing, name) {
				return nil, errors.New("no luck")
			}
			return named(name), nil
		}).When(func(Inputs) bool { return !troubles || !f.has(f.off, name) })
		n.ReadyWhen(func(*plant) ready.State {
			if troubles && f.has(f.unready, name) {
				return ready.State{Phase: ready.Waiting}
			}
			return ready.State{Phase: ready.Ready}
		})
		if f.has(f.stuck, name) {
			n.UntilGone()
		}
		for need := range strings.SplitSeq(needs, ",") {
			if need != "" {
				n.Needs(nodes[need])
			}
		}
		nodes[name] = n
	}
}

// play runs or deletes a plan whose troubles begin after all of it was ready, unless it is
// new.
func (f flow) play(t *testing.T, isNew, deletes bool) {
	t.Helper()
	s := newScene(t)
	if !isNew {
		s.must(s.run(func(p *Plan) { f.describe(s, p, false) }))
	}
	s.notes = nil
	s.refuse = func(r *http.Request) int {
		if r.Method == http.MethodDelete && f.has(f.refused, path.Base(r.URL.Path)) {
			return 403
		}
		return 0
	}
	p := s.plan()
	f.describe(s, p, true)
	var err error
	action := controller.Done
	if deletes {
		action, err = p.Delete(s.ctx)
	} else {
		_, err = p.Run(s.ctx)
	}
	if fails := f.failing != "" && !deletes || f.refused != ""; fails != (err != nil) {
		t.Errorf("got %v", err)
	}
	var order, states []string
	for _, note := range s.notes {
		if method, url, _ := strings.Cut(note, " "); method == http.MethodDelete || method == http.MethodPatch {
			order = append(order, path.Base(url))
		}
	}
	for _, want := range f.orders {
		at := -1
		for name := range strings.FieldsSeq(want) {
			next := slices.Index(order, name)
			if next <= at {
				t.Errorf("requests are for %v, want %s in this order", order, want)
			}
			at = next
		}
	}
	if !deletes {
		for _, n := range s.garden().Status.Nodes {
			states = append(states, n.Name+" "+string(n.State))
		}
		if got := strings.Join(states, ", "); got != f.states {
			t.Errorf("states are %q, want %q", got, f.states)
		}
	} else if done := action == controller.Done && err == nil; done != (f.left == "") {
		t.Errorf("the deletion ends with %v %v", action, err)
	}
	if got := strings.Join(s.plants(), " "); got != f.left {
		t.Errorf("plants are %q, want %q", got, f.left)
	}
	s.kept()
}

// These are the cases of the tests of Java Operator SDK's workflows
// (WorkflowReconcileExecutorTest) and of kro's graphs, with the answers of a plan. In one
// case they differ: see "failed and absent needs".
func TestWorkflowsReconcile(t *testing.T) {
	for name, c := range map[string]struct {
		flow
		isNew bool
	}{
		"top level":      {flow{graph: "a b", orders: []string{"a", "b"}, states: "a Ready, b Ready", left: "a b"}, true},
		"a need":         {flow{graph: "a b:a", orders: []string{"a b"}, states: "a Ready, b Ready", left: "a b"}, true},
		"two dependents": {flow{graph: "a b:a c:a", orders: []string{"a b", "a c"}, states: "a Ready, b Ready, c Ready", left: "a b c"}, true},
		"diamond": {flow{
			graph: "a b:a c:a d:b,c", orders: []string{"a b d", "a c d"}, states: "a Ready, b Ready, c Ready, d Ready", left: "a b c d",
		}, true},
		"an error":               {flow{graph: "a", failing: "a", states: "a Failed"}, true},
		"a need fails":           {flow{graph: "a b:a c:b", failing: "b", states: "a Ready, b Failed, c Blocked", left: "a"}, true},
		"a branch fails":         {flow{graph: "a b:a c:a d:c", failing: "b", orders: []string{"a c d"}, states: "a Ready, b Failed, c Ready, d Ready", left: "a c d"}, true},
		"one of two needs fails": {flow{graph: "a b c:a,b", failing: "b", states: "a Ready, b Failed, c Blocked", left: "a"}, true},
		"conditions":             {flow{graph: "a b c", off: "a c", orders: []string{"a", "c"}, states: "a Absent, b Ready, c Absent", left: "b"}, false},
		"triangle":               {flow{graph: "a b:a c:a", off: "c", orders: []string{"c"}, states: "a Ready, b Ready, c Absent", left: "a b"}, false},
		"absence goes on": {flow{
			graph: "a b:a c:b d:c", off: "b", orders: []string{"d c b"}, states: "a Ready, b Absent, c Absent, d Absent", left: "a",
		}, false},
		// The failed node may be ready again, so c is not torn down for it. Java Operator SDK
		// deletes c.
		"failed and absent needs": {flow{
			graph: "a b c:a,b", failing: "a", off: "b", states: "a Failed, b Deleting, c Blocked", left: "a b c",
		}, false},
		"one of two needs is absent": {flow{graph: "a b c:a,b", off: "b", orders: []string{"c b"}, states: "a Ready, b Absent, c Absent", left: "a"}, false},
		"absent need and its dependent": {flow{
			graph: "a b:a c:a,b", off: "b", orders: []string{"c b"}, states: "a Ready, b Absent, c Absent", left: "a",
		}, false},
		"reverse order": {flow{
			graph: "a b:a c:b d:b e:d", off: "b", orders: []string{"e d b", "c b"},
			states: "a Ready, b Absent, c Absent, d Absent, e Absent", left: "a",
		}, false},
		"a deletion waits in the middle": {flow{
			graph: "a b:a c:a d:b,c", off: "a", stuck: "c", orders: []string{"d b", "d c"},
			states: "a Deleting, b Absent, c Deleting, d Absent", left: "a c",
		}, false},
		"a deletion fails in the middle": {flow{
			graph: "a b:a c:a d:b,c", off: "a", refused: "c", orders: []string{"d b"},
			states: "a Deleting, b Absent, c Deleting, d Absent", left: "a c",
		}, false},
		"not ready":               {flow{graph: "a b:a", unready: "a", states: "a Waiting, b Blocked", left: "a"}, true},
		"one need is not ready":   {flow{graph: "a b c:a,b", unready: "a", states: "a Waiting, b Ready, c Blocked", left: "a b"}, true},
		"diamond with a slow one": {flow{graph: "a b:a c:a d:b,c", unready: "c", states: "a Ready, b Ready, c Waiting, d Blocked", left: "a b c"}, true},
		"no longer ready":         {flow{graph: "a b:a", unready: "a", states: "a Waiting, b Blocked", left: "a b"}, false},
	} {
		t.Run(name, func(t *testing.T) { c.play(t, c.isNew, false) })
	}
}

// These are the cases of WorkflowCleanupExecutorTest of Java Operator SDK.
func TestWorkflowsDelete(t *testing.T) {
	for name, f := range map[string]flow{
		"diamond":                        {graph: "a b:a c:a d:b,c", orders: []string{"d b a", "d c a"}},
		"a dependent fails":              {graph: "a b:a c:b d:b", refused: "d", orders: []string{"c"}, left: "a b d"},
		"a dependent is not gone":        {graph: "a b:a", stuck: "b", orders: []string{"b"}, left: "a b"},
		"a deletion waits in the middle": {graph: "a b:a c:a d:b,c", stuck: "c", orders: []string{"d b", "d c"}, left: "a c"},
		"absent nodes":                   {graph: "a b:a c:a d:b,c", off: "c", orders: []string{"d b a"}},
	} {
		t.Run(name, func(t *testing.T) { f.play(t, false, true) })
	}
}
