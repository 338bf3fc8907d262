package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/bubble"
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
	outside           bool // it is a step
}

// describe makes a plan of beds.
func describe(
	g *garden, gardens kube.Resource[garden], plants kube.Resource[plant], tools *Things[tool], beds []bed,
) *Plan {
	p := New(gardens, g, &g.Status.Status)
	p.Knows(tools)
	nodes := make(map[string]Need)
	reads := make(map[string]func(Inputs) string)
	named := make(map[string]string)
	for _, b := range beds {
		named[b.name] = b.plant
	}
	for _, b := range beds {
		needs := func(in Inputs) (string, error) {
			var needs []string
			for _, need := range b.needs {
				if got := reads[need](in); got != named[need] {
					return "", fmt.Errorf("%s reads %q of %s", b.name, got, need)
				}
				needs = append(needs, named[need])
			}
			return strings.Join(needs, ","), nil
		}
		if b.outside {
			n := Step(p, b.name, tools, func(in Inputs) (*tool, error) {
				all, err := needs(in)
				return &tool{Name: b.plant, Color: strconv.Itoa(b.size), Needs: all}, err
			})
			reads[b.name] = func(in Inputs) string { return n.From(in).Name }
			nodes[b.name] = further(n, b, nodes)
			continue
		}
		n := Object(p, b.name, plants, func(in Inputs) (*plant, error) {
			all, err := needs(in)
			o := new(plant)
			o.Labels = map[string]string{"plant": b.plant}
			o.Name, o.Annotations = b.plant, map[string]string{"needs": all}
			o.Spec.Size = b.size
			return o, err
		}).ReadyWhen(func(o *plant) ready.State {
			if o.isReady() {
				return ready.State{Phase: ready.Ready}
			}
			return ready.State{Phase: ready.Waiting}
		})
		reads[b.name] = func(in Inputs) string { return n.From(in).Name }
		nodes[b.name] = further(n, b, nodes)
	}
	return p
}

func further[T any](n *Node[T], b bed, nodes map[string]Need) *Node[T] {
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
	return n
}

// someBeds draws a plan. Plans of different times share names and plants.
func someBeds(t *rapid.T) (beds []bed) {
	n := rapid.IntRange(0, 7).Draw(t, "nodes")
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "names")
	plants := rapid.Permutation([]string{"p", "q", "r", "s", "t", "u", "v"}).Draw(t, "plants")
	return bedsOf(t, names[:n], plants[:n])
}

// manyBeds draws a plan of 20 to 200 nodes. A later plan has others of 300 names.
func manyBeds(t *rapid.T) []bed {
	n, first := rapid.IntRange(20, 200).Draw(t, "nodes"), rapid.IntRange(0, 100).Draw(t, "first")
	var names, plants []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%03d", first+i))
		plants = append(plants, fmt.Sprintf("p%03d", first+(i+first)%n))
	}
	return bedsOf(t, names, plants)
}

