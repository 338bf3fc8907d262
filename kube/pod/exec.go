package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// Streams says which container's process to talk to, and where its streams go. A nil stream is
// not connected. Its counterparts are remotecommand.StreamOptions of client-go and
// AttachParams of kube-rs.
type Streams struct {
	// Container may be empty for a pod with one container. Its counterpart is Container of
	// client-go's corev1.PodExecOptions.
	Container string
	// Stdin is read until it ends. A Read that blocks outlives the call. Its counterpart is
	// Stdin of client-go's remotecommand.StreamOptions.
	Stdin  io.Reader
	Stdout io.Writer
	// Stderr stays silent with TTY: a terminal has one output.
	Stderr io.Writer
	// TTY gives the process a terminal. Its counterpart is Tty of client-go's
	// remotecommand.StreamOptions.
	TTY bool
	// Resize delivers the terminal's size, first the initial size and then every change. Its
	// counterpart is TerminalSizeQueue of client-go's remotecommand.StreamOptions.
	Resize <-chan Size
}

// Size is the size of a terminal. Its counterparts are remotecommand.TerminalSize of
// client-go and TerminalSize of kube-rs.
type Size = remotecommand.TerminalSize

// ExitError is returned for a command that ended with another status than 0. Its
// counterpart is exec.CodeExitError of client-go.
type ExitError struct {
	// Code is the status. Its counterpart is Code of client-go's exec.CodeExitError.
	Code int
}

func (e *ExitError) Error() string { return fmt.Sprintf("the command exited with status %d", e.Code) }

// Exec runs a command in a container. It returns when the command has ended, or when ctx
// has ended: that cuts the connection and may leave the command running. If the command
// ended with another status than 0, the error is an [ExitError]. Nothing is written to
// Stdout and Stderr after Exec has returned. If the end of ctx ended Exec, a goroutine of
// client-go that pings the connection lasts up to five seconds. The counterparts are
// remotecommand of client-go and Api::exec of kube-rs.
func Exec[T any](ctx context.Context, pods kube.Handle[T], name string, command []string, s Streams) error {
	if len(command) == 0 {
		return &kube.Error{Verb: "exec", Kind: "Pod", Name: name, Err: errors.New("no command is given")}
	}
	return run(ctx, pods, name, "exec", s, &corev1.PodExecOptions{
		Container: s.Container,
		Command:   command,
		Stdin:     s.Stdin != nil,
		Stdout:    s.Stdout != nil,
		Stderr:    s.Stderr != nil && !s.TTY,
		TTY:       s.TTY,
	})
}

// Attach connects to the streams of a container's main process. It returns when the
// process ends, or when ctx ends. Otherwise it is like [Exec]. Its counterpart is
// Api::attach of kube-rs.
func Attach[T any](ctx context.Context, pods kube.Handle[T], name string, s Streams) error {
	return run(ctx, pods, name, "attach", s, &corev1.PodAttachOptions{
		Container: s.Container,
		Stdin:     s.Stdin != nil,
		Stdout:    s.Stdout != nil,
		Stderr:    s.Stderr != nil && !s.TTY,
		TTY:       s.TTY,
	})
}

func run[T any](ctx context.Context, pods kube.Handle[T], name, verb string, o Streams, query any) error {
	at, err := kube.Locate(ctx, pods, verb, name, verb)
	if err != nil {
		return err
	}
	values, err := queryparams.Convert(query)
	if err != nil {
		return at.Wrap(err)
	}
	at.URL.RawQuery = values.Encode()
	// The goroutine that waits for sizes ends with the call.
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	// The transports' goroutines may write for a moment after ctx has ended.
	var gate gate
	defer gate.close()
	streams := remotecommand.StreamOptions{Stdin: o.Stdin, Tty: o.TTY}
	if o.Stdout != nil {
		streams.Stdout = gate.writer(o.Stdout)
	}
	if o.Stderr != nil && !o.TTY {
		streams.Stderr = gate.writer(o.Stderr)
	}
	if o.Resize != nil {
		streams.TerminalSizeQueue = sizes{streaming.Done(), o.Resize}
	}
	err = fallback(
		func() error { return stream(streaming, at.Config, webSocket, at.URL, streams) },
		func() error { return stream(streaming, at.Config, spdyStream, at.URL, streams) },
	)
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return at.Wrap(&ExitError{exit.ExitStatus()})
	case ctx.Err() != nil:
		return at.Wrap(context.Cause(ctx))
	}
	return at.Wrap(err)
}

func isExit(err error) bool {
	var exit utilexec.ExitError
	return errors.As(err, &exit)
}

func stream(
	ctx context.Context, config *rest.Config, dial executor, u *url.URL, streams remotecommand.StreamOptions,
) error {
	e, err := dial(config, u)
	if err != nil {
		return err
	}
	return e.StreamWithContext(ctx, streams)
}

type executor func(*rest.Config, *url.URL) (remotecommand.Executor, error)

func webSocket(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
}

func spdyStream(config *rest.Config, u *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
}

// sizes is a queue of terminal sizes that ends with a context.
type sizes struct {
	done <-chan struct{}
	from <-chan Size
}

func (s sizes) Next() *Size {
	select {
	case size, ok := <-s.from:
		if ok {
			return &size
		}
	case <-s.done:
	}
	return nil
}

// gate lets writers through until it is closed.
type gate struct {
	mu     sync.Mutex
	closed bool
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) writer(w io.Writer) io.Writer { return gated{g, w} }

type gated struct {
	*gate
	to io.Writer
}

func (g gated) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, io.ErrClosedPipe
	}
	return g.to.Write(p)
}
