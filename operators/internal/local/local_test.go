package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// All steps are undone in reverse order, even if some fail.
func TestUndo(t *testing.T) {
	var u Undo
	var done []string
	failure := errors.New("failure")
	for _, what := range []string{"first", "second", "third"} {
		u.Add(what, func(context.Context) error {
			done = append(done, what)
			if what == "second" {
				return failure
			}
			return nil
		})
	}
	if err := u.Run(); !errors.Is(err, failure) || !strings.Contains(err.Error(), "second: ") {
		t.Errorf("got %v", err)
	}
	if err := u.Run(); err != nil {
		t.Errorf("with nothing left: %v", err)
	}
	if want := []string{"third", "second", "first"}; !slices.Equal(done, want) {
		t.Errorf("got %q, want %q", done, want)
	}
}

// The directory of a killed process is removed; the directory of a running one stays.
func TestMakeDir(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	const noProcess = 1 << 30
	left, others := filepath.Join(
		temp, fmt.Sprintf("try-%d-1", noProcess),
	), filepath.Join(
		temp, fmt.Sprintf("try-%d-1", os.Getppid()),
	)
	for _, dir := range []string{left, others} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := MakeDir("try-")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(filepath.Base(dir), fmt.Sprintf("try-%d-", os.Getpid())) {
		t.Errorf("it is %s", dir)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the remaining files are there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}

func TestAskedForCurrent(t *testing.T) {
	for value, want := range map[string]bool{"": false, "local": false, "current": true} {
		t.Setenv("CLUSTER", value)
		if got, err := AskedForCurrent(); got != want || err != nil {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	t.Setenv("CLUSTER", "other")
	if _, err := AskedForCurrent(); err == nil || !strings.Contains(err.Error(), "CLUSTER=other") {
		t.Errorf("got %v", err)
	}
}
