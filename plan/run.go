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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
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
	claim    claim
	answer   answer // of fetch
	askErr   error  // of fetch
	doubted  bool   // an earlier creation of the thing was not answered
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
// Run returns an error if a node failed; the others have been seen to. The error wraps
// [ErrGraph] if the plan is wrong. The action asks for another run while something waits.
//
// If the owner has the annotation [Paused], Run only says so in a condition.
func (p *Plan) Run(ctx context.Context) (controller.Action, error) {
	g, err := p.graph()
	switch {
	case err != nil:
		return controller.Done, controller.Terminal(err)
	case p.paused():
		return controller.Done, p.pause(ctx)
	}
	r := p.begin()
	defer r.end()
	r.walk(ctx, g.forward())
	r.block()
	now, later := r.inventory.leaving(p.nodes)
	for _, l := range later {
		l.enter(Deleting, "waiting for the nodes of the plan", r.now)
	}
	failed := r.leave(ctx, now)
	return r.conclude(ctx, failed, true)
}

// graph checks the description.
func (p *Plan) graph() (*graph, error) {
	var nodes []vertex
	for i, n := range p.nodes {
		n.place = i
		if strings.Contains(n.name, former) {
			p.wrong(fmt.Errorf("%w: the name %q has a %q, which marks former objects of a node", ErrGraph, n.name, former))
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
		return nil, fmt.Errorf("%w: the owner has no uid: it must be read from the server", ErrGraph)
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
	now       time.Time
	// again is the time after which the plan must be run again, 0 if it need not.
	again time.Duration
}

func (p *Plan) begin() *run {
	return &run{
		plan: p, inventory: newInventory(p.status.Nodes, p.nodes), crew: newCrew(p.Concurrency),
		was: p.status.glimpse(), now: time.Now(),
	}
}

// end waits for all requests and calls, and leaves no call open.
func (r *run) end() {
	r.crew.wait()
	for _, n := range r.plan.nodes {
		n.finish()
	}
}

func (r *run) lookIn(d time.Duration) {
	if d > 0 && (r.again == 0 || d < r.again) {
		r.again = d
	}
}

// walk visits the nodes in order. It builds those whose needs are ready, one at a time.
// When no other can be built, it records the objects and things that may be new, and only
// then lets the crew create them.
func (r *run) walk(ctx context.Context, w *walk) {
	next := w.first()
	var unrecorded []*node
	for {
		for ; len(next) > 0; next = next[1:] {
			i := next[0]
			n := r.plan.nodes[i]
			r.visit(ctx, n)
			switch {
			case n.isAbsent:
				n.record.enter(Absent, "", r.now)
				next = append(next, w.done(i)...)
			case n.err != nil:
			case n.record.built && !n.record.stored && !n.record.unmade():
				unrecorded = append(unrecorded, n)
			default:
				r.ask(ctx, n)
			}
		}
		// A thing is recorded later: when it is known that it has to be created.
		r.intend(ctx, unrecorded)
		unrecorded = nil
		answered, ok := r.crew.next()
		if !ok {
			return
		}
		urgent := false
		for _, i := range answered {
			n := r.plan.nodes[i]
			urgent = r.judge(ctx, n) || urgent
			if n.err == nil && n.answer.create {
				unrecorded = append(unrecorded, n)
			}
		}
		if urgent {
			r.keep(ctx, answered)
		}
		for _, i := range answered {
			if r.plan.nodes[i].ready {
				next = append(next, w.done(i)...)
			}
		}
	}
}

// ask has the crew see to a node.
func (r *run) ask(ctx context.Context, n *node) {
	n.claim.late = n.isLate(n.record.NodeStatus, r.now)
	if t := n.record.Thing; t != nil {
		record, thing := n.record.NodeStatus, *t
		record.Thing = &thing
		n.claim.record = &record
	}
	c := n.claim
	r.crew.send(n.place, func() {
		defer func() {
			if v := recover(); v != nil {
				n.askErr = panicked(ctx, n, v)
			}
		}()
		n.answer, n.askErr = n.typed.fetch(ctx, c)
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
			return err
		}
		n.claim = *c
		return r.inventory.claim(n, c.key)
	})
	r.fail(n, err)
}

// needed returns the names of the nodes that a node needs.
func (n *node) needed() (names []string) {
	for _, need := range n.needs {
		if !slices.Contains(names, need.name) {
			names = append(names, need.name)
		}
	}
	return names
}

// fail notes an error of a node.
func (r *run) fail(n *node, err error) {
	if err == nil {
		return
	}
	n.err, n.ready, n.isAbsent = fmt.Errorf("node %q: %w", n.name, err), false, false
	if errors.Is(err, ErrGraph) {
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

// intend records the objects and things of nodes in the owner's status, and then has the
// crew create them.
func (r *run) intend(ctx context.Context, nodes []*node) {
	if len(nodes) == 0 {
		return
	}
	was := make(map[*node]ThingStatus)
	for _, n := range nodes {
		if n.answer.create {
			was[n] = *n.record.Thing
			n.doubted = r.plan.things[n.kind.Kind].inDoubt(n.record.Thing, time.Now())
			n.record.Thing.intend(time.Now())
			n.claim.recorded = true
		}
	}
	err := r.store(ctx)
	for _, n := range nodes {
		if err != nil {
			if before, ok := was[n]; ok {
				*n.record.Thing = before
			}
			r.fail(n, fmt.Errorf("record what is about to be created: %w", err))
			continue
		}
		r.ask(ctx, n)
	}
}

// keep stores the outcomes of nodes before others rely on them.
func (r *run) keep(ctx context.Context, nodes []int) {
	err := r.store(ctx)
	if err == nil {
		return
	}
	for _, i := range nodes {
		if n := r.plan.nodes[i]; n.ready && n.outside {
			r.fail(n, fmt.Errorf("record the outcome: %w", err))
		}
	}
}

// enterWaiting gives a state to the nodes that have none yet.
func (r *run) enterWaiting() {
	for _, n := range r.plan.nodes {
		if n.record != nil && n.record.State == "" {
			n.record.enter(Waiting, "", r.now)
		}
	}
}

// store writes the owner's status.
func (r *run) store(ctx context.Context) error {
	r.enterWaiting()
	r.plan.status.Nodes = r.inventory.status(r.plan.nodes)
	if err := r.plan.ensureOwner(ctx); err != nil {
		return err
	}
	for _, rec := range r.inventory.records {
		rec.stored = rec.Kind != ""
	}
	return nil
}

// judge takes the answer about a node. It reports whether the node has an outcome that
// must be stored first.
func (r *run) judge(ctx context.Context, n *node) (urgent bool) {
	a := n.answer
	r.lookIn(a.again)
	switch {
	case n.askErr != nil:
		if a.refused && !n.doubted {
			n.record.Thing.Called = metav1.Time{}
		}
		r.fail(n, n.askErr)
		return false
	case a.create:
		return false
	case a.got == nil:
		if a.deleted {
			n.record.Thing.Token = ""
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
	switch v.Phase {
	case ready.Ready:
		n.ready = true
		n.record.enter(Ready, "", r.now)
	case ready.Failed:
		n.record.enter(Failed, v.Message, r.now)
	default:
		if a.why != "" {
			v.Message += ": " + a.why
		}
		r.wait(n, v.Message)
	}
	return v.urgent
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
		if n.visited {
			continue
		}
		var waits []string
		for _, need := range n.needs {
			if !need.ready && !slices.Contains(waits, need.name) {
				waits = append(waits, need.name)
			}
		}
		n.record.enter(Blocked, "waits for "+strings.Join(waits, ", "), r.now)
	}
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
	r.enterWaiting()
	p.status.Nodes = r.inventory.status(p.nodes)
	p.status.summarize(p.owner)
	if err := p.ensureOwner(ctx); err != nil {
		failed = append(failed, err)
	} else {
		p.Monitor.saw(p, r.was)
	}
	if len(failed) > 0 {
		return controller.Done, join(failed, r.again > 0)
	}
	if r.again == 0 {
		return controller.Done, nil
	}
	return controller.After(r.again + rand.N(r.again/10+1)), nil
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
