package plan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
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

func TestWrongDescriptionsAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		describe func(s *scene, p *Plan)
		want     string
	}{
		"cycle": {func(s *scene, p *Plan) {
			a := s.add(p, "a")
			a.Needs(s.add(p, "b", a))
		}, `a node needs itself: a → b → a`},
		"two of a name":   {func(s *scene, p *Plan) { s.add(p, "a"); s.add(p, "a") }, `two nodes have the name "a"`},
		"a former name":   {func(s *scene, p *Plan) { s.add(p, "a~1") }, `the name "a~1" has a "~"`},
		"nil":             {func(s *scene, p *Plan) { var b *Node[plant]; s.add(p, "a", b) }, `"a" needs a node that is nil`},
		"no interface":    {func(s *scene, p *Plan) { s.add(p, "a", nil) }, `"a" needs a node that is nil`},
		"of another plan": {func(s *scene, p *Plan) { s.add(p, "a", s.add(s.plan(), "b")) }, `"a" needs "b", which is not in the plan but in another one`},
		"undeclared": {func(s *scene, p *Plan) {
			b := s.add(p, "b")
			Object(p, "a", s.handle, func(in Inputs) (*plant, error) { return named(b.From(in).Name), nil })
		}, `"a" reads "b", which it does not need`},
		"undeclared in a condition": {func(s *scene, p *Plan) {
			b := s.add(p, "b")
			s.add(p, "a").When(func(in Inputs) bool { return b.From(in).Name != "" })
		}, `"a" reads "b", which it does not need`},
		"one object twice": {func(s *scene, p *Plan) {
			s.add(p, "a")
			Object(p, "b", s.handle, func(Inputs) (*plant, error) { return named("a"), nil })
		}, `"a" and "b" describe the same object, Plant default/a`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			err := s.run(func(p *Plan) { c.describe(s, p) })
			if !errors.Is(err, ErrGraph) || !controller.IsTerminal(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if s.plant("a") != nil && !strings.HasPrefix(name, "one object") {
				t.Error("the wrong node was applied")
			}
		})
	}
}

// A node waits for those that it needs, the others go on, and the status says who waits
// for whom.
func TestNodesWaitForTheirNeeds(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) {
		a := s.add(p, "a").ReadyWhen(func(o *plant) ready.State {
			if o.Spec.Size == 0 && len(o.Status.Conditions) == 0 {
				return ready.State{Phase: ready.Waiting, Message: "it is a seed"}
			}
			return ready.Of(o)
		})
		s.add(p, "b", a)
		s.add(p, "c")
	}
	for range 2 {
		if err := s.run(describe); err != nil {
			t.Fatal(err)
		}
		s.is("a", Waiting, "it is a seed")
		s.is("b", Blocked, "waits for a")
		if got := s.condition("Ready"); got != "False Waiting waiting for a: it is a seed" {
			t.Errorf("Ready is %q", got)
		}
	}
	s.grow(all)
	if err := s.run(describe); err != nil {
		t.Fatal(err)
	}
	s.is("b", Ready, "")
	if got := s.condition("Ready"); got != "True Ready 3 nodes are ready" {
		t.Errorf("Ready is %q", got)
	}
	s.grow(func(name string) bool { return name != "a" })
	if err := s.run(describe); err != nil {
		t.Fatal(err)
	}
	s.is("a", Waiting, "Ready is False")
	s.is("b", Blocked, "waits for a")
	if s.plant("b") == nil {
		t.Error("a dependent was torn down")
	}
}

// A failed node blocks only the nodes that need it. Its error names it.
func TestFailureBlocksOnlyItsDependents(t *testing.T) {
	s := newScene(t)
	s.refuse = func(r *http.Request) int {
		if r.Method == http.MethodPatch && r.URL.Path == plantPath("a") {
			return 422
		}
		return 0
	}
	err := s.run(func(p *Plan) {
		a := s.add(p, "a")
		s.add(p, "b", a)
		s.add(p, "c", s.add(p, "d"))
		Object(p, "e", s.handle, func(Inputs) (*plant, error) { panic("a bug") })
	})
	if err == nil || !strings.Contains(err.Error(), `node "a"`) || !strings.Contains(err.Error(), `node "e": panic: a bug`) {
		t.Errorf("got %v", err)
	}
	s.is("a", Failed, "refused")
	s.is("b", Blocked, "waits for a")
	s.is("c", Ready, "")
	s.is("e", Failed, "a bug")
	if got := s.condition("Degraded"); !strings.HasPrefix(got, "True Failed a: ") {
		t.Errorf("Degraded is %q", got)
	}
	if got := s.condition("Progressing"); got != "False Failed " {
		t.Errorf("Progressing is %q", got)
	}
}

