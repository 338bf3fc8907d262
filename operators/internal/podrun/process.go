package podrun

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/operators/internal/program"
)

// restartAfter is the time after which a process that has ended is started again.
const restartAfter = time.Second

// defaultGrace is that of Kubernetes.
const defaultGrace = 30 * time.Second

// endGrace is the time that a process may take when all end.
const endGrace = 5 * time.Second

// live runs the container of a pod, again and again, until ctx ends.
func (r *Runner) live(ctx context.Context, p *corev1.Pod, address string) {
	line := func(string) {}
	if r.options.Line != nil {
		line = r.options.Line(p.Name)
	}
	own := filepath.Join(r.options.Dir, "pods", string(p.UID))
	defer os.RemoveAll(own) //nolint:errcheck // the caller removes its directory as well
	for ctx.Err() == nil {
		if err := r.once(ctx, p, address, own, line); err != nil && ctx.Err() == nil {
			line(err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartAfter):
		}
	}
}

// once runs the container until it ends by itself, or until ctx ends and it is stopped.
func (r *Runner) once(ctx context.Context, p *corev1.Pod, address, own string, line func(string)) error {
	c := &p.Spec.Containers[0]
	f, err := r.files(ctx, p, address, own)
	if err != nil {
		return err
	}
	path, args, err := r.options.Command(c)
	if err != nil {
		return err
	}
	if len(c.Command) > 1 {
		args = slices.Concat(args, c.Command[1:])
	}
	args = slices.Concat(args, c.Args) // a copy: the pod is read again for the next process
	for i := range args {
		args[i] = f.replace.Replace(args[i])
	}
	env, err := r.env(ctx, c, f)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.commands[p.Name] = append([]string{path}, args...)
	r.mu.Unlock()
	process, err := program.Start(program.Spec{
		Path: path, Args: args, Dir: f.tmp, Env: env, Account: r.options.Account, Line: line,
	})
	if err != nil {
		return err
	}
	filling, cancel := context.WithCancel(ctx)
	var filler sync.WaitGroup
	filler.Go(func() { r.refill(filling, f, line) })
	defer filler.Wait()
	defer cancel()
	select {
	case <-process.Done():
		return nil
	case <-ctx.Done():
	}
	select {
	case <-r.ending:
		return process.Stop(context.WithoutCancel(ctx), endGrace)
	default:
	}
	grace := defaultGrace
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer end()
	if h := c.Lifecycle; h != nil && h.PreStop != nil && h.PreStop.Exec != nil {
		r.hook(ending, h.PreStop.Exec.Command, f, env, line)
	}
	return process.Stop(ending, grace)
}

// hook runs the command that ends a container.
func (r *Runner) hook(ctx context.Context, command []string, f files, env []string, line func(string)) {
	command = slices.Clone(command)
	for i := range command {
		command[i] = f.replace.Replace(command[i])
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the pod's own
	cmd.Dir, cmd.Env = f.tmp, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.options.Account}
	if out, err := cmd.CombinedOutput(); err != nil {
		line(fmt.Sprintf("%s: %v: %s", command[0], err, out))
	}
}

// env returns the environment of a container.
func (r *Runner) env(ctx context.Context, c *corev1.Container, f files) ([]string, error) {
	var env []string
	for _, e := range c.Env {
		value := e.Value
		if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil {
			s, err := r.secrets.Get(ctx, from.SecretKeyRef.Name)
			if err != nil {
				return nil, fmt.Errorf("get the variable %s: %w", e.Name, err)
			}
			value = string(s.Data[from.SecretKeyRef.Key])
		} else {
			value = f.replace.Replace(value)
		}
		env = append(env, e.Name+"="+value)
	}
	env = append(env, "TMPDIR="+f.tmp)
	if r.options.Env != nil {
		env = append(env, r.options.Env(f.address, f.tmp)...)
	}
	return env, nil
}
