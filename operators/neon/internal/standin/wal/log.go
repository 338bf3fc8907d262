package wal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Term numbers the proposers of a timeline.
type Term uint64

// TermStart says where the WAL of a term begins.
type TermStart struct {
	Term Term `json:"term"`
	LSN  LSN  `json:"lsn"`
}

// Member is a safekeeper of a timeline.
type Member struct {
	ID      uint64 `json:"id"`
	Address string `json:"address"`
}

// Configuration is the set of safekeepers of a timeline. The zero value leaves the set to
// the proposer.
type Configuration struct {
	Generation uint32   `json:"generation"`
	Members    []Member `json:"members"`
	// NewMembers are also asked while the set changes: both need a majority.
	NewMembers []Member `json:"new_members,omitempty"`
}

// State is that of a log.
type State struct {
	// Term is the highest that was voted for.
	Term    Term        `json:"term"`
	History []TermStart `json:"history"`
	Start   LSN         `json:"start"`
	// Flush is the end of the WAL on the disk, and Commit the end of the WAL that is known
	// to be on a quorum, which is the end of a record.
	Flush  LSN `json:"flush"`
	Commit LSN `json:"commit"`
	// System is PostgreSQL's identifier of the database, and 0 until the first proposer.
	System uint64        `json:"system"`
	Config Configuration `json:"config"`
}

// elected is the term of the proposer that may append, if there was no vote since.
func (s State) elected() Term {
	if len(s.History) == 0 {
		return 0
	}
	return s.History[len(s.History)-1].Term
}

// lastTerm is the term that wrote the end of the log. It is lower than elected while the log
// catches up with older WAL.
func (s State) lastTerm() Term {
	var last Term
	for _, start := range s.History {
		if start.LSN <= s.Flush {
			last = start.Term
		}
	}
	return last
}

// Log is the WAL of one timeline on one safekeeper. It is safe for concurrent use. All that
// it has acknowledged is there after a crash.
type Log struct {
	dir string

	mu     sync.Mutex
	file   *os.File
	state  State
	closed bool
	moved  chan struct{} // closed and replaced when the commit moves
}

var (
	// ErrTerm is the error of a proposer after another one was elected.
	ErrTerm = errors.New("another compute was elected")
	// ErrGeneration is the error of a proposer with an old set of safekeepers.
	ErrGeneration = errors.New("the set of safekeepers has changed")
	// ErrClosed is the error of all calls after Close.
	ErrClosed = errors.New("the timeline was closed")
	// ErrMissing is the error of reads of WAL that the log does not have.
	ErrMissing = errors.New("the log does not have this WAL")
)

const (
	dataName   = "wal"
	stateName  = "wal.state"
	commitName = "wal.commit" // written without waiting for the disk: an older one is also right
)

// CreateLog makes the log of a timeline in a directory. The WAL will begin at start or in the
// same segment before it.
func CreateLog(dir string, start LSN, c Configuration) (*Log, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, dataName), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	l := &Log{dir: dir, file: file, moved: make(chan struct{})}
	l.state = State{Start: start, Flush: start, Commit: start, Config: c}
	if err := errors.Join(l.save(l.state), l.saveCommit()); err != nil {
		file.Close()
		return nil, fmt.Errorf("create log: %w", err)
	}
	return l, nil
}

