package plan

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/ready"
)

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
			if !errors.Is(err, errGraph) || !controller.IsTerminal(err) || !strings.Contains(err.Error(), c.want) {
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
			if o.Spec.Size == 0 && o.Status.Conditions[0].Type != "Ready" {
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

// A node that an if of the description leaves out takes no other node with it: the node that
// has needed it is changed first.
func TestOptionalNeed(t *testing.T) {
	s := newScene(t)
	cache := true
	describe := func(p *Plan) {
		var a *Node[plant]
		app := Object(p, "app", s.handle, func(in Inputs) (*plant, error) {
			o := named("app")
			if a != nil {
				o.Spec.Size = len(a.From(in).Name)
			}
			return o, nil
		})
		if cache {
			a = s.add(p, "cache")
			app.Needs(a)
		}
	}
	s.must(s.run(describe))
	if size := s.plant("app").Spec.Size; size != len("cache") {
		t.Errorf("the size of app is %d", size)
	}
	cache, s.notes = false, nil
	s.must(s.run(describe))
	s.is("app", Ready, "")
	if app := s.plant("app"); app == nil || app.Spec.Size != 0 || s.plant("cache") != nil {
		t.Errorf("plants are %v, app is %+v", s.plants(), app)
	}
	changed := slices.Index(s.notes, "PATCH "+plantPath("app"))
	deleted := slices.Index(s.notes, "DELETE "+plantPath("cache"))
	if changed < 0 || deleted < changed {
		t.Errorf("requests are %q", s.notes)
	}
	if nodes := s.garden().Status.Nodes; len(nodes) != 1 {
		t.Errorf("the status has the nodes %+v", nodes)
	}
	s.kept()
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
