package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	workLock       = "pintle.lock"
	supervisorLock = "supervisor.lock" // package kubetest looks at it too
)

// A Lock is held until it is released or the process ends.
type Lock struct{ file *os.File }

// Release gives the lock up. A second call does nothing.
func (l *Lock) Release() {
	if l != nil {
		l.file.Close()
	}
}

// holds returns an error if this is not the lock that other processes find in a file.
func (l *Lock) holds(file string) error {
	if l == nil {
		return fmt.Errorf("%s is not locked", file)
	}
	opened, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("check lock: %w", err)
	}
	there, err := os.Lstat(file)
	if err != nil {
		return fmt.Errorf("check lock: %w", err)
	}
	if !os.SameFile(opened, there) {
		return fmt.Errorf("%s was replaced", file)
	}
	return nil
}

// Work claims the directory and takes the lock that up and down hold while they change a
// cluster. While another process holds it, Work calls waiting (once) and waits.
func (d Dir) Work(ctx context.Context, waiting func()) (*Lock, error) {
	for {
		if err := d.Claim(); err != nil {
			return nil, err
		}
		lock, err := Take(ctx, d.Path(workLock), waiting)
		if !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
		// Another process has just removed it.
	}
}

// TryWork takes the lock of [Dir.Work] in a directory that exists. It does not wait, and
// returns nil if another process holds the lock.
func (d Dir) TryWork() (*Lock, error) { return try(d.Path(workLock), 0, syscall.LOCK_EX) }

// Holds reports whether a lock of [Dir.Work] still excludes others: the cluster was not removed.
func (d Dir) Holds(work *Lock) bool { return work.holds(d.Path(workLock)) == nil }

// Supervise takes the supervisor's lock, which shows that a supervisor runs. It returns nil if
// another supervisor holds the lock. It waits a second for those who only look.
func (d Dir) Supervise() (*Lock, error) {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		lock, err := try(d.Path(supervisorLock), os.O_CREATE, syscall.LOCK_EX)
		if lock != nil || err != nil || time.Now().After(deadline) {
			return lock, err
		}
	}
}

// Supervised reports whether a supervisor runs.
func (d Dir) Supervised() (bool, error) {
	// It makes no file: the directory may be the user's, or is just being removed.
	// Two who look share the lock, so that neither takes the other for a supervisor.
	lock, err := try(d.Path(supervisorLock), 0, syscall.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if lock == nil {
		return true, nil
	}
	lock.Release()
	return false, nil
}

// Take takes the lock of a file, which it creates if necessary. While another process
// holds it, Take calls waiting (once) and waits.
func Take(ctx context.Context, file string, waiting func()) (*Lock, error) {
	for told := false; ; {
		lock, err := try(file, os.O_CREATE, syscall.LOCK_EX)
		if lock != nil || err != nil {
			return lock, err
		}
		if !told {
			waiting()
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", file, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// try opens a file with a further flag, and takes its lock, exclusive or shared, if it is free.
func try(file string, flag, how int) (*Lock, error) {
	f, err := os.OpenFile(file, flag|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, nil
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	// The file may have been removed and created again since it was opened. Then this
	// lock excludes no process.
	opened, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	there, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(opened, there) {
		f.Close()
		return nil, nil
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return &Lock{file: f}, nil
}
