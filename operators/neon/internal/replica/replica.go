// Package replica judges whether a compute that reads follows its branch. Its status says so in no
// way: a replica that does not reach the safekeepers is running, and shows the rows of its start for
// ever. So the position up to which it has replayed the history is compared with the position that
// the storage has.
package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// ErrLogin is the error of a login that PostgreSQL refuses. It says nothing about the position: the
// role may not have come yet, or somebody has changed its password.
var ErrLogin = errors.New("the login is refused")

// Position returns the position up to which a replica has replayed the history.
func Position(ctx context.Context, config *pgconn.Config) (upstream.LSN, error) {
	conn, err := pgconn.ConnectConfig(ctx, config)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code[:2] == "28": // invalid authorization
		return 0, ErrLogin
	case errors.As(err, &refused):
		return 0, fmt.Errorf("connect to the replica: %s", refused.Message)
	case err != nil:
		return 0, fmt.Errorf("connect to the replica: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()               // it was only asked
	answers, err := conn.Exec(ctx, "select pg_last_wal_replay_lsn()").ReadAll() // as text
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask for the position of the replica: %w", err)
	case len(answers) != 1 || len(answers[0].Rows) != 1 || len(answers[0].Rows[0]) != 1:
		return 0, errors.New("ask for the position of the replica: the answer is not one value")
	case answers[0].Rows[0][0] == nil:
		return 0, errors.New("ask for the position of the replica: it replays nothing")
	}
	return upstream.ParseLSN(string(answers[0].Rows[0][0]))
}

// head is the largest head of a page of WAL. PostgreSQL and the storage may count one at the end of
// a page, or not.
const head = 40

// Lag is how far a replica is behind the storage. The zero value knows nothing.
type Lag struct {
	at    upstream.LSN // of the replica
	goal  upstream.LSN // a position that the storage had at since
	since time.Time
	first bool // the replica has not reached its first goal
}

// See returns the lag after another look at both positions. Each goal is a position that the storage
// had when the former was reached: so a replica counts as following if it is late by a while, and not
// if it stands still, however small the difference is.
func (l Lag) See(now time.Time, at, storage upstream.LSN) Lag {
	if l.goal == 0 {
		l.goal, l.since, l.first = storage, now, true
	}
	l.at = at
	if at+head >= l.goal {
		l.goal, l.since, l.first = storage, now, false
	}
	return l
}

// Behind says why a replica is not of use: it has not reached the end that the history had at its
// first look, or one that the history had longer ago than tolerance. It returns an empty text
// otherwise.
func (l Lag) Behind(now time.Time, tolerance time.Duration) string {
	switch {
	case l.goal == 0:
		return "its position is not known"
	case l.at+head >= l.goal:
		return ""
	case l.first:
		return fmt.Sprintf("it has replayed the history up to %s, and the storage has it up to %s", l.at, l.goal)
	case now.Sub(l.since) > tolerance:
		return fmt.Sprintf("it has not replayed the history up to %s for longer than %s: look at the log of its pod "+
			"for errors of the connection to its safekeepers", l.goal, tolerance)
	}
	return ""
}
