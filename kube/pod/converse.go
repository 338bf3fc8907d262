package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

// closeDelay is how long a cut connection is waited for, and the caller's Write that takes
// its output. Its counterpart is WaitDelay of os/exec.
const closeDelay = time.Second

// maxStatusBytes limits a status. A server that sends more sends something else.
const maxStatusBytes = 1 << 20

// channels are the connection to a command. Those that were not asked for are nil. The
// outputs end without an error; only the status tells of a lost connection.
type channels struct {
	status         io.Reader
	stdin          io.WriteCloser
	stdout, stderr io.Reader
	resize         io.Writer
	close          func()
}

func (c *channels) Close() error {
	c.close()
	return nil
}

// converse moves the streams until the command has ended.
func (s *Streams) converse(ctx context.Context, c *channels) error {
	ctx, cut := context.WithCancelCause(ctx) // keeps the first error
	var work sync.WaitGroup
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		c.close()
		close(closed)
	})

	written := make(chan struct{})
	var over atomic.Bool
	s.output(c, &over, &work, cut)
	go func() {
		work.Wait()
		close(written)
	}()
	if c.stdin != nil {
		go s.input(c.stdin, cut)
	}
	if c.resize != nil && s.Resize != nil {
		go s.sizes(ctx, c.resize)
	}
	told, lost := make(chan error, 1), make(chan error, 1)
	go func() {
		message, err := io.ReadAll(io.LimitReader(c.status, maxStatusBytes))
		exit, err := result(message, err)
		switch {
		case err == nil:
			told <- exit
		case ctx.Err() == nil: // otherwise it was cut here
			lost <- err
		}
	}()

	late := make(chan struct{})
	hurry := sync.OnceFunc(func() { time.AfterFunc(closeDelay, func() { close(late) }) })
	var exit, failure error
	select {
	case exit = <-told:
	case failure = <-lost: // the data that has come is still written
		hurry()
	case <-ctx.Done():
	}
	select {
	case <-written:
	case <-ctx.Done():
	case <-late:
	}
	if failure == nil {
		failure = context.Cause(ctx)
	}
	cut(nil)
	hurry()
	for _, end := range []chan struct{}{written, closed} {
		select {
		case <-end:
		case <-late:
		}
	}
	over.Store(true)
	select {
	case exit = <-told: // in the same moment
	default:
	}
	switch {
	case failure == nil:
		return exit
	case exit != nil:
		return fmt.Errorf("%w; %w", exit, failure)
	}
	return failure
}

// output copies the outputs until they end.
func (s *Streams) output(c *channels, over *atomic.Bool, work *sync.WaitGroup, cut context.CancelCauseFunc) {
	receive := func(name string, to io.Writer, from io.Reader) {
		work.Go(func() {
			if _, err := io.Copy(to, from); err != nil {
				cut(fmt.Errorf("write %s: %w", name, err))
			}
		})
	}
	one := new(sync.Mutex)
	if c.stdout != nil {
		receive("stdout", &gate{to: s.Stdout, writing: one, over: over}, c.stdout)
	}
	if c.stderr != nil {
		if !equal(s.Stdout, s.Stderr) {
			one = new(sync.Mutex)
		}
		receive("stderr", &gate{to: s.Stderr, writing: one, over: over}, c.stderr)
	}
}

// equal compares writers whose type may not be comparable.
func equal(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

// input copies Stdin. If the connection does not take it, the status tells why.
func (s *Streams) input(to io.WriteCloser, cut context.CancelCauseFunc) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.Stdin.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err == io.EOF { // an error that wraps it is no end
			_ = to.Close() // the same
			return
		}
		if err != nil {
			cut(fmt.Errorf("read stdin: %w", err))
			return
		}
	}
}

func (s *Streams) sizes(ctx context.Context, to io.Writer) {
	encoder := json.NewEncoder(to)
	for {
		select {
		case size, ok := <-s.Resize:
			if !ok || encoder.Encode(size) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// gate lets writes through, one at a time, until all is over.
type gate struct {
	to      io.Writer
	writing *sync.Mutex
	over    *atomic.Bool
}

func (g *gate) Write(p []byte) (int, error) {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.over.Load() {
		return 0, io.ErrClosedPipe
	}
	return g.to.Write(p)
}

// result decodes a status. The first error is that of the command or the server, the second
// says that there was no status. Nothing that follows a status matters.
func result(message []byte, lost error) (exit, none error) {
	var status metav1.Status
	if len(message) > 0 {
		if err := json.Unmarshal(message, &status); err != nil && lost == nil {
			lost = fmt.Errorf("decode status: %w", err)
		}
	}
	switch {
	case status.Status == metav1.StatusSuccess:
		return nil, nil
	case status.Status != metav1.StatusFailure:
		none = errors.New("the connection ended without the command's status, and the output may be incomplete")
		if lost == nil {
			return nil, fmt.Errorf("%w: %w", none, io.ErrUnexpectedEOF)
		}
		return nil, fmt.Errorf("%w: %w: %w", none, io.ErrUnexpectedEOF, lost)
	case status.Reason == remotecommand.NonZeroExitCodeReason && status.Details != nil:
		for _, cause := range status.Details.Causes {
			code, err := strconv.Atoi(cause.Message)
			if cause.Type == remotecommand.ExitCodeCauseType && err == nil {
				return &ExitError{code}, nil
			}
		}
	}
	return &apierrors.StatusError{ErrStatus: status}, nil
}
