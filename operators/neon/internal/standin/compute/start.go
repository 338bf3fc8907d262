package compute

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
)

// errApply is in the errors about roles and databases.
var errApply = errors.New("could not apply the configuration")

// baseAttempts is the number of times that a pageserver is asked for the first data.
const baseAttempts = 10

// start brings the compute to where it is running. The WAL of a primary is pushed by a task
// until ctx ends.
func (n *node) start(ctx context.Context, tasks *sync.WaitGroup) error {
	c := n.config
	data := n.options.data
	var err error
	if n.toKeepers, n.toPages, err = demands(c); err != nil {
		return err
	}
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("empty data directory: %w", err)
	}
	if c.Spec.Mode == spec.Primary() {
		if err := n.join(ctx, tasks); err != nil {
			return err
		}
	} else if err := n.follow(ctx); err != nil {
		return err
	}
	if from := serves(c); from != nil {
		if err := n.certify(ctx, from); err != nil {
			return err
		}
	}
	if err := writeSettings(data, c); err != nil {
		return err
	}
	if err := trustSocket(data); err != nil {
		return err
	}
	p, err := startPostgres(n.options.postgres, data, n.output)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.postgres = p
	n.mu.Unlock()
	if err := n.waitForPostgres(ctx, p); err != nil {
		return err
	}
	if n.proposer != nil {
		tasks.Go(func() { n.push(ctx, p) })
	}
	if c.Spec.Mode == spec.Primary() {
		if err := n.apply(ctx, c); err != nil {
			return fmt.Errorf("%w: %w", errApply, err)
		}
	}
	tasks.Go(func() { n.monitor(ctx, p) })
	if from := serves(c); from != nil {
		tasks.Go(func() { n.renew(ctx, from, p) })
	}
	return nil
}

func (n *node) timeline() wal.Timeline {
	s := n.config.Spec
	return wal.Timeline{Tenant: s.TenantID, Timeline: s.TimelineID, Token: s.StorageAuthToken, TLS: n.toKeepers}
}

// pageserver returns the address of the first shard, which serves the base.
func (n *node) pageserver() (wal.PagesClient, error) {
	c := n.config.Spec.Pageservers
	shard := c.Shards[spec.ShardKey(0, c.ShardCount)]
	if len(shard.Pageservers) == 0 {
		return wal.PagesClient{}, errors.New("no pageserver in the configuration")
	}
	u, err := url.Parse(shard.Pageservers[0].URL)
	if err != nil {
		return wal.PagesClient{}, fmt.Errorf("read address of pageserver: %w", err)
	}
	return wal.PagesClient{Address: u.Host, Timeline: n.timeline(), TLS: n.toPages}, nil
}

// fetch makes the data directory with the WAL before one LSN and at least up to another.
func (n *node) fetch(ctx context.Context, has, to wal.LSN) (wal.Directory, wal.LSN, error) {
	directory := wal.Directory{Path: filepath.Join(n.options.data, "pg_wal")}
	client, err := n.pageserver()
	if err != nil {
		return directory, 0, err
	}
	for attempt := 1; ; attempt++ {
		err = client.Base(ctx, has, n.options.data)
		var end wal.LSN
		if err == nil {
			end, err = client.WAL(ctx, wal.Start, to, directory)
		}
		if err == nil {
			return directory, end, nil
		}
		n.log.Warn("get base", "attempt", attempt, "error", err)
		if attempt == baseAttempts {
			return directory, 0, err
		}
		if err := os.RemoveAll(n.options.data); err != nil {
			return directory, 0, fmt.Errorf("empty data directory: %w", err)
		}
		select {
		case <-ctx.Done():
			return directory, 0, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// join makes this compute the only primary, with all WAL that was ever acknowledged.
func (n *node) join(ctx context.Context, tasks *sync.WaitGroup) error {
	s := n.config.Spec
	p, err := wal.Elect(ctx, wal.Group{
		Timeline: n.timeline(), Safekeepers: s.Safekeepers, Generation: s.SafekeepersGeneration, Log: n.log,
	})
	if err != nil {
		return fmt.Errorf("sync safekeepers: %w", err)
	}
	found := p.Found()
	directory, end, err := n.fetch(ctx, found.Start, found.Start)
	if err != nil {
		return err
	}
	if found.System != 0 {
		if found.System != directory.System() {
			return fmt.Errorf("the safekeepers have WAL of database %d, the pageserver has %d", found.System, directory.System())
		}
		err = p.Fetch(ctx, found.Start, func(at wal.LSN, bytes []byte) error {
			end = at + wal.LSN(len(bytes))
			_, err := directory.WriteAt(bytes, int64(at))
			return err
		})
		if err != nil {
			return fmt.Errorf("get WAL: %w", err)
		}
	}
	if end, err = cut(directory, end); err != nil {
		return err
	}
	n.mu.Lock()
	n.proposer = p
	n.mu.Unlock()
	tasks.Go(func() {
		if err := p.Run(ctx, directory, end); err != nil {
			n.fenced(ctx, err)
		}
	})
	for p.Commit() < end { // nobody may read rows that could still be lost
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// cut cuts the WAL after its last whole record.
func cut(directory wal.Directory, end wal.LSN) (wal.LSN, error) {
	end, err := wal.NewScanner(directory, wal.Start).Last(end)
	if err != nil {
		return 0, fmt.Errorf("find the end of the WAL: %w", err)
	}
	return end, directory.Cut(end)
}

// follow makes the data directory of a compute that reads.
func (n *node) follow(ctx context.Context) error {
	var at wal.LSN
	if text := n.config.Spec.Mode.LSN(); text != "" {
		var err error
		if at, err = wal.ParseLSN(text); err != nil {
			return err
		}
	}
	directory, end, err := n.fetch(ctx, at, at)
	if err != nil {
		return err
	}
	if _, err := cut(directory, end); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.options.data, "standby.signal"), nil, 0o600); err != nil {
		return fmt.Errorf("write standby.signal: %w", err)
	}
	return nil
}

// fenced ends PostgreSQL when another compute was elected, as upstream's does with a PANIC.
func (n *node) fenced(ctx context.Context, err error) {
	fmt.Fprintf(n.output, "PG:FATAL:  [WP] %v, meaning another compute is running at the same time, and it conflicts with us\n", err)
	n.mu.Lock()
	n.conflict = true
	n.mu.Unlock()
	if p := n.server(); p != nil {
		p.signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-ctx.Done():
			return
		}
	}
	n.exit(ctx, 0, 1)
}

// connect connects to the database of -C, or to another one, as its user.
func (n *node) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(n.options.connection)
	if err != nil {
		return nil, fmt.Errorf("read connection string: %w", err)
	}
	if database != "" {
		config.Database = database
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // no prepared statements are left behind
	config.ConnectTimeout = 5 * time.Second
	return pgx.ConnectConfig(ctx, config)
}

func (n *node) waitForPostgres(ctx context.Context, p *postgres) error {
	for {
		conn, err := n.connect(ctx, "")
		if err == nil {
			select {
			case <-p.done: // another PostgreSQL has the port
				err = fmt.Errorf("Postgres exited unexpectedly with code %d", p.code) //nolint:staticcheck // upstream's text
			case <-time.After(20 * time.Millisecond):
			}
			return errors.Join(err, conn.Close(ctx))
		}
		select {
		case <-p.done:
			return fmt.Errorf("Postgres exited unexpectedly with code %d", p.code) //nolint:staticcheck // upstream's text
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
