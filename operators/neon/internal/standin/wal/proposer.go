package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Source is all WAL of a timeline as its compute has it, from the start of a segment on. Its
// offsets are LSNs.
type Source interface {
	io.ReaderAt
	// System is PostgreSQL's identifier of the database.
	System() uint64
}

// heartbeat is the longest time between two messages to a safekeeper.
const heartbeat = time.Second

// Run pushes WAL to the safekeepers until ctx ends. The log becomes that of this proposer:
// it has the WAL that was found up to end, the end of its last whole record, and goes on
// there. Offer tells Run of more. Run returns [ErrTerm] when another proposer was elected.
func (p *Proposer) Run(ctx context.Context, wal Source, end LSN) error {
	start := p.state.Start
	if p.state.System == 0 {
		// Replicas ask for whole segments, so the log begins with one.
		start = end.Segment()
	}
	history := slices.Clone(p.state.History)
	for len(history) > 0 && history[len(history)-1].LSN > end {
		history = history[:len(history)-1]
	}
	p.mu.Lock()
	p.wal, p.available = wal, max(p.available, end)
	p.election = Election{
		Term: p.term, History: append(history, TermStart{p.term, end}), Start: start, System: wal.System(),
	}
	p.records = NewScanner(wal, end)
	p.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	started := map[string]context.CancelFunc{}
	for {
		p.mu.Lock()
		wanted, changed := p.quorum.all(), p.changed
		p.mu.Unlock()
		for _, address := range wanted {
			if started[address] == nil {
				own, stop := context.WithCancel(ctx)
				started[address] = stop
				sessions.Go(func() { p.keep(own, cancel, address) })
			}
		}
		for address, stop := range started {
			if !slices.Contains(wanted, address) {
				stop()
				delete(started, address)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			for _, stop := range started {
				stop()
			}
			if err := context.Cause(ctx); errors.Is(err, ErrTerm) {
				return err
			}
			return nil
		}
	}
}

// Offer tells that the source has WAL up to an LSN.
func (p *Proposer) Offer(lsn LSN) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lsn > p.available {
		p.available = lsn
		p.wake()
	}
}

// Reconfigure replaces the set of safekeepers, unless it is known from one of them, or a later one
// is. It connects to all of them again, so that one tells the set.
func (p *Proposer) Reconfigure(addresses []string, generation uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if generation < p.quorum.generation || generation == p.quorum.generation && p.quorum.told {
		return
	}
	list := quorumOf(generation, addresses)
	if list.same(p.quorum) && slices.Equal(list.members, p.quorum.members) {
		return
	}
	p.quorum = list
	p.lists++
	p.count()
	p.wake()
}

// Durable returns a channel of the LSN up to which the WAL is on a quorum. Only the latest
// is kept.
func (p *Proposer) Durable() <-chan LSN { return p.durable }

// Commit returns the end of the last whole record that is on a quorum.
func (p *Proposer) Commit() LSN {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commit
}

// wake wakes all that wait. The caller holds the lock.
func (p *Proposer) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// count looks for the end of the durable WAL. The caller holds the lock.
func (p *Proposer) count() {
	durable := p.quorum.durable(p.flushed)
	if p.records == nil || durable < p.records.End() {
		return // not all is there that was found
	}
	commit, err := p.records.Last(durable)
	if err != nil {
		p.group.Log.Warn("read own WAL", "error", err)
		return
	}
	if commit > p.commit {
		p.commit = commit
		p.wake()
	}
	select {
	case <-p.durable:
	default:
	}
	p.durable <- durable // there is room: only this function sends, under the lock
}

// keep pushes WAL to one safekeeper, and connects again whenever that fails.
func (p *Proposer) keep(ctx context.Context, fail context.CancelCauseFunc, address string) {
	for ctx.Err() == nil {
		err := p.session(ctx, address)
		if errors.Is(err, ErrTerm) {
			fail(fmt.Errorf("WAL acceptor %s rejected our request, our term %d: %w", address, p.term, err))
			return
		}
		if ctx.Err() == nil {
			p.group.Log.Debug("safekeeper fails", "safekeeper", address, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// session is one connection to a safekeeper.
func (p *Proposer) session(ctx context.Context, address string) error {
	p.mu.Lock()
	list := p.lists
	p.mu.Unlock()
	c, err := Dial(ctx, address, p.group.Timeline)
	if err != nil {
		return err
	}
	defer c.Close()
	p.adopt(c.State.Config)
	if c.State.Term > p.term {
		return fmt.Errorf("%w with term %d", ErrTerm, c.State.Term)
	}
	p.mu.Lock()
	election := p.election
	election.Generation = p.quorum.generation
	p.mu.Unlock()
	if state := c.State; state.elected() == p.term {
		election.Cut = state.Flush // it knows us, and the connection broke
	} else {
		election.Cut = shared(state, election.History)
	}
	if err := c.Elect(ctx, election); err != nil {
		p.adopt(c.State.Config)
		return err
	}
	for {
		p.acknowledged(address, c.State.Flush)
		a, err := p.next(ctx, c.State, list)
		if err != nil {
			return err
		}
		if err := c.Append(ctx, a); err != nil {
			p.adopt(c.State.Config)
			return err
		}
	}
}

// adopt takes the set of safekeepers that one of them knows, if it is later.
func (p *Proposer) adopt(c Configuration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := p.quorum.after(c); !next.same(p.quorum) {
		p.group.Log.Info("the set of safekeepers changes", "generation", next.generation)
		p.quorum = next
		p.count()
		p.wake()
	}
}

func (p *Proposer) acknowledged(address string, flush LSN) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flushed[address] != flush {
		p.flushed[address] = flush
		p.count()
	}
}

// errList ends a connection that was made with an earlier list of safekeepers.
var errList = errors.New("the list of safekeepers is another one")

// next waits until there is news for a safekeeper with a state, and returns it.
func (p *Proposer) next(ctx context.Context, s State, list int) (Append, error) {
	beat := time.After(heartbeat)
	for {
		p.mu.Lock()
		a := Append{Term: p.term, Generation: p.quorum.generation, At: s.Flush, Commit: p.commit}
		available, changed, is := p.available, p.changed, p.lists
		p.mu.Unlock()
		if is != list {
			return Append{}, errList
		}
		if available > s.Flush {
			a.Data = make([]byte, min(largestChunk, available-s.Flush))
			if _, err := p.wal.ReadAt(a.Data, int64(s.Flush)); err != nil {
				return Append{}, fmt.Errorf("read own WAL at %s: %w", s.Flush, err)
			}
			return a, nil
		}
		if min(a.Commit, s.Flush) > s.Commit {
			return a, nil
		}
		select {
		case <-changed:
		case <-beat:
			return a, nil
		case <-ctx.Done():
			return Append{}, ctx.Err()
		}
	}
}
