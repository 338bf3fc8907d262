package plan

import (
	"context"
	"fmt"
	"time"
)

// walk visits the nodes in order. It builds those whose needs are ready, one at a time. The
// objects and things that may be new are recorded before the crew creates them, and outcomes
// before others rely on them. Both wait a moment for those that come next.
func (r *run) walk(ctx context.Context, w *walk) {
	next := w.first()
	var records gathered
	for {
		for ; len(next) > 0; next = next[1:] {
			i := next[0]
			n := r.plan.nodes[i]
			r.visit(ctx, n)
			switch {
			case n.isAbsent:
				n.record.enter(Absent, "", r.now)
				next = append(next, w.done(i)...)
			case n.err != nil, n.unserved:
			case n.record.built && !n.record.stored && !n.record.unmade():
				records.intents = append(records.intents, n)
			default:
				if a, ok := r.settled(ctx, n); ok {
					next = append(next, r.take(ctx, n, a, w, &records)...)
				} else {
					r.ask(ctx, n)
				}
			}
		}
		if records.due(r.crew.running > 0) {
			r.enter(ctx, records.intents, records.outcomes)
			for _, n := range records.outcomes {
				if n.ready {
					next = append(next, w.done(n.place)...)
				}
			}
			records.taken()
			continue
		}
		answered, ok := r.crew.next(records.until)
		if !ok {
			return
		}
		for _, i := range answered {
			n := r.plan.nodes[i]
			next = append(next, r.take(ctx, n, *n.answer, w, &records)...)
		}
	}
}

// take takes the answer about a node, and returns the nodes that can be visited since.
func (r *run) take(ctx context.Context, n *node, a answer, w *walk, records *gathered) (next []int) {
	switch urgent := r.judge(ctx, n, a); {
	case urgent:
		records.outcomes = append(records.outcomes, n)
	case n.ready:
		next = w.done(n.place)
	case n.err == nil && a.create:
		// It is recorded only since it is known that it has to be created.
		records.intents = append(records.intents, n)
	}
	return next
}

// gathered are nodes to record in the owner's status.
type gathered struct {
	intents  []*node // of which the object or thing is about to be created
	outcomes []*node // that have an outcome
	until    time.Time
	writes   int
}

// Calls that take different times are answered one by one. Each record waits for others, the
// first ones of a run less than those that follow.
const (
	leastGather = 5 * time.Millisecond
	mostGather  = 80 * time.Millisecond
)

// due reports that the nodes must be recorded: they have waited long enough, or nothing else
// is under way.
func (g *gathered) due(more bool) bool {
	now := time.Now()
	switch {
	case len(g.intents)+len(g.outcomes) == 0:
		return false
	case !more:
		return true
	case g.until.IsZero():
		g.until = now.Add(min(leastGather<<min(g.writes, 10), mostGather))
	}
	return !now.Before(g.until)
}

// taken notes that the nodes were recorded.
func (g *gathered) taken() { *g = gathered{writes: g.writes + 1} }

// enter records nodes in the owner's status: those that have an outcome, and those of which
// the object or thing is new. The crew creates these then.
func (r *run) enter(ctx context.Context, intents, outcomes []*node) {
	was := make(map[*node]ThingStatus)
	for _, n := range intents {
		if state := n.record.State; state == Blocked || state == Absent {
			n.record.enter(Waiting, "", r.now)
		}
		if n.answer != nil && n.answer.create {
			was[n] = *n.record.Thing
			n.doubted = r.plan.things[n.kind.Kind].inDoubt(n.record.Thing, time.Now())
			n.record.Thing.intend(time.Now())
			n.claim.recorded = true
		}
	}
	err := r.store(ctx)
	for _, n := range intents {
		if err != nil {
			if before, ok := was[n]; ok {
				*n.record.Thing = before
				r.letGo(n)
			}
			r.fail(n, fmt.Errorf("record what is about to be created: %w", err))
			continue
		}
		if n.answer != nil && n.answer.lost {
			r.plan.Monitor.lost(r.plan.owner, n.record.NodeStatus)
		}
		r.ask(ctx, n)
	}
	for _, n := range outcomes {
		if err != nil && n.ready {
			r.fail(n, fmt.Errorf("record the outcome: %w", err))
		}
	}
}
