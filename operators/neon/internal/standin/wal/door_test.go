package wal

import (
	"net"
	"sync"
)

// door keeps an address while the server behind it is down: another process could take a
// port that nobody listens on.
type door struct {
	net.Listener
	done chan struct{}

	mu   sync.Mutex
	room *room
}

// room is the listener of one life of the server.
type room struct {
	address     net.Addr
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newDoor() (*door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{Listener: l, done: make(chan struct{})}
	go d.run()
	return d, nil
}

func (d *door) run() {
	defer close(d.done)
	for {
		conn, err := d.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		room := d.room
		d.mu.Unlock()
		if room == nil {
			conn.Close()
			continue
		}
		select {
		case room.connections <- conn:
		case <-room.closed:
			conn.Close()
		}
	}
}

func (d *door) open() net.Listener {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = &room{address: d.Addr(), connections: make(chan net.Conn), closed: make(chan struct{})}
	return d.room
}

func (d *door) shut() error {
	err := d.Close()
	<-d.done
	return err
}

func (r *room) Accept() (net.Conn, error) {
	select {
	case conn := <-r.connections:
		return conn, nil
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

func (r *room) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

func (r *room) Addr() net.Addr { return r.address }