// A node that is not ready in time is degraded, and says since when it waits.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		describe := func(p *Plan) { s.add(p, "a").Within(time.Minute) }
		begun := time.Now()
		s.must(s.run(describe))
		s.grow(func(string) bool { return false })
		s.must(s.run(describe))
		since := s.is("a", Waiting, "")
		time.Sleep(61 * time.Second)
		s.must(s.run(describe))
		n := s.is("a", Degraded, "not ready within 1m0s: Ready is False")
		if !n.Since.Time.Equal(since.Since.Time) || n.Since.Sub(begun) > time.Second {
			t.Errorf("degraded since %s, waits since %s", n.Since, since.Since)
		}
		time.Sleep(time.Hour)
		written := s.wrote("PATCH " + gardenPath)
		before := s.garden().Status.Nodes[0]
		s.must(s.run(describe))
		if after := s.garden().Status.Nodes[0]; after.Message != before.Message || !after.Since.Equal(&before.Since) {
			t.Errorf("the status changes with time: %+v, %+v, %d writes", before, after, written)
		}
		s.grow(all)
		s.must(s.run(describe))
		s.is("a", Ready, "")
		s.kill()
	})
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// The objects of others are neither taken over nor deleted.
func TestForeignObjects(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(o *plant)
		taken bool // the plan may take it over
	}{
		"of nobody":             {func(*plant) {}, false},
		"of nobody, our labels": {func(o *plant) { o.Labels = map[string]string{"plant": "a", "other": "x"} }, true},
		"of another controller": {func(o *plant) {
			yes := true
			o.Labels = map[string]string{"plant": "a"}
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "Forest", Name: "wild", UID: "uid-wild", Controller: &yes}}
		}, false},
		"marked for another owner": {func(o *plant) {
			o.Labels = map[string]string{"plant": "a"}
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/other/uid-other"}
		}, false},
		"marked for an earlier owner of the name": {func(o *plant) {
			o.Labels = map[string]string{"plant": "a"}
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/eden/uid-former"}
		}, true},
		"marked for an earlier owner of the name, being deleted": {func(o *plant) {
			begun := metav1.Now()
			o.Labels, o.DeletionTimestamp, o.Finalizers = map[string]string{"plant": "a"}, &begun, []string{"example.com/slow"}
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/eden/uid-former"}
		}, false},
		"marked for an earlier owner, other labels": {func(o *plant) {
			o.Annotations = map[string]string{Mark: "Garden.example.com/default/eden/uid-former"}
		}, false},
		"marked for an owner of another kind": {func(o *plant) {
			o.Labels = map[string]string{"plant": "a"}
			o.Annotations = map[string]string{Mark: "Park.example.com/default/eden/uid-former"}
		}, false},
	} {
		for _, retain := range []bool{false, true} {
			t.Run(fmt.Sprint(name, retain), func(t *testing.T) {
				s := newScene(t)
				s.put("a", c.make)
				describe := func(p *Plan) {
					n := s.add(p, "a")
					if retain {
						n.Retain()
					}
				}
				err := s.run(describe)
				if errors.Is(err, kube.ErrTaken) == c.taken {
					t.Errorf("got %v, may be taken: %v", err, c.taken)
				}
				if !c.taken {
					s.foreign[s.plant("a").UID] = true
				}
				s.must(s.run(func(*Plan) {}))
				if gone := s.plant("a") == nil; gone != (c.taken && !retain) {
					t.Errorf("gone: %v", gone)
				}
				s.kept()
			})
		}
	}
}

