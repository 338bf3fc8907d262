package pod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/pintle-go/pintle/kube"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

const (
	// As client-go does it: the peer is lost if it has not answered twelve pings.
	pingPeriod  = 5 * time.Second
	readTimeout = 12*pingPeriod + time.Second

	// heldBytes limits the bytes that are held of a stream that the caller does not take. It is much
	// more than the pipe of an operating system holds.
	heldBytes = 1 << 20
)

func webSocketChannels(ctx context.Context, at *kube.Location, s Streams) (*channels, error) {
	ws, err := dialWebSocket(ctx, at, remotecommand.StreamProtocolV5Name)
	if err != nil {
		return nil, err
	}
	return s.channels(ws), nil
}

// channels opens the channels of v5.channel.k8s.io: the first byte of a message is its
// channel.
func (s *Streams) channels(ws *websocket.Conn) *channels {
	d := demux{remotecommand.StreamErr: newPipe()}
	writing, done := new(sync.Mutex), make(chan struct{})
	c := &channels{status: d[remotecommand.StreamErr]}
	c.close = sync.OnceFunc(func() {
		close(done)
		_ = ws.Close() // all was read
		d.end(io.EOF)
	})
	if s.Stdin != nil {
		c.stdin = &upstream{ws, writing, remotecommand.StreamStdIn}
	}
	if s.TTY {
		c.resize = &upstream{ws, writing, remotecommand.StreamResize}
	}
	if s.Stdout != nil {
		d[remotecommand.StreamStdOut] = newPipe()
		c.stdout = d[remotecommand.StreamStdOut]
	}
	if s.stderr() != nil {
		d[remotecommand.StreamStdErr] = newPipe()
		c.stderr = d[remotecommand.StreamStdErr]
	}
	go d.run(ws)
	go ping(ws, done)
	return c
}

func ping(ws *websocket.Conn, done <-chan struct{}) {
	ticker := time.NewTicker(pingPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// A peer that does not answer is found by the deadline of the next read. A shorter
			// deadline here would end the writing to a peer that is slow.
			_ = ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(readTimeout))
		case <-done:
			return
		}
	}
}

// upstream writes a channel.
type upstream struct {
	ws      *websocket.Conn
	writing *sync.Mutex
	channel byte
}

func (u *upstream) Write(p []byte) (int, error) {
	if err := u.send(append([]byte{u.channel}, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (u *upstream) Close() error { return u.send([]byte{remotecommand.StreamClose, u.channel}) }

func (u *upstream) send(message []byte) error {
	u.writing.Lock()
	defer u.writing.Unlock()
	return u.ws.WriteMessage(websocket.BinaryMessage, message)
}

// demux has a pipe for each channel that is read.
type demux map[byte]*pipe

// run reads messages until the connection ends.
func (d demux) run(ws *websocket.Conn) {
	in := incoming{ws: ws}
	ws.SetPongHandler(func(string) error { in.alive(); return nil })
	buffer := make([]byte, 32<<10)
	for {
		err := in.next()
		if err == nil {
			err = d.message(&in, buffer)
		}
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			err = io.EOF
		}
		if err != nil {
			d.end(err)
			return
		}
	}
}

// incoming reads messages. Each Read has its own deadline, so the time in which a Write of
// the caller has blocked does not count.
type incoming struct {
	ws      *websocket.Conn
	message io.Reader
}

func (in *incoming) alive() {
	// A connection that has ended may still have something to be read.
	_ = in.ws.SetReadDeadline(time.Now().Add(readTimeout))
}

func (in *incoming) next() error {
	in.alive()
	kind, message, err := in.ws.NextReader()
	if err == nil && kind != websocket.BinaryMessage {
		err = fmt.Errorf("message of type %d", kind)
	}
	in.message = message
	return err
}

func (in *incoming) Read(p []byte) (int, error) {
	in.alive()
	return in.message.Read(p)
}

func (d demux) message(message io.Reader, buffer []byte) error {
	var channel [1]byte
	if _, err := io.ReadFull(message, channel[:]); err != nil {
		return fmt.Errorf("read channel of message: %w", err)
	}
	if channel[0] == remotecommand.StreamClose {
		if _, err := io.ReadFull(message, channel[:]); err != nil {
			return fmt.Errorf("read channel to close: %w", err)
		}
		if p := d[channel[0]]; p != nil {
			p.end(io.EOF)
		}
		return nil
	}
	p := d[channel[0]]
	if p == nil {
		return nil // a channel that nobody asked for
	}
	if _, err := io.CopyBuffer(p, message, buffer); err != nil {
		return fmt.Errorf("read channel %d: %w", channel[0], err)
	}
	return nil
}

// end ends all channels. Only the status tells of a lost connection, once.
func (d demux) end(err error) {
	for channel, p := range d {
		if channel != remotecommand.StreamErr {
			p.end(io.EOF)
		}
	}
	d[remotecommand.StreamErr].end(err)
}

// pipe holds the bytes that have arrived and were not yet taken. Each channel has its own, because all
// channels of a websocket wait when one does.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	held    bytes.Buffer
	err     error // the end
}

func newPipe() *pipe {
	p := new(pipe)
	p.changed = sync.NewCond(&p.mu)
	return p
}

var errEnded = errors.New("the channel has ended")

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && p.held.Len() >= heldBytes {
		p.changed.Wait()
	}
	if p.err != nil {
		return 0, errEnded
	}
	p.changed.Broadcast()
	return p.held.Write(b)
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && p.held.Len() == 0 {
		p.changed.Wait()
	}
	if p.held.Len() == 0 {
		return 0, p.err
	}
	p.changed.Broadcast()
	return p.held.Read(b)
}

func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}
