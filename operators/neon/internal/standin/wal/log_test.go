package wal

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func newLog(t *testing.T) *Log {
	t.Helper()
	l, err := CreateLog(t.TempDir(), Start, Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func elect(t *testing.T, l *Log, e Election) State {
	t.Helper()
	if e.System == 0 {
		e.System = 42
	}
	s, err := l.Elect(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVotesOnlyRise(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	for _, vote := range []struct{ term, after Term }{{3, 3}, {2, 3}, {3, 3}, {4, 4}} {
		if s, err := l.Vote(vote.term); err != nil || s.Term != vote.after {
			t.Errorf("after the vote for %d the term is %d, %v, want %d", vote.term, s.Term, err, vote.after)
		}
	}
	again, err := OpenLog(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if s := again.State(); s.Term != 4 {
		t.Errorf("the vote was forgotten: term %d", s.Term)
	}
}

func TestOlderProposersAreRefused(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	elect(t, l, Election{Term: 1, History: []TermStart{{1, Start}}, Start: Start})
	if _, err := l.Append(Append{Term: 1, At: Start, Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Vote(2); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(Append{Term: 1, At: Start + 1, Data: []byte("x")}); !errors.Is(err, ErrTerm) {
		t.Errorf("Append of the older term: %v", err)
	}
	if _, err := l.Elect(Election{Term: 1}); !errors.Is(err, ErrTerm) {
		t.Errorf("Elect of the older term: %v", err)
	}
	if _, err := l.Append(Append{Term: 2, At: Start + 1, Data: []byte("x")}); err == nil {
		t.Error("Append before Elect has no error")
	}
	elect(t, l, Election{Term: 2, History: []TermStart{{2, Start}}, Cut: Start})
	if s := l.State(); s.Flush != Start || s.elected() != 2 {
		t.Errorf("after Elect the log is %+v", s)
	}
	for _, at := range []LSN{Start - 1, Start + 1} {
		if _, err := l.Append(Append{Term: 2, At: at, Data: []byte("x")}); err == nil {
			t.Errorf("Append at %s leaves a hole", at)
		}
	}
}

func TestOldSetsAreRefused(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	if err := l.Configure(Configuration{Generation: 3, Members: []Member{{1, "a:1"}}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Configure(Configuration{Generation: 2}); err != nil {
		t.Fatal(err)
	}
	if s := l.State(); s.Config.Generation != 3 || len(s.Config.Members) != 1 {
		t.Errorf("the configuration is %+v", s.Config)
	}
	if _, err := l.Elect(Election{Term: 1, Generation: 2}); !errors.Is(err, ErrGeneration) {
		t.Errorf("Elect with an older set: %v", err)
	}
}

func TestCommittedWALIsNeverCut(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	elect(t, l, Election{Term: 1, History: []TermStart{{1, Start}}, Start: Start})
	for _, a := range []Append{{Term: 1, At: Start, Data: make([]byte, 100)}, {Term: 1, At: Start + 100, Commit: Start + 50}} {
		if _, err := l.Append(a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Elect(Election{Term: 2, Cut: Start + 49, System: 42}); err == nil {
		t.Error("Elect cuts committed WAL off")
	}
	if s := l.State(); s.Flush != Start+100 || s.Commit != Start+50 {
		t.Errorf("the log is %+v", s)
	}
}

func TestTornWritesAreCutOff(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	m := &made{start: Start}
	m.add(random, 500)
	end := m.add(random, 3*PageSize)
	m.add(random, 1000)
	l := newLog(t)
	elect(t, l, Election{Term: 1, History: []TermStart{{1, Start}}, Start: Start})
	if _, err := l.Append(Append{Term: 1, At: Start, Data: m.bytes[:end-Start]}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(l.dir, dataName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(append(m.bytes[end-Start:end-Start+600:end-Start+600], make([]byte, 500)...)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenLog(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if s := again.State(); s.Flush != end {
		t.Errorf("the log ends at %s, want %s", s.Flush, end)
	}
}
