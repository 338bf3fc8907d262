package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// bed describes a node of a random plan.
type bed struct {
	name, plant       string
	needs             []string // names of other nodes, which come before it
	size              int
	retain, untilGone bool
	off               bool // its condition does not hold
}

// describe makes a plan of beds.
func describe(g *garden, gardens kube.Resource[garden], plants kube.Resource[plant], beds []bed) *Plan {
	p := New(gardens, g, &g.Status.Status)
	nodes := make(map[string]*Node[plant])
	named := make(map[string]string)
	for _, b := range beds {
		named[b.name] = b.plant
	}
	for _, b := range beds {
		n := Object(p, b.name, plants, func(in Inputs) (*plant, error) {
			var needs []string
			for _, need := range b.needs {
				if got := nodes[need].From(in).Name; got != named[need] {
					return nil, fmt.Errorf("%s reads %q of %s", b.name, got, need)
				}
				needs = append(needs, named[need])
			}
			o := new(plant)
			o.Labels = map[string]string{"plant": b.plant}
			o.Name, o.Annotations = b.plant, map[string]string{"needs": strings.Join(needs, ",")}
			o.Spec.Size = b.size
			return o, nil
		}).ReadyWhen(func(o *plant) ready.State {
			if o.isReady() {
				return ready.State{Phase: ready.Ready}
			}
			return ready.State{Phase: ready.Waiting}
		})
		for _, need := range b.needs {
			n.Needs(nodes[need])
		}
		if b.retain {
			n.Retain()
		}
		if b.untilGone {
			n.UntilGone()
		}
		if b.off {
			n.When(func(Inputs) bool { return false })
		}
		nodes[b.name] = n
	}
	return p
}

// someBeds draws a plan. Plans of different times share names and plants.
func someBeds(t *rapid.T) (beds []bed) {
	n := rapid.IntRange(0, 7).Draw(t, "nodes")
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "names")
	plants := rapid.Permutation([]string{"p", "q", "r", "s", "t", "u", "v"}).Draw(t, "plants")
	usual := rapid.Bool().Draw(t, "usual names")
	for i := range n {
		b := bed{name: names[i], plant: plants[i], size: rapid.IntRange(1, 3).Draw(t, "size")}
		if usual {
			b.plant = "p-" + b.name
		}
		b.retain = rapid.IntRange(0, 9).Draw(t, "retain") == 0
		b.untilGone = rapid.Bool().Draw(t, "until gone")
		b.off = rapid.IntRange(0, 9).Draw(t, "off") == 0
		if i > 0 {
			b.needs = slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom(names[:i]), 0, 3).Draw(t, "needs"))))
		}
		beds = append(beds, b)
	}
	return beds
}

// present returns the plants that a plan wants.
func present(beds []bed) map[string]bed {
	off := make(map[string]bool)
	want := make(map[string]bed)
	for _, b := range beds {
		if b.off || slices.ContainsFunc(b.needs, func(need string) bool { return off[need] }) {
			off[b.name] = true
			continue
		}
		want[b.plant] = b
	}
	return want
}

// A process is killed at any request, with the request executed or not, requests are
// refused, plants become ready whenever they like, and the plan changes. Whatever
// happens, nothing is applied before its needs are ready, nothing is deleted before its
// dependents, and a foreign plant is never touched. When it has calmed down, exactly the
// wanted plants are there; and after the deletion nothing is.
func TestAnythingMayHappen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		retains := make(map[string]bool) // names of nodes that were ever described with Retain
		nodes := make(map[string][]string)
		note := func(beds []bed) {
			for _, b := range beds {
				retains[b.name] = retains[b.name] || b.retain
				nodes[b.plant] = append(nodes[b.plant], b.name)
			}
		}
		// retained reports that a plant may stay: a node retains the plant that it has, also
		// one that it had under an earlier description.
		retained := func(plant string) bool {
			return slices.ContainsFunc(nodes[plant], func(name string) bool { return retains[name] })
		}
		var beds []bed
		turn := func(f func(ctx context.Context, p *Plan) (controller.Action, error)) (controller.Action, error) {
			ctx, gardens, plants := w.process(context.Background())
			defer w.kill()
			p := describe(w.read(), gardens, plants, beds)
			p.Concurrency = rapid.SampledFrom([]int{1, 1, 8}).Draw(t, "concurrency")
			return f(ctx, p)
		}
		trouble := func() {
			w.killAt, w.lost, w.refuse = -1, false, nil
			switch rapid.IntRange(0, 3).Draw(t, "trouble") {
			case 0:
				w.killAt = rapid.IntRange(0, 12).Draw(t, "killed at")
				w.lost = w.killAt > 0 && rapid.Bool().Draw(t, "executed")
			case 1:
				left := rapid.IntRange(0, 12).Draw(t, "refused at")
				w.refuse = refuseOnce(left, rapid.SampledFrom([]int{403, 409, 422}).Draw(t, "code"))
			}
			w.grow(func(string) bool { return rapid.IntRange(0, 2).Draw(t, "ready") > 0 })
		}
		calm := func(done func() bool, f func(ctx context.Context, p *Plan) (controller.Action, error)) {
			w.killAt, w.lost, w.refuse = -1, false, nil
			var action controller.Action
			var err error
			for range 60 {
				w.grow(func(string) bool { return true })
				if action, err = turn(f); err == nil && action == controller.Done && done() {
					return
				}
			}
			t.Fatalf("it does not settle: %v %v\nplan %+v\nstatus %+v\nplants %v", action, err, beds, w.garden().Status.Nodes, w.plants())
		}
		run := func(ctx context.Context, p *Plan) (controller.Action, error) { return p.Run(ctx) }
		remove := func(ctx context.Context, p *Plan) (controller.Action, error) { return p.Delete(ctx) }
		for range rapid.IntRange(1, 4).Draw(t, "plans") {
			beds = someBeds(t)
			note(beds)
			for range rapid.IntRange(0, 6).Draw(t, "turns") {
				trouble()
				_, _ = turn(run)
			}
			if !rapid.Bool().Draw(t, "settles") {
				continue
			}
			calm(func() bool { return true }, run)
			want := present(beds)
			for name, b := range want {
				p := w.plant(name)
				if p == nil || p.Spec.Size != b.size {
					t.Fatalf("plant %s is %+v, want %+v", name, p, b)
				}
			}
			for _, name := range w.plants() {
				if _, wanted := want[name]; !wanted && !retained(name) {
					t.Fatalf("plant %s is left, want %v\nstatus %+v", name, slices.Sorted(maps.Keys(want)), w.garden().Status.Nodes)
				}
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "turns of the deletion") {
			trouble()
			_, _ = turn(remove)
		}
		calm(func() bool { return true }, remove)
		w.grow(func(string) bool { return true })
		for _, name := range w.plants() {
			p := w.plant(name)
			if !retained(name) || len(p.OwnerReferences) > 0 || p.Annotations[Mark] != "" {
				t.Fatalf("plant %s is left after the deletion: %+v", name, p.ObjectMeta)
			}
		}
		if len(w.broken) > 0 {
			t.Fatal(strings.Join(w.broken, "\n"))
		}
	})
}
