package plan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// progress is what a run knows of a node.
type progress struct {
	place    int // in the description
	record   *record
	visited  bool // all that it needs is ready, or one of these nodes is absent
	isAbsent bool
	ready    bool
	err      error
	claim    *claim  // nil before the visit
	answer   *answer // of fetch; nil if it was not called
	doubted  bool    // an earlier creation of the thing was not answered
	unserved bool    // its kind is not installed, so that its scope is not known
}

const (
	defaultConcurrency = 8
	// lookAgain is the time after which a run is repeated although no change was seen.
	// Some changes are not watched, such as those of an object that Lookup reads.
	lookAgain = 30 * time.Second
	// lookSoon is lookAgain for objects that are being deleted.
	lookSoon = 5 * time.Second
)

// Run makes the children as the plan describes them, as far as that can be done at
// present: it applies the nodes whose needs are ready, deletes the objects of nodes that
// have left, and writes the owner's status. The functions of the plan's nodes are called
// one at a time, on the goroutine that calls Run.
//
// Run returns an error if a node failed; the others have been seen to. If the plan is wrong,
// because there is a cycle, two nodes have one name, or a node needs something that is not
// in the plan, then nothing is done, and the error and the conditions say so. The action asks
// for another run while something waits, also beside an error: the back-off of a failed node
// must not hold up the others. So the controller's Reconcile returns both.
//
// If the owner has the annotation [Paused], Run only says so in a condition.
func (p *Plan) Run(ctx context.Context) (controller.Action, error) {
	g, err := p.graph()
	switch {
	case err != nil:
		return controller.Done, p.refuse(ctx, err)
	case p.IsPaused():
		return controller.Done, p.pause(ctx)
	}
	r := p.begin(ctx)
	defer r.end()
	var failed []error
	if err := p.callWitness(ctx); err != nil {
		failed = append(failed, err)
	}
	r.walk(ctx, g.forward())
	r.block()
	now, later := r.inventory.leaving(p.nodes)
	for _, rec := range r.inventory.records { // in their order, because circle adds to messages
		if waits := later[rec]; waits != nil {
			rec.enter(Deleting, waitingFor(waits)+r.circle(rec, later), r.now)
		}
	}
	return r.conclude(ctx, append(failed, r.leave(ctx, now)...), true)
}

// graph checks the description.
func (p *Plan) graph() (*graph, error) {
	nodes := make([]vertex, 0, len(p.nodes))
	for i, n := range p.nodes {
		n.place = i
		if strings.Contains(n.name, former) {
			p.wrong(fmt.Errorf("%w: the name %q has a %q, which marks former objects of a node", errGraph, n.name, former))
		}
		if !utf8.ValidString(n.name) {
			p.wrong(fmt.Errorf("%w: the name %q is not UTF-8, so the status cannot hold it", errGraph, n.name))
		}
		nodes = append(nodes, vertex{n.name, n.needed()})
	}
	g, err := newGraph(nodes)
	switch {
	case p.err != nil:
		return nil, p.err
	case err != nil:
		return nil, err
	case p.owner.GetUID() == "":
		return nil, fmt.Errorf("%w: the owner has no uid: it must be read from the server", errGraph)
	}
	return g, nil
}

// run is one run of a plan. Its fields belong to the goroutine that called Run. The crew
// sends requests.
type run struct {
	plan      *Plan
	inventory *inventory
	crew      *crew
	was       glimpse
	written   written
	wanted    map[metav1.Object]*node // the nodes that have built an object
	scratch   *scratch
	now       time.Time
	look      context.Context //nolint:containedctx // it is that of Run, with the question asked
	asked     glance.Object
	// again is the time after which the plan must be run again, 0 if it need not.
	again time.Duration
}

func (p *Plan) begin(ctx context.Context) *run {
	now, s := time.Now(), scratches.Get().(*scratch)
	r := &run{
		plan: p, inventory: newInventory(p.status.Nodes, p.nodes, now, s), crew: newCrew(p.Concurrency),
		was: p.Monitor.glimpse(p.status), written: written{status: p.status.copied()}, now: now,
		scratch: s, wanted: s.wanted,
	}
	r.look = glance.Only(ctx, &r.asked)
	return r
}

