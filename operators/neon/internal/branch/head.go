package branch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

// catchUp is the time that the pageserver may take to read what the safekeepers have committed. A creation
// lasts no longer than the requests of its target.
const catchUp = 15 * time.Second

// head returns the end of a parent's history, which has all commits that clients were told of. The pageserver
// may not have read them yet, as after its restart: it is waited for. head returns nil for a parent that no
// safekeeper has.
func (op *Operator) head(ctx context.Context, want *timeline) (*upstream.LSN, error) {
	commit, err := op.committed(ctx, want)
	if err != nil || commit == 0 {
		return nil, err
	}
	end, since := time.Now().Add(catchUp), time.Now().Add(-calm)
	for {
		is, err := op.catalogOf(want).one(ctx, want.ancestor, since)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: look at the parent: %w", plan.ErrRefused, err)
		case is == nil:
			return nil, nil
		case is.LastRecordLSN >= commit:
			return &is.LastRecordLSN, nil
		case time.Now().After(end):
			return nil, fmt.Errorf("%w: the pageserver has read NeonBranch %s up to %s, and not up to %s, its last commit: "+
				"it is tried again", plan.ErrRefused, want.from.Branch, is.LastRecordLSN, commit)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: wait for the pageserver: %w", plan.ErrRefused, ctx.Err())
		case <-time.After(brisk):
		}
		since = time.Now()
	}
}

// committed returns the highest commit that the parent's safekeepers know of, 0 if none has the parent's
// timeline. It is the end of a record, as is all that the pageserver has read. A transaction commits on a
// majority of them, so a majority must answer.
func (op *Operator) committed(ctx context.Context, want *timeline) (commit upstream.LSN, err error) {
	commits, failures := make([]upstream.LSN, len(want.keepers)), make([]error, len(want.keepers))
	var asked sync.WaitGroup
	for i, id := range want.keepers {
		asked.Go(func() {
			keeper, err := op.Clients.Safekeeper(ctx, want.cluster, id)
			if err == nil {
				var is upstream.WAL
				is, err = keeper.Timeline(ctx, want.tenant, want.ancestor)
				commits[i] = is.CommitLSN
			}
			failures[i] = err
		})
	}
	asked.Wait()
	answers, unknown := 0, 0
	for i, err := range failures {
		switch {
		case err == nil:
			answers, commit = answers+1, max(commit, commits[i])
		case upstream.IsNotFound(err):
			unknown++
		}
	}
	if unknown < len(want.keepers) && 2*answers <= len(want.keepers) {
		return 0, fmt.Errorf("%w: %d of the %d safekeepers of NeonBranch %s say what is committed, and a majority must: %w",
			plan.ErrRefused, answers, len(want.keepers), want.from.Branch, errors.Join(failures...))
	}
	return commit, nil
}
