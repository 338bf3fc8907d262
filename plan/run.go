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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// progress is what a run knows of a node.
type progress struct {
	record   *record
	visited  bool // all that it needs is ready, or one of these nodes is absent
	isAbsent bool
	ready    bool
	err      error
	claim    claim
	got      metav1.Object // the object, as fetch has returned it
	gotErr   error
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
func (p *Plan) Run(ctx context.Context) (controller.Action, error) {
	g, err := p.graph()
	if err != nil {
		return controller.Done, controller.Terminal(err)
	}
	r := &run{plan: p, inventory: newInventory(p.status.Nodes, p.nodes), crew: newCrew(p.Concurrency), now: time.Now()}
	defer r.crew.wait()
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
	for _, n := range p.nodes {
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
	now       time.Time
	// again is the time after which the plan must be run again, 0 if it need not.
	again time.Duration
}

func (r *run) lookIn(d time.Duration) {
	if d > 0 && (r.again == 0 || d < r.again) {
		r.again = d
	}
}

// walk visits the nodes in order. It builds those whose needs are ready, one at a time.
// When no other can be built, it records the objects that may be new, and only then lets
// the crew apply them.
func (r *run) walk(ctx context.Context, w *walk) {
	nodes := r.plan.nodes
	next := w.first()
	var recorded, unrecorded []int
	for {
		for len(next) > 0 {
			i := next[0]
			next = next[1:]
			n := nodes[i]
			r.visit(ctx, n)
			switch {
			case n.isAbsent:
				n.record.enter(Absent, "", r.now)
				next = append(next, w.done(i)...)
			case n.err != nil:
				n.record.enter(Failed, n.err.Error(), r.now)
			case n.record.built && !n.record.stored:
				unrecorded = append(unrecorded, i)
			default:
				recorded = append(recorded, i)
			}
		}
		if len(unrecorded) > 0 {
			r.intend(ctx, unrecorded)
			recorded, unrecorded = append(recorded, unrecorded...), nil
		}
		for _, i := range recorded {
			if n := nodes[i]; n.err == nil {
				r.crew.send(i, func() { n.got, n.gotErr = n.typed.fetch(ctx, n.claim) })
			}
		}
		recorded = nil
		i, ok := r.crew.next()
		if !ok {
			return
		}
		r.judge(ctx, nodes[i])
		if nodes[i].ready {
			next = w.done(i)
		}
	}
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
		o, err := n.typed.build(in)
		if err != nil || o == nil {
			return err
		}
		if n.claim, err = n.own(ctx, o); err != nil {
			return err
		}
		if err := r.inventory.claim(n, n.claim.key); err != nil {
			return err
		}
		n.claim.uid = n.record.UID
		return nil
	})
	n.fail(err)
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
func (n *node) fail(err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrGraph):
		n.err, n.isAbsent = controller.Terminal(fmt.Errorf("node %q: %w", n.name, err)), false
	default:
		n.err, n.isAbsent = fmt.Errorf("node %q: %w", n.name, err), false
	}
}

// protected calls functions of the program. A panic is an error of the node.
func protected(ctx context.Context, n *node, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			controller.Logger(ctx).ErrorContext(ctx, "a function of a node panicked", "node", n.name, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

// intend records the objects of nodes in the owner's status before they are created.
func (r *run) intend(ctx context.Context, nodes []int) {
	err := r.store(ctx)
	for _, i := range nodes {
		n := r.plan.nodes[i]
		if err != nil {
			n.fail(fmt.Errorf("record the object before it is created: %w", err))
			n.record.enter(Failed, n.err.Error(), r.now)
		}
	}
}

// store writes the owner's status.
func (r *run) store(ctx context.Context) error {
	for _, n := range r.plan.nodes {
		if n.record != nil && n.record.State == "" {
			n.record.enter(Waiting, "", r.now)
		}
	}
	r.plan.status.Nodes = r.inventory.status(r.plan.nodes)
	if err := r.plan.ensureOwner(ctx); err != nil {
		return err
	}
	for _, rec := range r.inventory.records {
		rec.stored = rec.Kind != ""
	}
	return nil
}

// judge takes the answer about a node's object.
func (r *run) judge(ctx context.Context, n *node) {
	switch {
	case n.gotErr == nil:
	case errors.Is(n.gotErr, kube.ErrNotServed), !n.record.built && apierrors.IsNotFound(n.gotErr):
		message := "it does not exist"
		if !apierrors.IsNotFound(n.gotErr) {
			message = "its kind is not installed"
		}
		r.wait(n, message)
		return
	default:
		n.fail(n.gotErr)
		n.record.enter(Failed, n.err.Error(), r.now)
		return
	}
	if n.record.built {
		n.record.UID, n.record.applied = n.got.GetUID(), true
		n.record.Needs = n.needed()
	}
	var state ready.State
	if err := protected(ctx, n, func() error { state = n.typed.keep(n.got); return nil }); err != nil {
		n.fail(err)
		n.record.enter(Failed, n.err.Error(), r.now)
		return
	}
	switch state.Phase {
	case ready.Ready:
		n.ready = true
		n.record.enter(Ready, "", r.now)
	case ready.Failed:
		n.record.enter(Failed, state.Message, r.now)
	default:
		r.wait(n, state.Message)
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
		if n.visited {
			continue
		}
		waits := slices.DeleteFunc(n.needed(), func(name string) bool {
			return slices.ContainsFunc(n.needs, func(need *node) bool { return need.name == name && need.ready })
		})
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
	p.status.Nodes = r.inventory.status(p.nodes)
	p.status.summarize(p.owner)
	if err := r.store(ctx); err != nil {
		failed = append(failed, err)
	}
	if len(failed) > 0 {
		return controller.Done, join(failed)
	}
	if r.again == 0 {
		return controller.Done, nil
	}
	return controller.After(r.again + rand.N(r.again/10+1)), nil
}

// join joins errors. A retry is useless only if it is useless for all of them.
func join(all []error) error {
	terminal := func(err error) bool { return controller.IsTerminal(err) }
	if !slices.ContainsFunc(all, func(err error) bool { return !terminal(err) }) {
		return errors.Join(all...)
	}
	var mixed []error
	for _, err := range all {
		if terminal(err) {
			err = errors.New(err.Error()) // a retry is of use for another one
		}
		mixed = append(mixed, err)
	}
	return errors.Join(mixed...)
}
