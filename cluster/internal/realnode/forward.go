package realnode

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
)

// A forwarder forwards connections from one address to another.
type forwarder struct {
	listener net.Listener
	to       string
	log      *slog.Logger

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

func forward(from, to netip.AddrPort, log *slog.Logger) (*forwarder, error) {
	l, err := net.Listen("tcp", from.String())
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	f := &forwarder{listener: l, to: to.String(), log: log, open: map[net.Conn]bool{}}
	f.wg.Go(f.accept)
	return f, nil
}

// close closes all connections and returns when no goroutine is left.
func (f *forwarder) close() {
	f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *forwarder) accept() {
	for {
		in, err := f.listener.Accept()
		if err != nil {
			return // closed
		}
		f.wg.Go(func() { f.pass(in) })
	}
}

func (f *forwarder) pass(in net.Conn) {
	defer f.forget(in)
	if !f.remember(in) {
		return
	}
	out, err := net.Dial("tcp", f.to)
	if err != nil {
		// The API server may be restarting: clients retry by themselves.
		f.log.Debug("forward to the API server", "error", err)
		return
	}
	defer f.forget(out)
	if !f.remember(out) {
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		wg.Go(func() {
			_, err := io.Copy(way[0], way[1])
			if to, ok := way[0].(*net.TCPConn); ok && err == nil {
				err = to.CloseWrite() // the other direction stays open
			}
			if err != nil {
				way[0].Close()
				way[1].Close()
			}
		})
	}
	wg.Wait()
}

func (f *forwarder) remember(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.open[c] = true
	}
	return !f.closed
}

func (f *forwarder) forget(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}
