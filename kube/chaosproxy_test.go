package kube

import (
	"context"
	"net"
	"sync"
	"testing"
)

// cutProxy stands between a client and a server and breaks the traffic.
type cutProxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	dark  chan struct{} // closed while bytes pass, open while none do
	ended bool
}

func startProxy(t *testing.T, target string) *cutProxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutProxy{listener: listener, target: target, conns: make(map[net.Conn]struct{}), dark: make(chan struct{})}
	close(p.dark)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		listener.Close()
		p.light()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *cutProxy) addr() string { return p.listener.Addr().String() }

func (p *cutProxy) accept() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			from.Close()
			continue
		}
		p.mu.Lock()
		if p.ended {
			from.Close()
			to.Close()
		} else {
			p.conns[from], p.conns[to] = struct{}{}, struct{}{}
			p.running.Go(func() { p.pass(from, to) })
			p.running.Go(func() { p.pass(to, from) })
		}
		p.mu.Unlock()
	}
}

func (p *cutProxy) pass(to, from net.Conn) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		dark := p.dark
		p.mu.Unlock()
		<-dark
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cut breaks all connections.
func (p *cutProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as of a machine that is gone
		}
		c.Close()
	}
}

// darken lets no bytes pass until light is called.
func (p *cutProxy) darken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dark:
		p.dark = make(chan struct{})
	default:
	}
}

func (p *cutProxy) light() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dark:
	default:
		close(p.dark)
	}
}
