package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Group is the set of safekeepers that a proposer asks.
type Group struct {
	Timeline    Timeline
	Safekeepers []string
	Generation  uint32
	Log         *slog.Logger
}

// Proposer is elected: the safekeepers that voted for it refuse older ones.
type Proposer struct {
	group Group
	term  Term
	// donor is the safekeeper whose log holds all that any majority may have, and state is
	// its log's.
	donor string
	state State

	mu        sync.Mutex
	quorum    quorum
	lists     int // that were given
	wal       Source
	election  Election // the same for all, except for Cut
	available LSN
	flushed   map[string]LSN
	commit    LSN
	records   *Scanner
	changed   chan struct{} // closed and replaced at every change
	durable   chan LSN
}

// Elect waits until a majority has voted for a new term. It is an election that ends all
// older proposers of the timeline.
func Elect(ctx context.Context, g Group) (*Proposer, error) {
	if g.Log == nil {
		g.Log = slog.New(slog.DiscardHandler)
	}
	q := quorumOf(g.Generation, g.Safekeepers)
	var term Term
	for {
		p, highest, later, err := vote(ctx, g, q, term+1)
		if p != nil || ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		g.Log.Info("no majority", "term", term+1, "error", err)
		q, term = later, max(term, highest)
		pause := 100*time.Millisecond + rand.N(200*time.Millisecond) // two candidates must not stay in step
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// vote asks all members to vote for a term, or for one above theirs.
func vote(ctx context.Context, g Group, q quorum, term Term) (*Proposer, Term, quorum, error) {
	clients, failures := dialAll(ctx, g, q)
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	later := q
	for _, c := range clients {
		later = later.after(c.State.Config)
		term = max(term, c.State.Term+1)
	}
	if !later.same(q) {
		return nil, 0, later, errors.New("the set of safekeepers has changed")
	}
	if !q.reached(func(address string) bool { return clients[address] != nil }) {
		return nil, 0, q, fmt.Errorf("too few safekeepers answer: %w", failures)
	}
	voted := map[string]State{}
	highest := term
	for _, address := range slices.Sorted(maps.Keys(clients)) {
		c := clients[address]
		if err := c.Vote(ctx, term); err != nil {
			failures = errors.Join(failures, err)
		} else if c.State.Term == term {
			voted[address] = c.State
		}
		highest = max(highest, c.State.Term)
	}
	won := q.reached(func(address string) bool { _, ok := voted[address]; return ok })
	if !won {
		return nil, highest, q, fmt.Errorf("votes of %d: %w", len(voted), failures)
	}
	donor := slices.MaxFunc(slices.Sorted(maps.Keys(voted)), func(a, b string) int {
		return cmp.Or(cmp.Compare(voted[a].lastTerm(), voted[b].lastTerm()), cmp.Compare(voted[a].Flush, voted[b].Flush))
	})
	return &Proposer{
		group: g, term: term, donor: donor, state: voted[donor], quorum: q,
		flushed: map[string]LSN{}, changed: make(chan struct{}), durable: make(chan LSN, 1),
	}, 0, q, nil
}

// dialAll connects to all members at once. A client per address that answers.
func dialAll(ctx context.Context, g Group, q quorum) (map[string]*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var mu sync.Mutex
	var dialing sync.WaitGroup
	var failures error
	clients := map[string]*Client{}
	for _, address := range q.all() {
		dialing.Go(func() {
			c, err := Dial(ctx, address, g.Timeline)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = errors.Join(failures, err)
				return
			}
			clients[address] = c
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		dialing.Wait()
	}()
	for grace := time.Duration(0); ; grace += 10 * time.Millisecond {
		mu.Lock()
		enough := q.reached(func(address string) bool { return clients[address] != nil })
		mu.Unlock()
		if enough && grace > patience {
			cancel() // a member whose machine is gone does not even refuse
		}
		select {
		case <-done:
			return clients, failures
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// patience is the time for which the last members of a quorum may still answer.
const patience = 200 * time.Millisecond

// Term returns the term in which the proposer was elected.
func (p *Proposer) Term() Term { return p.term }

// Found returns the state of the log that holds all WAL which may be on a majority.
func (p *Proposer) Found() State { return p.state }

// Fetch calls take with all WAL that was found from an LSN on.
func (p *Proposer) Fetch(ctx context.Context, from LSN, take func(at LSN, wal []byte) error) error {
	if from >= p.state.Flush {
		return nil
	}
	c, err := Dial(ctx, p.donor, p.group.Timeline)
	if err != nil {
		return err
	}
	defer c.Close()
	for from < p.state.Flush {
		wal, _, err := c.Read(ctx, from, false)
		if err != nil {
			return err
		}
		if len(wal) == 0 {
			return fmt.Errorf("fetch WAL at %s: safekeeper %s lost it", from, p.donor)
		}
		wal = wal[:min(len(wal), int(p.state.Flush-from))]
		if err := take(from, wal); err != nil {
			return err
		}
		from += LSN(len(wal))
	}
	return nil
}
