//go:build canary

// Package canary holds tests that must fail, and some that fail at first. make canary runs them and
// compares the verdicts.
package canary

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPasses(*testing.T) {}

func TestSkips(t *testing.T) { t.Skip("it has a reason") }

func TestFails(t *testing.T) { t.Error("got 1, want 2") }

func TestFailsOnce(t *testing.T) { failOnce(t, "first") }

func TestSubtestFailsOnce(t *testing.T) {
	t.Run("passes", func(*testing.T) {})
	t.Run("fails once", func(t *testing.T) { failOnce(t, "second") })
}

// failOnce fails if nobody has called it before with this name.
func failOnce(t *testing.T, name string) {
	t.Helper()
	marker := filepath.Join(os.Getenv("CANARY_DIRECTORY"), name)
	if _, err := os.Stat(marker); err == nil {
		return
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Error("it has not happened yet")
}

func TestSubtestFails(t *testing.T) {
	t.Run("passes", func(*testing.T) {})
	t.Run("fails", func(t *testing.T) { t.Error("got 1, want 2") })
}

func TestLeaks(*testing.T) { go wait(make(chan struct{})) }

func TestLeaksAndFails(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	go wait(end)
	goleak.VerifyNone(t)
}

func wait(end chan struct{}) { <-end }

func TestPanics(*testing.T) { panic("oh") }

func TestBreaksTheRuntime(*testing.T) {
	var m sync.Mutex
	m.Unlock()
}

func TestExits(*testing.T) { os.Exit(3) }

// The parallel test waits when the other one kills the program.
func TestWaits(t *testing.T) { t.Parallel() }

func TestIsKilled(*testing.T) {
	fmt.Println("the last line")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func TestNeverEnds(*testing.T) { time.Sleep(time.Hour) }

func TestRaces(*testing.T) {
	n := 0
	var ended sync.WaitGroup
	for range 2 {
		ended.Go(func() { n++ })
	}
	ended.Wait()
}

// A program under test prints its race, and the test passes.
func TestShowsARace(*testing.T) { fmt.Println("WARNING: DATA RACE") }

func Example_fails() {
	fmt.Println("1")
	// Output: 2
}

func FuzzFails(f *testing.F) {
	f.Add(1)
	f.Fuzz(func(t *testing.T, n int) { t.Error("got", n) })
}