// put makes a plant that the plan has not made.
func (s *scene) put(name string, change func(*plant)) {
	o := new(plant)
	o.Namespace, o.Name = "default", name
	s.touch(o)
	o.UID = types.UID("uid-foreign-" + o.ResourceVersion)
	change(o)
	s.all[plantPath(name)] = o
}

func (s *scene) kept() {
	s.Helper()
	for _, broken := range s.broken {
		s.Error(broken)
	}
}

// An object that was made by the plan is not deleted once it is no longer the plan's.
func TestObjectsThatAreNoLongerOurs(t *testing.T) {
	for name, change := range map[string]func(s *scene, o *plant){
		"recreated by somebody": func(s *scene, o *plant) { o.UID = "uid-other"; o.OwnerReferences = nil },
		"adopted by somebody":   func(s *scene, o *plant) { o.OwnerReferences[0].UID = "uid-wild" },
		"orphaned":              func(s *scene, o *plant) { o.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.must(s.run(func(p *Plan) { s.add(p, "a") }))
			o := s.plant("a")
			o.OwnerReferences = slices.Clone(o.OwnerReferences)
			change(s, o)
			s.foreign[o.UID] = true
			s.must(s.run(func(*Plan) {}))
			action, err := s.plan().Delete(s.ctx)
			if s.plant("a") == nil || err != nil || action != controller.Done {
				t.Errorf("plant %v, %v %v", s.plant("a"), action, err)
			}
			if nodes := s.garden().Status.Nodes; len(nodes) > 0 {
				t.Errorf("the inventory has %+v", nodes)
			}
			s.kept()
		})
	}
}

// The process may end after it has made an object again, and before it has recorded that.
func TestObjectMadeAgainUnrecorded(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "a") }))
	s.plant("a").UID = "uid-again"
	s.must(s.run(func(*Plan) {}))
	if s.plant("a") != nil {
		t.Error("the object is left")
	}
}

// An owner that is deleted with the option to orphan leaves its children.
func TestOrphanedDeletion(t *testing.T) {
	s := newScene(t)
	s.must(s.run(func(p *Plan) { s.add(p, "b", s.add(p, "a")) }))
	s.garden().Finalizers = append(s.garden().Finalizers, metav1.FinalizerOrphanDependents)
	action, err := s.plan().Delete(s.ctx)
	if err != nil || action != controller.Done || s.plant("a") == nil || s.plant("b") == nil {
		t.Errorf("plants %v, %v %v", s.plants(), action, err)
	}
}

// The garbage collector ends the option to orphan at once if no object has an owner reference. So what
// happens to the objects of a plan with Marks does not depend on who sees the owner first.
func TestOrphanedDeletionOfMarks(t *testing.T) {
	for _, orphans := range []bool{false, true} {
		s := newScene(t)
		describe := func(p *Plan) {
			p.Marks = true
			s.add(p, "b", s.add(p, "a"))
			s.add(p, "kept").Retain()
		}
		s.must(s.run(describe))
		if orphans {
			s.garden().Finalizers = append(s.garden().Finalizers, metav1.FinalizerOrphanDependents)
		}
		p := s.plan()
		describe(p)
		action, err := p.Delete(s.ctx)
		if got := s.plants(); err != nil || action != controller.Done || !slices.Equal(got, []string{"kept"}) {
			t.Errorf("with the finalizer: %v, plants %v, %v %v", orphans, got, action, err)
		}
	}
}

// A condition that no longer holds takes the node and those behind it away, in reverse
// order. A condition that cannot be asked takes nothing away.
func TestConditions(t *testing.T) {
	s := newScene(t)
	holds := true
	describe := func(p *Plan) {
		a := s.add(p, "a")
		b := s.add(p, "b", a).When(func(in Inputs) bool { return holds && a.From(in).Name == "a" })
		s.add(p, "c", b)
	}
	s.must(s.run(describe))
	s.is("c", Ready, "")
	holds = false
	s.grow(func(string) bool { return false })
	s.must(s.run(describe))
	if s.plant("b") == nil || s.plant("c") == nil {
		t.Error("a node was deleted while its condition could not be asked")
	}
	s.grow(all)
	s.must(s.run(describe))
	s.is("b", Absent, "")
	s.is("c", Absent, "")
	if s.plant("a") == nil || s.plant("b") != nil || s.plant("c") != nil {
		t.Errorf("plants are %v", s.plants())
	}
	s.kept()
}