// end waits for all requests and calls, and leaves no call open.
func (r *run) end() {
	r.crew.wait()
	for _, n := range r.plan.nodes {
		n.finish()
	}
	r.scratch.release(r.plan.nodes)
}

func (r *run) lookIn(d time.Duration) {
	if d > 0 && (r.again == 0 || d < r.again) {
		r.again = d
	}
}

// know completes the claim of a node by its record.
func (r *run) know(n *node) {
	n.claim.late = n.isLate(n.record.NodeStatus, r.now)
	n.claim.orphans = len(n.record.Orphans) > 0
	n.claim.known = n.record.UID != ""
	if n.record.Done != n.claim.task {
		n.record.Done = ""
	}
	n.claim.done = n.record.Done != ""
}

// settled returns the answer about a node whose object is as it should be.
func (r *run) settled(ctx context.Context, n *node) (a answer, ok bool) {
	r.know(n)
	err := protected(ctx, n, func() error { a, ok = n.typed.settled(r.look, *n.claim, &r.asked); return nil })
	return a, ok && err == nil
}

// ask has the crew see to a node.
func (r *run) ask(ctx context.Context, n *node) {
	r.know(n)
	if t := n.record.Thing; t != nil {
		record, thing := n.record.NodeStatus, *t
		record.Thing = &thing
		n.claim.record = &record
	}
	n.claim.stored = n.claim.known && !n.claim.marked && n.typed.isStored(ctx)
	c, a := *n.claim, new(answer)
	n.answer = a
	r.crew.send(n.place, func() {
		defer func() {
			if v := recover(); v != nil {
				a.err = panicked(ctx, n, v)
			}
		}()
		got, err := n.typed.fetch(ctx, c)
		*a = got
		a.err = err
	})
}

// visit builds a node, unless it is absent.
func (r *run) visit(ctx context.Context, n *node) {
	n.visited = true
	for _, need := range n.needs {
		if need.isAbsent {
			n.isAbsent = true
			return
		}
	}
	err := protected(ctx, n, func() (err error) {
		in := Inputs{n, new(error)}
		if n.when != nil {
			n.isAbsent = !n.when(in)
		}
		if *in.err != nil || n.isAbsent {
			return *in.err
		}
		c, err := n.typed.build(ctx, in)
		if err != nil || c == nil {
			n.claim = new(claim)
			return err
		}
		n.claim = c
		if other := r.wanted[c.object]; other != nil {
			return fmt.Errorf("%w: %q and %q build one and the same Go object: each needs its own", errGraph, other.name, n.name)
		}
		if c.object != nil {
			r.wanted[c.object] = n
		}
		return r.inventory.claim(n, c.key)
	})
	if errors.Is(err, kube.ErrNotServed) {
		n.unserved = true
		r.wait(n, notInstalled)
		return
	}
	r.fail(n, err)
}

// needed returns the names of the nodes that a node needs. The slice must not be changed.
func (n *node) needed() []string {
	if n.names == nil {
		for _, need := range n.needs {
			if !slices.Contains(n.names, need.name) {
				n.names = append(n.names, need.name)
			}
		}
		n.names = slices.Clip(n.names) // an append to it makes another one
	}
	return n.names
}

// fail notes an error of a node.
func (r *run) fail(n *node, err error) {
	if err == nil {
		return
	}
	n.err, n.ready, n.isAbsent = fmt.Errorf("node %q: %w", n.name, err), false, false
	if errors.Is(err, errGraph) {
		n.err = controller.Terminal(n.err)
	}
	n.record.enter(Failed, err.Error(), r.now)
}

// protected calls functions of the program. A panic is an error of the node.
func protected(ctx context.Context, n *node, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(ctx, n, v)
		}
	}()
	return f()
}

// panicked logs a panic of a function of the program.
func panicked(ctx context.Context, n *node, v any) error {
	controller.Logger(ctx).ErrorContext(ctx, "a function of a node panicked", "node", n.name, "panic", v, "stack", string(debug.Stack()))
	return fmt.Errorf("panic: %v", v)
}