func bedsOf(t *rapid.T, names, plants []string) (beds []bed) {
	usual := rapid.Bool().Draw(t, "usual names")
	for i := range names {
		b := bed{name: names[i], plant: plants[i], size: rapid.IntRange(1, 3).Draw(t, "size")}
		if usual {
			b.plant = "p-" + b.name
		}
		if b.outside = rapid.IntRange(0, 2).Draw(t, "outside") == 0; b.outside {
			b.plant = "tool-" + b.plant
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

// A process is killed at any request or call, with the request executed or not. Requests
// are refused; calls fail before they take effect, after it, or take effect later. Plants
// become ready whenever they like, and the plan changes. In all of this, nothing is made
// before its needs are ready, nothing is deleted before its dependents, no tool is made
// twice, and a foreign plant is never touched. When it has calmed down, exactly the wanted
// plants and tools are there, and another run writes and calls nothing. After the deletion
// nothing is left.
func TestAnythingMayHappen(t *testing.T) {
	bubble.Check(t, 3, func(t *rapid.T, _ *testing.T) { anythingHappens(t, someBeds, 1) })
}

// The same holds for plans of up to 200 nodes.
func TestAnythingMayHappenToLargePlans(t *testing.T) {
	bubble.Check(t, 10, func(t *rapid.T, _ *testing.T) { anythingHappens(t, manyBeds, 50) })
}

// anythingHappens checks a random history of plans. Troubles come within so many times the
// requests of a small plan.
func anythingHappens(t *rapid.T, draw func(t *rapid.T) []bed, requests int) {
	w := newWorld()
	w.shed.unique = rapid.Bool().Draw(t, "unique")
	w.shed.secretive = rapid.Bool().Draw(t, "secretive")
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
	w.shed.abandoned = retained
	var beds []bed
	var tools *Things[tool]
	var marks bool
	process := func() {
		marks = rapid.Bool().Draw(t, "marks") // it may be of another release
		tools = w.shed.things()
		tools.Adopt = func(r Ref, is *tool) bool { return retained(is.Name) }
		tools.Outcome = func(is *tool) map[string]string {
			if is.ID == "" {
				return nil
			}
			return map[string]string{"id": is.ID}
		}
	}
	process()
	turn := func(f func(ctx context.Context, p *Plan) (controller.Action, error)) (controller.Action, error) {
		ctx, gardens, plants := w.process(context.Background())
		defer w.kill()
		p := describe(w.read(), gardens, plants, tools, beds)
		p.Marks = marks
		p.Concurrency = rapid.SampledFrom([]int{1, 1, 1, 1, 8}).Draw(t, "concurrency")
		return f(ctx, p)
	}
	trouble := func() {
		w.calm()
		switch rapid.IntRange(0, 5).Draw(t, "trouble") {
		case 0:
			w.killAt = rapid.IntRange(0, 16*requests).Draw(t, "killed at")
			w.lost = w.killAt > 0 && rapid.Bool().Draw(t, "executed")
		case 1:
			left := rapid.IntRange(0, 12*requests).Draw(t, "refused at")
			w.refuse = refuseOnce(left, rapid.SampledFrom([]int{403, 409, 422}).Draw(t, "code"))
		case 2, 3:
			left := rapid.IntRange(0, 5*requests).Draw(t, "fails at")
			late := time.Duration(rapid.IntRange(0, 59).Draw(t, "late")) * time.Second
			f := fault{errUnanswered, rapid.Bool().Draw(t, "executed"), late}
			refuses := rapid.Bool().Draw(t, "then refuses")
			w.shed.fault = func(call string) fault {
				left--
				switch {
				case left == -2 && refuses && strings.HasPrefix(call, "create "):
					return fault{err: ErrRefused}
				case left != -1:
					return fault{}
				}
				if strings.HasPrefix(call, "delete ") || strings.HasPrefix(call, "update ") {
					f.late = 0
				}
				return f
			}
		}
		if rapid.IntRange(0, 2).Draw(t, "time") == 0 {
			time.Sleep(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
		}
		if rapid.Bool().Draw(t, "another process") {
			process()
		}
		w.grow(func(string) bool { return rapid.IntRange(0, 2).Draw(t, "ready") > 0 })
	}
	calm := func(done func(controller.Action) bool, f func(ctx context.Context, p *Plan) (controller.Action, error)) {
		w.calm()
		var action controller.Action
		var err error
		for range 300 {
			w.grow(func(string) bool { return true })
			if action, err = turn(f); err == nil && done(action) {
				return
			}
			time.Sleep(max(time.Duration(action), time.Second))
		}
		status, _ := json.Marshal(w.garden().Status.Nodes)
		t.Fatalf("it does not settle: %v %v\nplan %+v\nstatus %s\nplants %v", action, err, beds, status, w.plants())
	}
	settled := func(controller.Action) bool {
		return !slices.ContainsFunc(w.garden().Status.Nodes, func(n NodeStatus) bool { return n.State != Ready && n.State != Absent })
	}
	run := func(ctx context.Context, p *Plan) (controller.Action, error) { return p.Run(ctx) }
	remove := func(ctx context.Context, p *Plan) (controller.Action, error) { return p.Delete(ctx) }
	for range rapid.IntRange(1, 4).Draw(t, "plans") {
		beds = draw(t)
		for i := range beds {
			// The outcome of a retained tool could not be found again.
			beds[i].retain = beds[i].retain && !w.shed.secretive
		}
		w.mu.Lock() // a late call may take effect at any time
		w.story = append(w.story, fmt.Sprintf("PLAN %+v", beds))
		w.mu.Unlock()
		note(beds)
		for range rapid.IntRange(0, 6).Draw(t, "turns") {
			trouble()
			_, _ = turn(run)
		}
		if !rapid.Bool().Draw(t, "settles") {
			continue
		}
		calm(settled, run)
		want := present(beds)
		for name, b := range want {
			if b.outside {
				if is := w.shed.find(name); is == nil || is.Color != strconv.Itoa(b.size) {
					t.Fatalf("tool %s is %+v, want %+v", name, is, b)
				}
				continue
			}
			p := w.plant(name)
			if p == nil || p.Spec.Size != b.size {
				t.Fatalf("plant %s is %+v, want %+v", name, p, b)
			}
		}
		w.notes, w.shed.calls = nil, nil
		before := w.snapshot()
		if _, err := turn(run); err != nil || len(w.shed.calls) > 0 {
			t.Fatalf("a settled plan makes calls %v: %v", w.shed.calls, err)
		}
		if after := w.snapshot(); after != before {
			t.Fatalf("a settled plan changes something:\n%s\nbefore:\n%s", after, before)
		}
		// No store runs, so each node and the status is applied as it is.
		for i, note := range w.notes {
			method, path, _ := strings.Cut(note, " ")
			if method != http.MethodGet && method != http.MethodPatch || slices.Contains(w.notes[:i], note) && method == http.MethodPatch {
				t.Fatalf("a settled plan sends %s %s among %v", method, path, w.notes)
			}
		}
		for _, name := range slices.Concat(w.plants(), w.shed.names()) {
			if _, wanted := want[name]; !wanted && !retained(name) {
				t.Fatalf("plant %s is left, want %v\nstatus %+v", name, slices.Sorted(maps.Keys(want)), w.garden().Status.Nodes)
			}
		}
	}
	for range rapid.IntRange(0, 6).Draw(t, "turns of the deletion") {
		trouble()
		_, _ = turn(remove)
	}
	calm(func(a controller.Action) bool { return a == controller.Done }, remove)
	time.Sleep(time.Hour)
	for _, name := range w.shed.names() {
		if !retained(name) {
			t.Fatalf("tool %s is left after the deletion", name)
		}
	}
	w.grow(func(string) bool { return true })
	for _, name := range w.plants() {
		p := w.plant(name)
		if !retained(name) || len(p.OwnerReferences) > 0 || p.Annotations[Mark] != "" {
			t.Fatalf("plant %s is left after the deletion: %+v", name, p.ObjectMeta)
		}
	}
	if len(w.broken) > 0 {
		fmt.Println("STORY", w.broken, "\n", strings.Join(w.story, "\n"))
		t.Fatal(strings.Join(w.broken, "\n"))
	}
}
