//go:build unix

package controller

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// The first signal ends the context, the second the process.
func TestSignals(t *testing.T) {
	if os.Getenv("SIGNALS_TEST") != "" {
		ctx, stop := Signals()
		defer stop()
		fmt.Println("runs")
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond) // until the signals are left to themselves
		fmt.Println("stops")
		select {} // with any reaction, it takes too long
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSignals$")
	cmd.Env = append(os.Environ(), "SIGNALS_TEST=yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"runs", "stops"} {
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("it says %q, want %q", lines.Text(), want)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want by the signal", err)
	}
}