// OpenLog opens the log that a directory holds. It cuts off an end that is no whole record:
// nobody was told that it was there, or it is of no use without the rest.
func OpenLog(dir string) (*Log, error) {
	l := &Log{dir: dir, moved: make(chan struct{})}
	text, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := json.Unmarshal(text, &l.state); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if l.file, err = os.OpenFile(filepath.Join(dir, dataName), os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := l.recover(); err != nil {
		l.file.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	return l, nil
}

func (l *Log) recover() error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	size := l.state.Start + LSN(info.Size())
	if text, err := os.ReadFile(filepath.Join(l.dir, commitName)); err == nil {
		if lsn, err := ParseLSN(string(text)); err == nil && lsn <= size {
			l.state.Commit = max(l.state.Commit, lsn)
		}
	}
	l.state.Commit = min(l.state.Commit, size)
	end, err := NewScanner(offset{l.file, l.state.Start}, l.state.Commit).Last(size)
	if err != nil {
		return err
	}
	l.state.Flush = min(end, size)
	if err := l.file.Truncate(int64(l.state.Flush - l.state.Start)); err != nil {
		return err
	}
	return errors.Join(l.file.Sync(), l.saveCommit())
}

// offset is a file that begins at an LSN.
type offset struct {
	file  io.ReaderAt
	start LSN
}

func (o offset) ReadAt(p []byte, at int64) (int, error) {
	if skip := int64(o.start) - at; skip > 0 { // the page's beginning is before the log's
		if skip >= int64(len(p)) {
			clear(p)
			return len(p), nil
		}
		clear(p[:skip])
		n, err := o.file.ReadAt(p[skip:], 0)
		return n + int(skip), err
	}
	return o.file.ReadAt(p, at-int64(o.start))
}

// save makes a state durable.
func (l *Log) save(s State) error {
	path := filepath.Join(l.dir, stateName)
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	dir, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (l *Log) saveCommit() error {
	path := filepath.Join(l.dir, commitName)
	if err := os.WriteFile(path+".tmp", []byte(l.state.Commit.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// change makes a state durable and takes it. The caller holds the lock.
func (l *Log) change(s State) error {
	if err := l.save(s); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	l.state = s
	return nil
}

// State returns the state.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.History = slices.Clone(s.History)
	return s
}

// Close closes the files. Those who wait return.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.moved)
	return l.file.Close()
}

// Hold calls do while nothing changes in the directory, so that it can be copied.
func (l *Log) Hold(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return do()
}

// Configure takes a set of safekeepers, unless it knows a later one.
func (l *Log) Configure(c Configuration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if c.Generation <= l.state.Config.Generation {
		return nil
	}
	s := l.state
	s.Config = c
	return l.change(s)
}

// Vote votes for a term if it is higher than all before, and returns the state after it.
func (l *Log) Vote(term Term) (State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return State{}, ErrClosed
	}
	if term > l.state.Term {
		s := l.state
		s.Term = term
		if err := l.change(s); err != nil {
			return State{}, err
		}
	}
	return l.state, nil
}

// Election is the word of a proposer that a majority has voted for.
type Election struct {
	Term Term `json:"term"`
	// History ends with Term.
	History []TermStart `json:"history"`
	// Cut is the end of the WAL that this log shares with the proposer. The rest goes.
	Cut LSN `json:"cut"`
	// Start is the beginning of a log that is empty as yet.
	Start      LSN    `json:"start"`
	System     uint64 `json:"system"`
	Generation uint32 `json:"generation"`
}

// Elect makes a proposer the only one that may append.
func (l *Log) Elect(e Election) (State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(e.Term, e.Generation); err != nil {
		return l.state, err
	}
	s := l.state
	s.Term, s.History, s.System = e.Term, e.History, e.System
	if l.state.System == 0 {
		s.Start, s.Flush, s.Commit = e.Start, e.Start, e.Start
	} else {
		if e.Cut < l.state.Commit || e.Cut > l.state.Flush {
			return l.state, fmt.Errorf("cut the log at %s: it is committed to %s and ends at %s", e.Cut, l.state.Commit, l.state.Flush)
		}
		// First the WAL goes, then the history says so. A crash between them is harmless.
		if err := l.file.Truncate(int64(e.Cut - s.Start)); err != nil {
			return l.state, fmt.Errorf("cut the log: %w", err)
		}
		if err := l.file.Sync(); err != nil {
			return l.state, fmt.Errorf("cut the log: %w", err)
		}
		s.Flush = e.Cut
		l.state.Flush = e.Cut
	}
	if err := errors.Join(l.change(s), l.saveCommit()); err != nil {
		return l.state, err
	}
	return l.state, nil
}

// admit tells whether a proposer of this term may write. The caller holds the lock.
func (l *Log) admit(term Term, generation uint32) error {
	switch {
	case l.closed:
		return ErrClosed
	case term < l.state.Term:
		return fmt.Errorf("%w: its term is %d, this one's is %d", ErrTerm, l.state.Term, term)
	case generation < l.state.Config.Generation:
		return fmt.Errorf("%w: generation %d, the proposer has %d", ErrGeneration, l.state.Config.Generation, generation)
	}
	return nil
}

// Append is WAL of a proposer.
type Append struct {
	Term       Term
	Generation uint32
	// At is the end of the log. Commit is the end of the WAL that is on a quorum.
	At, Commit LSN
	Data       []byte
}

// Append writes WAL to the disk and returns the state after it.
func (l *Log) Append(a Append) (State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(a.Term, a.Generation); err != nil {
		return l.state, err
	}
	if l.state.elected() != a.Term || a.At != l.state.Flush {
		return l.state, fmt.Errorf("append at %s in term %d: the log ends at %s in term %d",
			a.At, a.Term, l.state.Flush, l.state.elected())
	}
	if len(a.Data) > 0 {
		if _, err := l.file.WriteAt(a.Data, int64(a.At-l.state.Start)); err != nil {
			return l.state, fmt.Errorf("append: %w", err)
		}
		if err := l.file.Sync(); err != nil {
			return l.state, fmt.Errorf("append: %w", err)
		}
		l.state.Flush += LSN(len(a.Data))
	}
	if commit := min(a.Commit, l.state.Flush); commit > l.state.Commit {
		l.state.Commit = commit
		if err := l.saveCommit(); err != nil {
			return l.state, fmt.Errorf("append: %w", err)
		}
		close(l.moved)
		l.moved = make(chan struct{})
	}
	return l.state, nil
}

// ReadAt reads WAL at an LSN up to the end of the log: the offsets are LSNs.
func (l *Log) ReadAt(p []byte, at int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, ErrClosed
	}
	if LSN(at) < l.state.Start || LSN(at) > l.state.Flush {
		return 0, fmt.Errorf("%w: %s, it has %s to %s", ErrMissing, LSN(at), l.state.Start, l.state.Flush)
	}
	n := min(len(p), int(l.state.Flush-LSN(at)))
	n, err := l.file.ReadAt(p[:n], at-int64(l.state.Start))
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Moved returns the commit, and a channel that is closed when it moves or the log is closed.
func (l *Log) Moved() (LSN, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, nil, ErrClosed
	}
	return l.state.Commit, l.moved, nil
}
