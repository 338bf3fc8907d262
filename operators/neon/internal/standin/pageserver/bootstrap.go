package pageserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// checkpointRecord is the size of the record with which initdb ends, aligned: the timeline's WAL
// begins after it.
const checkpointRecord = 0x78

// bootstrap makes a root timeline: the base that initdb of the wanted version makes.
func (p *Pageserver) bootstrap(ctx context.Context, s *shard, n NewTimeline) (*timeline, error) {
	if n.Initdb != nil {
		return nil, wire.BadRequest("existing_initdb_timeline_id is not known to the stand-in")
	}
	base, err := p.Bases.of(ctx, filepath.Join(p.PGDistribution, "v"+strconv.Itoa(n.version()), "bin"))
	if err != nil {
		return nil, wire.Errorf(http.StatusInternalServerError, "%v", err)
	}
	if err := p.Objects.Put(ctx, initdbKey(s.id, n.ID), base); err != nil {
		return nil, err
	}
	const start = upstream.LSN(wal.Start)
	return &timeline{tenant: tenantOf(s.id), index: index{
		ID: n.ID, PGVersion: n.version(), Initdb: start - checkpointRecord, Prev: start - checkpointRecord, Start: start, Asked: n,
	}}, nil
}

// Bases are the first states of databases. One is made for each version. Unlike those of the real
// program, the timelines of all pageservers with the same Bases share PostgreSQL's identifier. The zero
// value has none yet.
type Bases struct {
	mu   sync.Mutex
	made map[string]*base
}

// base is one that is being made until done is closed.
type base struct {
	done chan struct{}
	tar  []byte
	err  error
}

// of returns the base that initdb of a directory of programs makes. The making of a base
// goes on when ctx ends: on a busy machine it takes longer than a client waits, and the
// next request gets it.
func (b *Bases) of(ctx context.Context, bin string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return nil, fmt.Errorf("run initdb: %w", err)
	}
	b.mu.Lock()
	is := b.made[bin]
	if is == nil {
		is = &base{done: make(chan struct{})}
		if b.made == nil {
			b.made = map[string]*base{}
		}
		b.made[bin] = is
		go func() {
			defer close(is.done)
			if is.tar, is.err = newBase(context.WithoutCancel(ctx), bin); is.err != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				delete(b.made, bin)
			}
		}()
	}
	b.mu.Unlock()
	select {
	case <-is.done:
		return is.tar, is.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for initdb: %w", context.Cause(ctx))
	}
}

func newBase(ctx context.Context, bin string) ([]byte, error) {
	var account *syscall.Credential
	if os.Geteuid() == 0 {
		// PostgreSQL refuses to run as root, as the real pageserver never does.
		id, err := unprivileged()
		if err != nil {
			return nil, err
		}
		account = &id
	}
	return wal.NewBase(ctx, bin, account)
}

// unprivileged returns the user that runs PostgreSQL, or nobody.
func unprivileged() (syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		known, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(known.Uid, 10, 32)
		if err != nil {
			return syscall.Credential{}, fmt.Errorf("parse user of initdb: %w", err)
		}
		gid, err := strconv.ParseUint(known.Gid, 10, 32)
		if err != nil {
			return syscall.Credential{}, fmt.Errorf("parse group of initdb: %w", err)
		}
		return syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return syscall.Credential{}, errors.New("find a user for initdb: neither postgres nor nobody exists")
}
