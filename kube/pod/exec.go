package pod

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/client-go/tools/remotecommand"
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

func (s *Streams) stderr() io.Writer {
	if s.TTY {
		return nil
	}
	return s.Stderr
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

// Exec runs a command in a container. It returns when the command has ended and its output
// is written, or when ctx has ended: that cuts the connection and may leave the command
// running. If the command ended with another status than 0, the error is an [ExitError].
//
// If the connection is lost before the command's status has come, the error wraps
// [io.ErrUnexpectedEOF], and the output may be incomplete. The first error of Stdin, Stdout
// or Stderr cuts the connection and is Exec's error, as in os/exec: half of an input is not
// followed by the end that a whole input has. The container runtime decides how the command
// learns of that.
//
// Stdout and Stderr are written at the same time, unless they are equal. If one of
// them blocks, Exec keeps up to 1 MiB of its output, so that the other goes on. If Exec
// ends with an error, it waits at most a second for a Write that blocks. Otherwise nothing is
// written after Exec has returned.
//
// The counterparts are remotecommand of client-go and Api::exec of kube-rs.
func Exec[T any](ctx context.Context, pods kube.Handle[T], name string, command []string, s Streams) error {
	if len(command) == 0 {
		return &kube.Error{Verb: "exec", Kind: "Pod", Name: name, Err: errors.New("no command is given")}
	}
	return run(ctx, pods, name, "exec", s, &corev1.PodExecOptions{
		Container: s.Container,
		Command:   command,
		Stdin:     s.Stdin != nil,
		Stdout:    s.Stdout != nil,
		Stderr:    s.stderr() != nil,
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
		Stderr:    s.stderr() != nil,
		TTY:       s.TTY,
	})
}

func run[T any](ctx context.Context, pods kube.Handle[T], name, verb string, s Streams, query any) error {
	at, err := kube.Locate(ctx, pods, verb, name, verb)
	if err != nil {
		return err
	}
	values, err := queryparams.Convert(query)
	if err != nil {
		return at.Wrap(err)
	}
	at.URL.RawQuery = values.Encode()
	c, err := fallback(ctx,
		func() (*channels, error) { return webSocketChannels(ctx, at, s) },
		func() (*channels, error) { return spdyChannels(ctx, at, s) },
	)
	switch {
	case err == nil:
		err = s.converse(ctx, c)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if err != nil {
		return at.Wrap(err)
	}
	return nil
}
