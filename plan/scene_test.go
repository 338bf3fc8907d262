package plan

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// scene is a world with one process.
type scene struct {
	*testing.T
	*world
	ctx     context.Context //nolint:containedctx // it ends with the test
	gardens kube.Resource[garden]
	handle  kube.Resource[plant]
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, world: newWorld()}
	s.ctx, s.gardens, s.handle = s.process(t.Context())
	t.Cleanup(s.kill)
	return s
}

// plan returns an empty plan of the garden.
func (s *scene) plan() *Plan {
	g := s.read()
	return New(s.gardens, g, &g.Status.Status)
}

// add adds a node for the plant of its name.
func (s *scene) add(p *Plan, name string, needs ...Need) *Node[plant] {
	return Object(p, name, s.handle, func(Inputs) (*plant, error) { return named(name), nil }).Needs(needs...)
}

func named(name string) *plant {
	o := new(plant)
	o.Name, o.Labels = name, map[string]string{"plant": name}
	return o
}

// run runs a plan with nodes a → b → c, or as describe makes it.
func (s *scene) run(describe func(p *Plan)) error {
	s.Helper()
	p := s.plan()
	describe(p)
	_, err := p.Run(s.ctx)
	return err
}

// is fails unless a node has a state, and a message with a text in it.
func (s *scene) is(name string, state State, text string) NodeStatus {
	s.Helper()
	for _, n := range s.garden().Status.Nodes {
		if n.Name == name {
			if n.State != state || !strings.Contains(n.Message, text) {
				s.Errorf("node %s is %s %q, want %s %q", name, n.State, n.Message, state, text)
			}
			return n
		}
	}
	s.Errorf("node %s is not in the status", name)
	return NodeStatus{}
}

func (s *scene) condition(kind string) string {
	for _, c := range s.garden().Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
	}
	return ""
}

func all(string) bool { return true }

func (s *scene) wrote(method string) (n int) {
	for _, note := range s.notes {
		if strings.HasPrefix(note, method) {
			n++
		}
	}
	return n
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// put makes a plant that the plan has not made.
func (s *scene) put(name string, change func(*plant)) {
	o := new(plant)
	o.Namespace, o.Name = "default", name
	s.touch(o)
	o.UID, o.Status.Conditions = types.UID("uid-foreign-"+o.ResourceVersion), planted()
	change(o)
	s.all[plantPath(name)] = o
}

func (s *scene) kept() {
	s.Helper()
	for _, broken := range s.broken {
		s.Error(broken)
	}
}