// A node that only reads waits for its object, and gives it to others.
func TestLookup(t *testing.T) {
	s := newScene(t)
	describe := func(p *Plan) {
		found := Lookup(p, "found", s.handle, kube.Key{Name: "theirs"})
		Object(p, "a", s.handle, func(in Inputs) (*plant, error) {
			o := named("a")
			o.Spec.Size = found.From(in).Spec.Size
			return o, nil
		}).Needs(found)
	}
	s.must(s.run(describe))
	s.is("found", Waiting, "it does not exist")
	s.put("theirs", func(o *plant) { o.Spec.Size = 7; s.foreign[o.UID] = true })
	s.must(s.run(describe))
	if o := s.plant("a"); o == nil || o.Spec.Size != 7 {
		t.Errorf("plant is %+v", o)
	}
	if _, err := s.plan().Delete(s.ctx); err != nil || s.plant("theirs") == nil || s.plant("a") != nil {
		t.Errorf("plants %v, %v", s.plants(), err)
	}
	s.kept()
}

// A plan asks for another run while it waits for an object that it only reads, and for none when the object
// is ready: its changes are seen by a watch, or not at all.
func TestLookupAsksForRunsWhileItWaits(t *testing.T) {
	s := newScene(t)
	run := func() controller.Action {
		t.Helper()
		p := s.plan()
		Lookup(p, "found", s.handle, kube.Key{Name: "theirs"})
		action, err := p.Run(s.ctx)
		s.must(err)
		return action
	}
	if a := run(); a < controller.After(lookAgain) || a > controller.After(lookAgain+lookAgain/10+1) {
		t.Errorf("while the object is missing, the plan is run again after %s", time.Duration(a))
	}
	s.put("theirs", func(o *plant) { s.foreign[o.UID] = true })
	run() // the status is written
	if a := run(); a != controller.Done {
		t.Errorf("when the object is ready, the plan is run again after %s", time.Duration(a))
	}
	s.put("theirs", func(o *plant) { o.Spec.Size = 9 })
	if a := run(); a != controller.Done {
		t.Errorf("when the object has changed, the plan is run again after %s", time.Duration(a))
	}
	s.kept()
}

// A node that only reads wants no object, so it does not keep those of nodes that have left,
// even while its own object is missing.
func TestLookupKeepsNothing(t *testing.T) {
	for _, there := range []bool{false, true} {
		s := newScene(t)
		if there {
			s.put("theirs", func(o *plant) { s.foreign[o.UID] = true })
		}
		s.grow(all)
		read := func(p *Plan) { Lookup(p, "found", s.handle, kube.Key{Name: "theirs"}) }
		s.must(s.run(func(p *Plan) { read(p); s.add(p, "a") }))
		s.must(s.run(read))
		if s.plant("a") != nil {
			t.Errorf("the plant is kept: %+v", s.garden().Status.Nodes)
		}
		s.kept()
	}
}

// The elements of a collection that are no longer wanted are deleted.
func TestCollections(t *testing.T) {
	s := newScene(t)
	keys := []string{"x", "y", "z"}
	describe := func(p *Plan) {
		shards := Each(p, "shard", keys, s.handle, func(_ Inputs, key string) (*plant, error) { return named("shard-" + key), nil })
		Object(p, "sum", s.handle, func(in Inputs) (*plant, error) {
			o := named("sum")
			o.Spec.Size = len(shards.From(in))
			return o, nil
		}).Needs(shards)
	}
	s.must(s.run(describe))
	keys = []string{"z", "x"}
	s.must(s.run(describe))
	if got := s.plants(); !slices.Equal(got, []string{"shard-x", "shard-z", "sum"}) || s.plant("sum").Spec.Size != 2 {
		t.Errorf("plants are %v, the sum is %d", got, s.plant("sum").Spec.Size)
	}
	s.is("shard/z", Ready, "")
}
