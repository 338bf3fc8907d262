// Package process starts the programs of a local cluster and ends them, even if the
// cluster's supervisor has crashed.
//
// A [Group] belongs to one supervisor and one state directory. A process of the group
//
//   - writes its output to a log file of its own (logs/NAME.log),
//   - is recorded with its identity (processes/NAME.json), so that [Sweep] can end it
//     after a crash: by id and start time, never by id or name alone,
//   - ends when the supervisor ends, however that happens: our programs watch an
//     inherited pipe (package lifeline), and the kernel kills foreign programs (Linux
//     only),
//   - is in a process group of its own, so that Ctrl-C in a terminal reaches only the
//     supervisor, which then ends the processes in order. If a process is stopped
//     (SIGSTOP) when the supervisor ends, the kernel continues it and sends it SIGHUP.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/pintle-go/pintle/cluster/internal/lifeline"
	"github.com/pintle-go/pintle/cluster/internal/pki"
)

// logLimit is the size above which a log is set aside when its process is restarted. One
// earlier log is kept.
const logLimit = 64 << 20

// A Spec describes the process to start.
type Spec struct {
	Name string // unique in the group; names the log and the record
	Path string
	Args []string // without the program's name
	Env  []string // added to the supervisor's own
	Dir  string   // working directory; the supervisor's when empty

	// Foreign marks a program that does not watch a lifeline. On Linux the kernel kills
	// it (SIGKILL) when the supervisor ends; elsewhere only Sweep ends it.
	Foreign bool
}

// A Group starts processes for one state directory. It is safe for concurrent
// use.
type Group struct {
	dir      string
	lifeline *os.File // the children's end
	hold     *os.File // the supervisor's end: closed, it ends the children

	starts   chan func()
	closed   chan struct{}
	once     sync.Once
	programs map[string]*os.File // run owns it, and the functions that it calls
}

// NewGroup returns a group that keeps logs and records in dir. The caller must close it.
func NewGroup(dir string) (*Group, error) {
	for _, sub := range []string{logDir(dir), recordDir(dir)} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, fmt.Errorf("make directory for processes: %w", err)
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make lifeline: %w", err)
	}
	g := &Group{
		dir: dir, lifeline: read, hold: write, starts: make(chan func()), closed: make(chan struct{}),
		programs: map[string]*os.File{},
	}
	go g.run()
	return g, nil
}

// run starts all processes from one thread that lives as long as the group. For the
// kernel, a child's parent is the thread that started it; if that thread ended early, the
// kernel would kill the foreign children.
func (g *Group) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer func() {
		for _, f := range g.programs {
			f.Close()
		}
	}()
	for {
		select {
		case start := <-g.starts:
			start()
		case <-g.closed:
			return
		}
	}
}

// Close ends the group's remaining processes in the same way as a crash. Stop processes
// first.
func (g *Group) Close() {
	g.once.Do(func() {
		close(g.closed)
		g.hold.Close()
		g.lifeline.Close()
	})
}

// Start starts a process.
func (g *Group) Start(spec Spec) (*Process, error) {
	log, err := openLog(LogFile(g.dir, spec.Name))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	defer log.Close()
	begun, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if spec.Foreign {
		dieWithParent(cmd.SysProcAttr)
	} else {
		cmd.ExtraFiles = []*os.File{g.lifeline}
		cmd.Env = append(cmd.Env, lifeline.Variable+"=3")
	}

	err = g.Do(func() error {
		g.use(spec.Path)
		return cmd.Start()
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, log: log.Name(), begun: begun, done: make(chan struct{})}
	p.id, err = Identify(cmd.Process.Pid)
	if err == nil {
		err = writeRecord(g.dir, spec.Name, p.id)
	} else if errors.Is(err, ErrGone) {
		err = nil // it has already ended: wait reports how
	}
	go p.wait(cmd, recordFile(g.dir, spec.Name))
	if err != nil {
		err = errors.Join(err, p.Kill())
		<-p.done
		return nil, fmt.Errorf("record %s: %w", spec.Name, err)
	}
	return p, nil
}

// Do runs f on the thread that starts the group's processes. They inherit the changes
// that f makes to the thread, such as its namespaces. No process starts while f runs.
func (g *Group) Do(f func() error) error {
	result := make(chan error, 1)
	select {
	case g.starts <- func() { result <- f() }:
		return <-result
	case <-g.closed:
		return errors.New("the supervisor is ending")
	}
}

// use locks a program for the group, which may start it again: package build removes no
// program that is in use. Start reports a program that is missing.
func (g *Group) use(program string) {
	if g.programs[program] != nil {
		return
	}
	if f, err := os.Open(program); err == nil {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) // not all file systems have locks
		g.programs[program] = f
	}
}

// LogFile returns the path of the log of a process, by the state directory and the name
// of the process.
func LogFile(dir, name string) string { return filepath.Join(logDir(dir), name+".log") }

func logDir(dir string) string           { return filepath.Join(dir, "logs") }
func recordDir(dir string) string        { return filepath.Join(dir, "processes") }
func recordFile(dir, name string) string { return filepath.Join(recordDir(dir), name+".json") }

func writeRecord(dir, name string, id Identity) error {
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return pki.WriteFile(recordFile(dir, name), data, 0o600)
}

func openLog(file string) (*os.File, error) {
	if info, err := os.Stat(file); err == nil && info.Size() > logLimit {
		if err := os.Rename(file, file+".1"); err != nil {
			return nil, fmt.Errorf("set aside log: %w", err)
		}
	}
	return os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}
