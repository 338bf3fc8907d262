package program

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

func shell(t *testing.T, script string, line func(string)) *Program {
	t.Helper()
	p, err := Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, Line: line})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestLines(t *testing.T) {
	var seen []string
	p := shell(
		t,
		`echo $GREETING you; echo "to stderr" >&2; printf unfinished; exit 3`,
		func(s string) { seen = append(seen, s) },
	)
	if line, err := p.Await(t.Context(), "you", "hello"); err != nil || line != "hello you" {
		t.Errorf("%q, %v", line, err)
	}
	if code, err := p.Wait(t.Context()); err != nil || code != 3 {
		t.Errorf("status %d, %v", code, err)
	}
	if lines, _ := p.Lines(); strings.Join(lines, "|") != "hello you|to stderr|unfinished" ||
		strings.Join(seen, "|") != strings.Join(lines, "|") {
		t.Errorf("lines %q, seen %q", lines, seen)
	}
	if _, err := p.Await(
		t.Context(), "never",
	); err == nil ||
		!strings.Contains(err.Error(), "the program has ended: exit status 3") {
		t.Errorf("wait for a line that does not come: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal to one that has ended: %v", err)
	}
}

func TestLinesAreBounded(t *testing.T) {
	p := shell(t, `i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done`, nil)
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lines, _ := p.Lines(); len(lines) > linesKept || lines[len(lines)-1] != "2999" {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
}

func TestStop(t *testing.T) {
	p := shell(t, `trap "" TERM; echo stubborn; while :; do sleep 0.1; done`, nil)
	if _, err := p.Await(t.Context(), "stubborn"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Stop(t.Context(), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("killed after %s", took)
	}
	if code, err := p.Wait(t.Context()); err != nil || code != -1 {
		t.Errorf("status %d, %v", code, err)
	}
}

func TestAwaitEnds(t *testing.T) {
	p := shell(t, `exec sleep 60`, nil)
	why := errors.New("long enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
	defer cancel()
	if _, err := p.Await(ctx, "never"); !errors.Is(err, why) {
		t.Errorf("await: %v", err)
	}
	if _, err := p.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("wait: %v", err)
	}
}

func TestNoProgram(t *testing.T) {
	if _, err := Start(Spec{Path: "/nonexistent"}); err == nil || !strings.Contains(err.Error(), "start /nonexistent") {
		t.Error(err)
	}
	if _, err := Build(
		t.Context(), t.TempDir(), false, "/nonexistent",
	); err == nil ||
		!strings.Contains(err.Error(), "/nonexistent") {
		t.Error(err)
	}
}
