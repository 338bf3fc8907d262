package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// store is the database: a table for each kind of object, with its ID and its JSON.
type store struct{ pool *pgxpool.Pool }

var kinds = []string{"nodes", "safekeepers", "tenants", "timelines"}

// openStore connects, and makes the tables that are missing.
func openStore(ctx context.Context, url string, timeout time.Duration) (*store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, kind := range kinds {
		statement := "create table if not exists standin_" + kind + " (id text primary key, body jsonb not null)"
		for {
			if _, err = pool.Exec(ctx, statement); err == nil || ctx.Err() != nil {
				break
			}
			sleep(ctx, retryDatabase)
		}
		if err != nil {
			pool.Close()
			return nil, fmt.Errorf("connect to database: %w", err)
		}
	}
	return &store{pool}, nil
}

func (s *store) close() { s.pool.Close() }

// all reads all objects of a kind into a slice of pointers.
func (s *store) all(ctx context.Context, kind string, into any) error {
	rows, err := s.pool.Query(ctx, "select body from standin_"+kind+" order by id")
	if err != nil {
		return fmt.Errorf("read %s: %w", kind, err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return fmt.Errorf("read %s: %w", kind, err)
	}
	slice := reflect.ValueOf(into).Elem()
	for _, body := range bodies {
		item := reflect.New(slice.Type().Elem().Elem())
		if err := json.Unmarshal(body, item.Interface()); err != nil {
			return fmt.Errorf("decode %s: %w", kind, err)
		}
		slice.Set(reflect.Append(slice, item))
	}
	return nil
}

const retryDatabase = 200 * time.Millisecond

// put writes an object. While the database is away it waits, as the real program does, until
// the request's client gives up.
func (s *store) put(ctx context.Context, kind, id string, body []byte) error {
	return s.exec(ctx, "insert into standin_"+kind+" (id, body) values ($1, $2) on conflict (id) do update set body = excluded.body",
		id, body)
}

func (s *store) remove(ctx context.Context, kind, id string) error {
	return s.exec(ctx, "delete from standin_"+kind+" where id = $1", id)
}

func (s *store) exec(ctx context.Context, statement string, arguments ...any) error {
	for {
		_, err := s.pool.Exec(ctx, statement, arguments...)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("write to database: %w", err)
		}
		sleep(ctx, retryDatabase)
	}
}

// ping waits for the database, up to a time.
func (s *store) ping(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		err := s.pool.Ping(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return wire.Errorf(503, "Shutting down")
		}
		sleep(ctx, retryDatabase)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
