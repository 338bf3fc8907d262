package branch

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// relocate is how often the storage controller is asked for the safekeepers of a timeline. It
// tells of their changes by itself, and goes on until a hook has heard it.
const relocate = 30 * time.Minute

// located knows the safekeepers of timelines, by their ids. It has the timelines whose creation was
// answered, and those that were there before.
type located struct {
	mu sync.Mutex
	by map[string]location
}

type location struct {
	set        []int64
	generation int64
	at         time.Time
}

// locate sets the safekeepers of a timeline.
func (op *Operator) locate(ctx context.Context, sc *upstream.Controller, t *timeline) error {
	l, known := op.located.get(t.id)
	t.confirmed = known
	if known && time.Since(l.at) < relocate {
		t.safekeepers, t.generation = l.set, l.generation
		return nil
	}
	at, err := sc.Locate(ctx, t.tenant, t.id)
	if err != nil && !upstream.IsNotFound(err) {
		return fmt.Errorf("look for the safekeepers: %w", err)
	}
	// While a migration is under way, computes need both sets.
	t.safekeepers, t.generation = both(at), at.Generation
	if known && len(at.Set) > 0 && len(at.NewSet) == 0 {
		op.located.put(t)
	}
	return nil
}

func (l *located) get(id string) (location, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, ok := l.by[id]
	return is, ok
}

// put keeps the safekeepers of a timeline, as they are at present.
func (l *located) put(t *timeline) { l.keep(t.id, location{t.safekeepers, t.generation, time.Now()}) }

func (l *located) keep(id string, is location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = make(map[string]location)
	}
	l.by[id] = is
}

// trust adds a timeline that was there before. Its safekeepers are asked for.
func (l *located) trust(id string) {
	if _, known := l.get(id); !known {
		l.keep(id, location{})
	}
}

// recall takes the safekeepers of a branch from its status, if this process knows none. They are
// asked for at some time within relocate, so that a new process does not ask for all at once.
func (l *located) recall(b *api.NeonBranch) {
	if _, known := l.get(b.Status.TimelineID); !known && made(b) && b.Status.SafekeepersGeneration > 0 {
		l.keep(b.Status.TimelineID, location{
			b.Status.Safekeepers, b.Status.SafekeepersGeneration, time.Now().Add(-rand.N(relocate)),
		})
	}
}

func (l *located) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.by, id)
}

// cached returns the objects of a sequence.
func cached[T any](objects iter.Seq2[*T, error]) (all []*T, err error) {
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// matching returns the objects for which a function holds.
func matching[T any](objects []*T, holds func(*T) bool) (some []*T) {
	for _, o := range objects {
		if holds(o) {
			some = append(some, o)
		}
	}
	return some
}

func namesOf[T any, P interface {
	*T
	metav1.Object
}](objects []*T) (names []string) {
	for _, o := range objects {
		names = append(names, P(o).GetName())
	}
	return names
}

// both returns the safekeepers that a timeline is on, and those that a migration moves it to.
func both(at upstream.Location) []int64 {
	set := slices.Concat(at.Set, at.NewSet)
	slices.Sort(set)
	return slices.Compact(set)
}