// judge takes the answer about a node. It reports whether the node has an outcome that
// must be stored first.
func (r *run) judge(ctx context.Context, n *node, a answer) (urgent bool) {
	r.lookIn(a.again)
	switch {
	case a.err != nil:
		if a.refused && !n.doubted {
			n.record.Thing.Called = metav1.Time{}
			r.letGo(n)
		}
		r.fail(n, a.err)
		return false
	case a.create:
		return false
	case a.got == nil:
		if a.deleted {
			n.record.Thing.Token = ""
		}
		if a.orphans != nil {
			n.record.Orphans = a.orphans
		}
		r.wait(n, a.wait)
		return false
	}
	var v verdict
	err := protected(ctx, n, func() error { n.typed.keep(a, n.record, r.now, &v); return nil })
	if n.record.built {
		n.record.applied, n.record.Needs = true, n.needed()
	}
	if err != nil {
		r.fail(n, err)
		return v.urgent
	}
	r.lookIn(v.again)
	if a.why != "" {
		v.Message += ": " + a.why
	}
	switch v.Phase {
	case ready.Ready:
		n.ready = true
		n.record.enter(Ready, "", r.now)
	case ready.Failed:
		n.record.enter(Failed, v.Message, r.now)
	default:
		r.wait(n, v.Message)
	}
	return v.urgent
}

// letGo leaves the name of a thing to others, if the thing was certainly not made.
func (r *run) letGo(n *node) {
	if !n.record.Thing.ours() {
		r.plan.things[n.kind.Kind].letGo(r.plan, n.record.NodeStatus)
	}
}

// wait notes that a node is not ready, and whether that lasts too long.
func (r *run) wait(n *node, message string) {
	n.record.enter(Waiting, message, r.now)
	left := n.record.Since.Add(n.within).Sub(r.now)
	switch {
	case n.within <= 0:
	case left <= 0:
		n.record.enter(Degraded, fmt.Sprintf("not ready within %s: %s", n.within, message), r.now)
	default:
		r.lookIn(left)
	}
	r.lookIn(lookAgain)
}

// block notes which nodes were not visited, and why.
func (r *run) block() {
	for _, n := range r.plan.nodes {
		if !n.visited {
			n.record.enter(Blocked, blockedBy(n.unready()), r.now)
		}
	}
}

func blockedBy(names []string) string { return "waits for " + strings.Join(names, ", ") }

// unready returns the names of the nodes for which a node waits.
func (n *node) unready() (names []string) {
	for _, need := range n.needs {
		if !need.ready && !need.isAbsent && !slices.Contains(names, need.name) {
			names = append(names, need.name)
		}
	}
	return names
}

// conclude writes the status and returns the result of a run.
func (r *run) conclude(ctx context.Context, failed []error, report bool) (controller.Action, error) {
	p := r.plan
	for _, n := range p.nodes {
		if n.err != nil {
			failed = append(failed, n.err)
		}
	}
	for _, rec := range r.inventory.records {
		if rec.leaves() {
			r.lookIn(lookSoon)
		}
	}
	if p.Report != nil && report {
		if err := protected(ctx, &node{name: "Report"}, func() error { p.Report(); return nil }); err != nil {
			failed = append(failed, fmt.Errorf("report: %w", err))
		}
	}
	if err := r.write(ctx); err != nil {
		failed = append(failed, err)
	} else {
		p.Monitor.saw(p, r.was)
	}
	action := controller.Done
	if r.again > 0 {
		action = controller.After(r.again + rand.N(r.again/10+1))
	}
	if len(failed) > 0 {
		return action, join(failed, r.again > 0)
	}
	return action, nil
}

// retried is a terminal error that is retried.
type retried struct{ err error }

func (r retried) Error() string { return r.err.Error() }

func (r retried) Is(target error) bool { return errors.Is(r.err, target) }

// join joins errors. A retry is useless only if it is useless for all of them, and nothing
// else waits for it.
func join(all []error, waits bool) error {
	if !waits && !slices.ContainsFunc(all, func(err error) bool { return !controller.IsTerminal(err) }) {
		return errors.Join(all...)
	}
	var mixed []error
	for _, err := range all {
		if controller.IsTerminal(err) {
			err = retried{err} // a retry is of use for another one
		}
		mixed = append(mixed, err)
	}
	return errors.Join(mixed...)
}
