package safekeeper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// Membership is a timeline's set of safekeepers, in upstream's form.
type Membership struct {
	Generation int64             `json:"generation"`
	Members    []upstream.Member `json:"members"`
	// NewMembers is set during a migration.
	NewMembers []upstream.Member `json:"new_members"`
}

// state is the part of a timeline that is kept in its file standin.json. The log keeps the rest.
type state struct {
	Membership Membership   `json:"mconf"`
	PGVersion  int          `json:"pg_version"`
	Start      upstream.LSN `json:"start_lsn"`
	Backup     upstream.LSN `json:"backup_lsn"`
}

// Timeline is the WAL of one timeline on a safekeeper. Its methods are safe for concurrent
// use.
type Timeline struct {
	Tenant, ID string

	dir     string
	log     *wal.Log
	changed func()
	watched chan struct{} // closed when the log was closed and nothing follows it any more

	mu    sync.Mutex
	state state
	last  upstream.LSN // of the last moment that was recorded
}

const (
	stateFile = "standin.json"
	timesFile = "times"
)

func createTimeline(dir, tenant, id string, s state, changed func()) (*Timeline, error) {
	log, err := wal.CreateLog(dir, wal.LSN(s.Start), configuration(s.Membership))
	if err != nil {
		return nil, err
	}
	t := &Timeline{Tenant: tenant, ID: id, dir: dir, log: log, changed: changed, state: s}
	if err := t.save(); err != nil {
		return nil, errors.Join(fmt.Errorf("create timeline: %w", err), log.Close())
	}
	return t, t.begin()
}

func loadTimeline(dir, tenant, id string, changed func()) (*Timeline, error) {
	t := &Timeline{Tenant: tenant, ID: id, dir: dir, changed: changed}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, fmt.Errorf("load timeline: %w", err)
	}
	if err := json.Unmarshal(text, &t.state); err != nil {
		return nil, fmt.Errorf("load timeline: %w", err)
	}
	if t.log, err = wal.OpenLog(dir); err != nil {
		return nil, err
	}
	return t, t.begin()
}

// begin follows the commits of the log, to record their times.
func (t *Timeline) begin() error {
	moments, err := t.Moments()
	if err != nil {
		return errors.Join(err, t.log.Close())
	}
	t.last = t.state.Start
	if len(moments) > 0 {
		t.last = moments[len(moments)-1].LSN
	}
	t.watched = make(chan struct{})
	go func() {
		defer close(t.watched)
		for {
			commit, moved, err := t.log.Moved()
			if err != nil {
				return
			}
			if err := t.Record(upstream.LSN(commit), time.Now()); err == nil {
				t.changed()
			}
			<-moved
		}
	}()
	return nil
}

func (t *Timeline) save() error {
	path := filepath.Join(t.dir, stateFile)
	if err := os.WriteFile(path+".tmp", wire.MustJSON(t.state), 0o644); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

func (t *Timeline) close() error {
	err := t.log.Close()
	<-t.watched
	return err
}

// Log returns the log that computes write.
func (t *Timeline) Log() *wal.Log { return t.log }

// Membership returns the timeline's set of safekeepers.
func (t *Timeline) Membership() Membership {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state.Membership
}

// Position is how far a timeline has come.
type Position struct {
	Term                 int64
	Start, Flush, Commit upstream.LSN
}

// Position returns how far the timeline has come.
func (t *Timeline) Position() Position {
	s := t.log.State()
	t.mu.Lock()
	defer t.mu.Unlock()
	return Position{
		Term: int64(s.Term), Start: t.state.Start, Flush: max(upstream.LSN(s.Flush), t.state.Start),
		Commit: max(upstream.LSN(s.Commit), t.state.Start),
	}
}

// Record writes down the time of a commit, unless a later one is recorded.
func (t *Timeline) Record(lsn upstream.LSN, at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lsn <= t.last {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(t.dir, timesFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("record commit: %w", err)
	}
	_, err = fmt.Fprintf(file, "%d %s\n", at.UnixMicro(), lsn)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("record commit: %w", err)
	}
	t.last = lsn
	return nil
}

// Read returns WAL from an LSN on, at most as much as limit bytes and not beyond the commit.
func (t *Timeline) Read(from upstream.LSN, limit int) ([]byte, error) {
	commit := t.Position().Commit
	if from > commit {
		return nil, fmt.Errorf("read at %s: the WAL is committed to %s", from, commit)
	}
	content := make([]byte, min(int64(limit), int64(commit-from)))
	if len(content) == 0 {
		return content, nil
	}
	n, err := t.log.ReadAt(content, int64(from))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return content[:n], nil
}

// Moment is a place in the WAL and the time of its commit.
type Moment struct {
	Micros int64        `json:"micros"`
	LSN    upstream.LSN `json:"lsn"`
}

// Moments returns the commits in order.
func (t *Timeline) Moments() ([]Moment, error) {
	file, err := os.Open(filepath.Join(t.dir, timesFile))
	if errors.Is(err, os.ErrNotExist) {
		return []Moment{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read moments: %w", err)
	}
	defer file.Close()
	moments := []Moment{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		micros, lsn, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(micros, 10, 64)
		if err != nil {
			continue // the last line may be cut off by a crash
		}
		parsed, err := upstream.ParseLSN(lsn)
		if err != nil {
			continue // the same
		}
		moments = append(moments, Moment{n, parsed})
	}
	return moments, nil
}

func (t *Timeline) setMembership(m Membership) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Generation < t.state.Membership.Generation {
		return fmt.Errorf("membership of generation %d is older than %d", m.Generation, t.state.Membership.Generation)
	}
	t.state.Membership = m
	return errors.Join(t.save(), t.log.Configure(configuration(m)))
}

// configuration is a membership in the form of the log.
func configuration(m Membership) wal.Configuration {
	members := func(list []upstream.Member) []wal.Member {
		var all []wal.Member
		for _, one := range list {
			all = append(all, wal.Member{ID: uint64(one.ID), Address: net.JoinHostPort(one.Host, strconv.Itoa(one.Port))})
		}
		return all
	}
	return wal.Configuration{
		Generation: uint32(m.Generation), Members: members(m.Members), NewMembers: members(m.NewMembers),
	}
}
