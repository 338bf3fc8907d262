package safekeeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wal"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// TestDirectory checks the rules for the data directory: one program at a time, and one ID for
// ever.
func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refused := func(c Config, reason string) {
		t.Helper()
		s, err := Open(c)
		if err == nil {
			s.Close()
			t.Fatalf("Open(%+v) succeeds", c)
		}
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("Open: got %v, want %q", err, reason)
		}
	}
	refused(Config{Dir: filepath.Join(dir, "missing"), ID: 1}, "workdir")
	refused(Config{Dir: dir}, "id is not specified")
	s, err := Open(Config{Dir: dir, ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	refused(Config{Dir: dir, ID: 1}, "claim pid file")
	s.Close()
	refused(Config{Dir: dir, ID: 2}, "already initialized with id 1")
	again, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if again.ID != 1 {
		t.Errorf("ID is %d, want 1", again.ID)
	}
}

// TestMoments checks that the times of commits are recorded as they come, and outlive the program.
func TestMoments(t *testing.T) {
	t.Parallel()
	const start = upstream.LSN(wal.Start)
	dir := t.TempDir()
	tl, err := createTimeline(dir, "tenant", "timeline", state{Start: start}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	election := wal.Election{Term: 1, History: []wal.TermStart{{Term: 1, LSN: wal.Start}}, Cut: wal.Start, Start: wal.Start, System: 1}
	if _, err := tl.Log().Elect(election); err != nil {
		t.Fatal(err)
	}
	if err := tl.Record(start+5, time.UnixMicro(1)); err != nil {
		t.Fatal(err)
	}
	for at := wal.Start; at < wal.Start+10; at += 5 {
		if _, err := tl.Log().Append(wal.Append{Term: 1, At: at, Commit: at + 5, Data: make([]byte, 5)}); err != nil {
			t.Fatal(err)
		}
	}
	kubetest.Eventually(t, "there are two moments", func() error {
		moments, err := tl.Moments()
		if err == nil && len(moments) != 2 {
			err = fmt.Errorf("there are %d", len(moments))
		}
		return err
	})
	if err := tl.close(); err != nil {
		t.Fatal(err)
	}
	tl, err = loadTimeline(dir, "tenant", "timeline", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tl.close(); err != nil {
			t.Error(err)
		}
	}()
	if p := tl.Position(); p != (Position{Term: 1, Start: start, Flush: start + 10, Commit: start + 10}) {
		t.Errorf("position is %+v", p)
	}
	moments, err := tl.Moments()
	if err != nil {
		t.Fatal(err)
	}
	if len(moments) != 2 || moments[0] != (Moment{1, start + 5}) || moments[1].LSN != start+10 {
		t.Errorf("moments are %v", moments)
	}
}
