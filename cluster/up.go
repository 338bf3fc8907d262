package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/build"
	"github.com/pintle-go/pintle/cluster/internal/process"
	"github.com/pintle-go/pintle/cluster/internal/realnode"
	"github.com/pintle-go/pintle/cluster/internal/state"
	"github.com/pintle-go/pintle/cluster/internal/supervisor"
)

// upFlags are the flags of up.
type upFlags struct {
	settings   state.Settings
	node       string
	foreground bool
	quiet      bool
	owner      int
	keep       time.Duration
}

func (f *upFlags) define(flags *flag.FlagSet) {
	s := &f.settings
	flags.IntVar(&s.Nodes, "nodes", 0, "number of simulated nodes")
	flags.StringVar(&f.node, "node", "", "\"real\": make this machine a node, with containerd (Linux, root)")
	flags.BoolVar(
		&s.Controllers, "controllers", true, "run the controller-manager and the scheduler, not only the API server",
	)
	flags.BoolVar(&s.Ephemeral, "ephemeral", false, "remove the cluster's directory when it ends")
	flags.BoolVar(&f.foreground, "foreground", false, "stay in the foreground, and end the cluster on Ctrl-C")
	flags.BoolVar(&f.quiet, "quiet", false, "print only errors and the progress of a build")
	flags.IntVar(&f.owner, "owner", 0, "end the cluster when the process with this id ends")
	flags.DurationVar(
		&f.keep, "keep", 0, "keep the cluster for this time after its owner has ended, without its objects: "+
			"an up with another --owner can use it then (with --owner and --ephemeral)",
	)
	flags.Var(
		list{&s.APIServerArgs}, "apiserver-arg", "flag for kube-apiserver, such as --v=4 (repeatable, like the next two)",
	)
	flags.Var(list{&s.ControllerManagerArgs}, "controller-manager-arg", "flag for kube-controller-manager")
	flags.Var(list{&s.SchedulerArgs}, "scheduler-arg", "flag for kube-scheduler")
}

// A sayer is say, or a function that prints nothing.
type sayer func(format string, args ...any)

// list is a flag that can be repeated.
type list struct{ values *[]string }

func (l list) String() string { return "" }

func (l list) Set(value string) error {
	*l.values = append(*l.values, value)
	return nil
}

func (f *upFlags) check(t target) error {
	f.settings.Name = cmp.Or(t.name, defaultName)
	switch f.node {
	case "":
	case "real":
		f.settings.RealNode = true
	default:
		return fmt.Errorf("--node %q: want \"real\"; --nodes N adds simulated nodes", f.node)
	}
	if f.keep < 0 || f.keep > 0 && (f.owner == 0 || !f.settings.Ephemeral || f.foreground) {
		return fmt.Errorf("--keep %s: want a positive time, --owner, --ephemeral and no --foreground", f.keep)
	}
	if f.settings.Nodes < 0 {
		return fmt.Errorf("--nodes %d: the number of nodes must not be negative", f.settings.Nodes)
	}
	return nil
}

