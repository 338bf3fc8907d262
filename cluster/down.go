package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/realnode"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// downLimit is the time that a supervisor may take to end a cluster. After that its
// processes are ended without it.
const downLimit = time.Minute

// down ends the cluster in any state.
func down(ctx context.Context, t target, args []string) error {
	remove, quiet := false, false
	_, err := t.parse("down", "", args, func(flags *flag.FlagSet) {
		flags.BoolVar(&quiet, "quiet", false, "print only errors")
		flags.BoolVar(&remove, "delete", false, "also remove the cluster's objects and all its files; other files in its directory stay")
	})
	if err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	var say sayer = say
	if quiet {
		say = func(string, ...any) {}
	}
	if !dir.Exists() {
		return absent(say, dir)
	}
	// An up that begins now waits, and starts the cluster again. A cluster that starts is ended
	// without this lock, which its up holds.
	lock, err := dir.TryWork()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() { lock.Release() }()
	if err := endSupervisor(ctx, say, dir); err != nil {
		return err
	}
	if !dir.Exists() || lock != nil && !dir.Holds(lock) { // it was ephemeral; up may have made another one
		say("the cluster is down and removed")
		return nil
	}
	if lock == nil {
		if lock, err = claim(ctx, say, dir); err != nil {
			return err
		}
		if err := endSupervisor(ctx, say, dir); err != nil {
			return err
		}
	}
	return cleanUp(say, dir, remove)
}

// absent tells that there is no cluster. That a record is damaged is an error.
func absent(say sayer, dir state.Dir) error {
	if _, err := dir.Record(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing proves that %s belongs to a cluster, so it stays as it is: %w", dir, err)
	}
	say("there is no cluster in %s", dir)
	return nil
}

// endSupervisor tells the supervisor to stop, if there is one, and waits until it has
// stopped. A supervisor that has just started does not listen yet: it is told again.
func endSupervisor(ctx context.Context, say sayer, dir state.Dir) error {
	client := supervisor.NewClient(dir)
	told, said := false, false
	for deadline := time.Now().Add(downLimit); ; time.Sleep(20 * time.Millisecond) {
		running, err := dir.Supervised()
		if err != nil || !running {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !told {
			err := client.Stop(ctx)
			switch told = err == nil; {
			case told:
				deadline = time.Now().Add(downLimit)
			case errors.Is(err, context.DeadlineExceeded):
				return killSupervisor(say, dir)
			case !said:
				say("waiting for the supervisor to listen, or to end (%v)", err)
				said = true
			}
		}
		if time.Now().After(deadline) {
			return killSupervisor(say, dir)
		}
	}
}

// killSupervisor ends a stuck supervisor: the process of the record, if it is the same one.
func killSupervisor(say sayer, dir state.Dir) error {
	record, err := dir.Record()
	if err != nil {
		return err
	}
	say("the supervisor (process %d) does not end the cluster: killing the supervisor", record.Supervisor.PID)
	was, err := process.End(record.Supervisor, 20*time.Second)
	if err != nil {
		return err
	}
	deadline := time.Now()
	if was { // its lock is free when the last of its threads has ended
		deadline = deadline.Add(10 * time.Second)
	}
	for ; ; time.Sleep(20 * time.Millisecond) {
		running, err := dir.Supervised()
		if err != nil || !running {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("end the supervisor: its lock in %s belongs to another process than %d, which the record names",
				dir, record.Supervisor.PID)
		}
	}
}

// cleanUp ends the remaining processes of a crashed supervisor, and removes the files
// that are not to be kept.
func cleanUp(say sayer, dir state.Dir, remove bool) error {
	record, err := dir.Record()
	if errors.Is(err, fs.ErrNotExist) { // the cluster was never started
		remove, err = true, nil
	}
	if err != nil {
		return err
	}
	lock, err := dir.Supervise()
	if err != nil {
		return err
	}
	if lock == nil {
		return supervisor.ErrRunning
	}
	defer lock.Release()
	if remove || record.Settings.Ephemeral {
		return discard(say, dir, lock)
	}
	if err := sweep(say, dir); err != nil {
		return err
	}
	say("the cluster is down; its objects are kept in %s (down --delete removes them)", dir)
	return nil
}

// discard ends the remaining processes of a cluster and removes it. The caller holds the
// supervisor's lock.
func discard(say sayer, dir state.Dir, lock *state.Lock) error {
	if err := sweep(say, dir); err != nil {
		return err
	}
	left, err := dir.Remove(lock)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		say("the cluster is down and removed; %s stays with files that are not the cluster's: %s", dir, strings.Join(left, ", "))
		return nil
	}
	say("the cluster in %s is down and removed", dir)
	return nil
}

// sweep ends the processes that a supervisor left, and undoes the changes of a real node
// on this machine. The supervisor must be gone.
func sweep(say sayer, dir state.Dir) error {
	swept, err := process.Sweep(string(dir))
	for _, name := range swept {
		say("ended %s, left by an earlier run", name)
	}
	if err != nil {
		return err
	}
	return realnode.Clean(string(dir))
}

// prune removes the clusters beside dir whose owner has ended and that have no supervisor
// to remove them. It tidies up after others: what it cannot remove, it reports.
func prune(report sayer, dir state.Dir) {
	beside := filepath.Dir(string(dir))
	entries, err := os.ReadDir(beside)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		report("look for clusters whose owner has ended: %v", err)
	}
	for _, e := range entries {
		sibling := state.Dir(filepath.Join(beside, e.Name()))
		if err := pruneOne(func(string, ...any) {}, sibling); err != nil {
			report("leaving %s, which may be a cluster whose owner has ended: %v", sibling, err)
		}
	}
}

func pruneOne(say sayer, dir state.Dir) error {
	if is, err := abandoned(dir); !is {
		return err
	}
	work, err := dir.TryWork()
	if errors.Is(err, fs.ErrNotExist) || err == nil && work == nil {
		return nil // another process removes it, or starts it again
	}
	if err != nil {
		return err
	}
	defer work.Release()
	lock, err := dir.Supervise()
	if err != nil || lock == nil {
		return err // another process is ending it
	}
	defer lock.Release()
	if is, err := abandoned(dir); !is { // another process has started it again meanwhile
		return err
	}
	return discard(say, dir, lock)
}

// abandoned reports whether a cluster is to be removed with its owner, and the owner has
// ended.
func abandoned(dir state.Dir) (bool, error) {
	record, err := dir.Record()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) {
		return false, nil // it is none, it is another user's, or another process has just removed it
	}
	return err == nil && record.Settings.Ephemeral && record.Owner.PID != 0 && !record.Owner.Alive(), err
}
