package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pintle-go/pintle/bench/measure"
)

// operator is a running operator, seen from outside.
type operator struct {
	started time.Time
	cmd     *exec.Cmd
	log     *os.File
	ended   chan struct{} // closed when the process has ended
	err     error         // the error with which the process ended
}

// echoFlags returns the flags of an Echo operator: the address of its metrics, if it has
// metrics, and a lease, which the one on controller-runtime takes without being told.
func echoFlags(ctx context.Context, name string) ([]string, error) {
	if name == kubersEcho {
		return nil, nil
	}
	address, err := freeAddress(ctx)
	flags := []string{"-addr", address}
	if name == oursEcho {
		flags = append(flags, "-lease")
	}
	return flags, err
}

// startOperator starts an Echo operator whose program is in dir, against the server of a
// kubeconfig. The log goes to a file.
func startOperator(ctx context.Context, dir, name, kubeconfig string) (*operator, error) {
	flags, err := echoFlags(ctx, name)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, name)
	log, err := os.Create(program + ".log")
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	o := &operator{log: log, ended: make(chan struct{})}
	o.cmd = exec.Command(program, flags...) //nolint:noctx // stop ends it in order
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.started = time.Now()
	if err := o.cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		o.err = o.cmd.Wait()
		close(o.ended)
	}()
	return o, nil
}

// stop tells the operator to end and waits until it has ended.
func (o *operator) stop() error {
	defer o.log.Close()
	select {
	case <-o.ended:
		return o.failure(errors.New("it ended unexpectedly"))
	default:
	}
	if err := o.cmd.Process.Signal(os.Interrupt); err != nil {
		return o.failure(err)
	}
	select {
	case <-o.ended:
		if o.err != nil {
			return o.failure(o.err)
		}
		return nil
	case <-time.After(40 * time.Second):
		err := o.cmd.Process.Kill()
		<-o.ended
		return o.failure(errors.Join(errors.New("it does not end on a signal"), err))
	}
}

// failure adds the end of the operator's log.
func (o *operator) failure(err error) error {
	logged, readErr := os.ReadFile(o.log.Name())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("run %s: %w\n%s", o.cmd.Path, err, tail(string(logged), 10))
}

// rss and peakRSS return the operator's resident memory: now, and at its highest.
func (o *operator) rss() (uint64, error)     { return measure.StatusField(o.cmd.Process.Pid, "VmRSS") }
func (o *operator) peakRSS() (uint64, error) { return measure.StatusField(o.cmd.Process.Pid, "VmHWM") }

// cpu returns the processor time that the operator has used.
func (o *operator) cpu() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(o.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read process times: %w", err)
	}
	return processorTime(string(stat))
}

// processorTime reads user and system time from a process's stat. They are the 14th and
// 15th field, in hundredths of a second on every Linux that Go runs on. The second field,
// in parentheses, may contain any text.
func processorTime(stat string) (time.Duration, error) {
	const tick = 10 * time.Millisecond
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("read process times: %d fields", len(fields))
	}
	var sum time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read process times: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
