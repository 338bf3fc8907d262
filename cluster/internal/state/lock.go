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
	supervisorLock = "supervisor.lock"
)

// A Lock is held until it is released or the process ends.
type Lock struct{ file *os.File }

// Release gives the lock up. A second call does nothing.
func (l *Lock) Release() {
	if l != nil {
		l.file.Close()
	}
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
func (d Dir) TryWork() (*Lock, error) { return try(d.Path(workLock)) }

// Supervise takes the supervisor's lock, which shows that a supervisor runs. It does not
// wait, and returns nil if another process holds the lock.
func (d Dir) Supervise() (*Lock, error) {
	return try(d.Path(supervisorLock))
}

// Supervised reports whether a supervisor runs.
func (d Dir) Supervised() (bool, error) {
	if !d.Exists() {
		return false, nil
	}
	lock, err := d.Supervise()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another process has just removed it
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
		lock, err := try(file)
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

func try(file string) (*Lock, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
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