// up starts the cluster. By default it leaves a supervisor running, in a session of its
// own, and returns when the cluster is ready.
func up(ctx context.Context, t target, args []string) error {
	var f upFlags
	flags, err := t.parse("up", "", args, f.define)
	if err != nil {
		return err
	}
	if err := f.check(t); err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	var say sayer = say
	if f.quiet {
		say = func(string, ...any) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config, err := f.config(ctx, dir, cancel)
	if err != nil {
		return err
	}
	began := time.Now()
	lock, running, err := f.claimOrAdopt(ctx, say, dir, config)
	if err != nil {
		return err
	}
	defer func() { lock.Release() }()
	if running != nil {
		return sayRunning(say, dir, f, flags, config.Owner, *running)
	}
	if lock, err = freshen(ctx, say, dir, lock, f.settings.Ephemeral); err != nil {
		return err
	}
	if err := dir.Mark(state.Record{Settings: f.settings, Owner: config.Owner}); err != nil {
		return err
	}
	say("starting cluster %q in %s", t.name, dir)
	ready := func(s supervisor.Status) {
		say("ready after %s", time.Since(began).Round(10*time.Millisecond))
		sayHow(say, t, s)
	}
	if f.foreground {
		config.Progress = func(text string) { say("%s", text) }
		config.Ready = func(s supervisor.Status) {
			lock.Release()
			ready(s)
			say("Ctrl-C ends the cluster")
		}
		return supervisor.Run(ctx, config)
	}
	s, err := launch(ctx, say, dir, config)
	if err != nil {
		return err
	}
	ready(s)
	return nil
}

// config returns the supervisor's configuration, and builds Kubernetes if necessary. It
// calls cancel if the owner ends meanwhile.
func (f *upFlags) config(ctx context.Context, dir state.Dir, cancel func()) (supervisor.Config, error) {
	config := supervisor.Config{
		Dir: dir, Settings: f.settings, Nodes: nodesFor(f.settings),
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if f.settings.RealNode {
		// This comes before a build, which takes minutes.
		if err := realnode.Check(); err != nil {
			return supervisor.Config{}, err
		}
	}
	var err error
	if f.owner != 0 {
		if config.Owner, err = process.Identify(f.owner); err != nil {
			return supervisor.Config{}, fmt.Errorf("find the cluster's owner: %w", err)
		}
		config.Keep = f.keep
		go config.Owner.Await(ctx, cancel)
		prune(say, dir) // with --quiet too
	}
	if config.Binary, err = builder().Program(ctx, build.ControlPlane); err != nil {
		return config, err
	}
	if f.settings.RealNode {
		err = realnode.Build(ctx, builder())
	}
	return config, err
}

// claim locks the state directory for this process.
func claim(ctx context.Context, say sayer, dir state.Dir) (*state.Lock, error) {
	return dir.Work(ctx, func() { say("waiting for another up or down of this cluster") })
}

// claimOrAdopt locks the state directory, and returns the cluster's status if it runs. A
// cluster that starts or stops is waited for. If the cluster is kept for a next owner, it
// runs and belongs to that owner now, or it has been ended: a cluster that is damaged, or has
// another version of Kubernetes, is not used.
func (f *upFlags) claimOrAdopt(
	ctx context.Context, say sayer, dir state.Dir, config supervisor.Config,
) (*state.Lock, *supervisor.Status, error) {
	for {
		lock, err := claim(ctx, say, dir)
		if err != nil {
			return nil, nil, err
		}
		running, err := settled(ctx, say, dir)
		if f.keep > 0 && (running != nil || errors.Is(err, errSilent)) {
			var adopted bool
			if adopted, err = adopt(ctx, say, dir, config); !adopted {
				running = nil
			}
		}
		if err != nil {
			lock.Release()
			return nil, nil, err
		}
		if dir.Exists() {
			return lock, running, nil
		}
		lock.Release() // the cluster was removed, and the lock with it
	}
}

// adopt makes a running cluster the owner's, and reports whether it runs. If it cannot be
// used, adopt ends it.
func adopt(ctx context.Context, say sayer, dir state.Dir, config supervisor.Config) (running bool, err error) {
	err = supervisor.NewClient(dir).Adopt(ctx, config.Ownership)
	if errors.Is(err, supervisor.ErrOwned) {
		return false, exitStatus(statusOwned)
	}
	if err == nil {
		record, err := dir.Record()
		if err != nil {
			return false, err
		}
		if record.Binary == config.Binary {
			return true, nil
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	say("the cluster cannot be used again: ending it")
	return false, endSupervisor(ctx, say, dir)
}

// statusOwned is the exit status of up --keep if the cluster belongs to another process.
const statusOwned = 3

// freshen removes the remains of an earlier run that must not be kept. It returns the
// lock, which may be another one afterwards.
func freshen(ctx context.Context, say sayer, dir state.Dir, lock *state.Lock, ephemeral bool) (*state.Lock, error) {
	record, err := dir.Record()
	switch {
	case errors.Is(err, fs.ErrNotExist): // the cluster does not exist yet
		return lock, nil
	case err != nil:
		return lock, err
	case record.Settings.Ephemeral: // its earlier run did not end in order
		if err := cleanUp(say, dir, true); err != nil {
			return lock, err
		}
		lock.Release()
		return claim(ctx, say, dir)
	case ephemeral:
		return lock, fmt.Errorf("--ephemeral would remove the objects kept in %s: use another cluster, or down --delete", dir)
	}
	return lock, sweep(say, dir)
}

// sayRunning handles up on a running cluster. That is an error only if other settings or
// another owner are asked for.
func sayRunning(
	say sayer, dir state.Dir, f upFlags, flags *flag.FlagSet, owner process.Identity, s supervisor.Status,
) error {
	record, err := dir.Record()
	if err != nil {
		return err
	}
	if err := checkOwner(owner, record.Owner); err != nil {
		return err
	}
	asked := false
	flags.Visit(func(given *flag.Flag) {
		switch given.Name {
		case "name", "dir", "owner", "foreground", "quiet":
		default:
			asked = true
		}
	})
	f.settings.Name = record.Settings.Name
	if asked && !reflect.DeepEqual(f.settings, record.Settings) {
		return errors.New("the cluster is running with other settings: end it first, with down")
	}
	if f.foreground {
		return errors.New("the cluster is running already, in the background: end it first, with down")
	}
	say("cluster %q is running already, since %s", s.Name, s.Started.Format(time.DateTime))
	if owner.PID == 0 && record.Owner.PID != 0 {
		say("it belongs to process %d, and ends with it", record.Owner.PID)
	}
	sayHow(say, target{name: s.Name, path: string(dir)}, s)
	return nil
}

// checkOwner returns an error if a running cluster would not end with the owner that up is
// called with.
func checkOwner(asked, is process.Identity) error {
	switch {
	case asked.PID == 0 || asked == is:
		return nil
	case is.PID == 0:
		return fmt.Errorf("the cluster is running without an owner, so it would not end with process %d: "+
			"end it first, with down", asked.PID)
	}
	return fmt.Errorf("the cluster is running with process %d as its owner, so it would not end with process %d: end it first, with down", is.PID, asked.PID)
}

func sayHow(say sayer, t target, s supervisor.Status) {
	say("  export KUBECONFIG=%s", s.Kubeconfig)
	if t.path == "" && t.name == defaultName {
		say("or: cluster kubectl get namespaces")
	}
}

// A report is a message of the supervisor to the up that started it: progress, and
// finally its status when the cluster is ready, or the reason why it is not.
type report struct {
	Progress string             `json:"progress,omitempty"`
	Status   *supervisor.Status `json:"status,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// launch starts a supervisor, and returns when it reports that the cluster is ready. If
// ctx ends before, launch tells the supervisor to end, and waits for it.
func launch(ctx context.Context, say sayer, dir state.Dir, config supervisor.Config) (supervisor.Status, error) {
	data, err := json.Marshal(order{Dir: dir, Settings: config.Settings, Binary: config.Binary, Ownership: config.Ownership})
	if err != nil {
		return supervisor.Status{}, fmt.Errorf("encode the supervisor's order: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return supervisor.Status{}, fmt.Errorf("find this program: %w", err)
	}
	logFile := process.LogFile(string(dir), "supervisor")
	if err := os.MkdirAll(filepath.Dir(logFile), 0o700); err != nil {
		return supervisor.Status{}, fmt.Errorf("make log directory: %w", err)
	}
	log, err := os.OpenFile(logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return supervisor.Status{}, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	begun, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return supervisor.Status{}, fmt.Errorf("open the supervisor's log: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return supervisor.Status{}, fmt.Errorf("make the supervisor's report pipe: %w", err)
	}
	defer read.Close()

	cmd := exec.Command(program, "supervise")
	cmd.Stdin = strings.NewReader(string(data))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return supervisor.Status{}, fmt.Errorf("start the supervisor: %w", err)
	}
	return awaitReport(ctx, say, cmd, read, logFile, begun)
}

// awaitReport waits for the supervisor's last report. The log has its words from an offset on.
func awaitReport(
	ctx context.Context, say sayer, cmd *exec.Cmd, pipe io.Reader, log string, begun int64,
) (supervisor.Status, error) {
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	var r report
	for reports := json.NewDecoder(pipe); r.Status == nil && r.Error == ""; {
		r = report{}
		if reports.Decode(&r) != nil {
			break // the supervisor has ended
		}
		if r.Progress != "" {
			say("%s", r.Progress)
		}
	}
	if r.Status != nil && stop() {
		return *r.Status, cmd.Process.Release()
	}
	waited := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return supervisor.Status{}, errors.New("interrupted: the cluster was stopped again")
	case r.Error != "":
		return supervisor.Status{}, errors.New(r.Error)
	case waited == nil: // it was told to
		return supervisor.Status{}, errors.New("the cluster was stopped before it was ready")
	}
	return supervisor.Status{}, fmt.Errorf("the supervisor has ended (%w); the end of %s:\n    %s",
		waited, log, strings.Join(process.LastWords(log, begun, 8), "\n    "))
}
