package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The codes of PostgreSQL's errors.
const (
	codeTooMany     = "53300"
	codeUnavailable = "57P03" // cannot_connect_now: clients may try again
	codeUnknown     = "3D000"
	codeProtocol    = "08P01"
	codeUnsupported = "0A000"
	codeNoTLS       = "28000" // invalid_authorization_specification, as PostgreSQL has it for hostssl
)

// errGreetings is the error of a client that comes with too many others.
var errGreetings = errors.New("too many clients have connected and not said their wish")

// serve serves one client to its end.
func (p *Proxy) serve(ctx context.Context, conn net.Conn, only string, full bool) error {
	if p.greetings.Add(1) > int64(p.config.MaxGreetings) {
		p.greetings.Add(-1)
		return errGreetings
	}
	g, err := p.greet(conn)
	p.greetings.Add(-1)
	if err != nil {
		return err
	}
	if g.conn != conn {
		defer g.conn.Close() // it ends TLS
	}
	switch {
	case g.cancel != nil:
		return p.cancel(ctx, *g.cancel)
	case full:
		return refuse(g.conn, codeTooMany, "the proxy has too many connections")
	}
	if p.config.TLS != nil && g.conn == conn {
		return refuse(g.conn, codeNoTLS, errClear.Error())
	}
	endpoint, err := g.endpoint(only, p.config)
	if err != nil {
		code := codeProtocol
		if errors.Is(err, ErrUnknown) {
			code = codeUnknown
		}
		return errors.Join(err, refuse(g.conn, code, err.Error()))
	}
	if !p.enter(endpoint) {
		return refuse(g.conn, codeTooMany, "too many connections wait for the endpoint")
	}
	waiting, stop := watch(ctx, g.conn)
	server, first, err := p.wake(waiting, endpoint, g.message.encode())
	early := stop()
	p.leave(endpoint)
	if err != nil {
		code, text := codeUnavailable, "the endpoint "+endpoint+" does not start: try again later"
		if errors.Is(err, ErrUnknown) {
			code, text = codeUnknown, "there is no endpoint "+endpoint
		}
		return errors.Join(fmt.Errorf("wake endpoint %s: %w", endpoint, err), refuse(g.conn, code, text))
	}
	defer server.Close()
	if _, err := server.Write(early); err != nil {
		return fmt.Errorf("write to endpoint: %w", err)
	}
	return p.pass(ctx, g.conn, server, first)
}

// wake waits until an endpoint accepts a session, and returns the connection with PostgreSQL's
// first message. An endpoint that is suspended between the two is woken again.
func (p *Proxy) wake(ctx context.Context, endpoint string, startup []byte) (net.Conn, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.WakeTimeout)
	defer cancel()
	for {
		address, err := p.config.Waker.Wake(ctx, endpoint)
		if err != nil {
			return nil, nil, err
		}
		conn, err := p.dial(ctx, address)
		if err == nil {
			var first []byte
			if first, err = begin(ctx, conn, startup); err == nil {
				return conn, first, nil
			}
			conn.Close()
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("connect to endpoint: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// errStarting is the error of a PostgreSQL that listens before it can serve.
var errStarting = errors.New("PostgreSQL is starting or stopping")

// begin sends a client's startup message, and returns PostgreSQL's first message.
func begin(ctx context.Context, conn net.Conn, startup []byte) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(startup); err != nil {
		return nil, fmt.Errorf("write startup message: %w", err)
	}
	first, err := readMessage(conn)
	if err != nil {
		return nil, err
	}
	// The field C of an ErrorResponse is the code: 57P03 is cannot_connect_now.
	if first[0] == kindError && bytes.Contains(first, []byte("\x00C57P03\x00")) {
		return nil, errStarting
	}
	return first, nil
}

// The kinds of PostgreSQL's messages that the proxy knows.
const (
	kindKey   = 'K'
	kindReady = 'Z'
	kindError = 'E'
)

// readMessage reads a message of a server, with its head of five bytes.
func readMessage(r io.Reader) ([]byte, error) {
	const largest = 1 << 20
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	size := int(binary.BigEndian.Uint32(head[1:])) - 4
	if size < 0 || size > largest {
		return nil, fmt.Errorf("read answer: %d bytes", size)
	}
	message := make([]byte, len(head)+size)
	copy(message, head[:])
	if _, err := io.ReadFull(r, message[len(head):]); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return message, nil
}

// pass passes bytes both ways until the server ends, or the client can no longer be written to. A
// client that only ends its own side may wait for an answer: the server is told, and ends when it has
// nothing to say any more.
func (p *Proxy) pass(ctx context.Context, client, server net.Conn, first []byte) error {
	both := func() {
		client.Close()
		server.Close()
	}
	defer context.AfterFunc(ctx, both)()
	var passing sync.WaitGroup
	passing.Go(func() {
		if _, err := io.Copy(server, client); err == nil && endWrites(server) {
			return
		}
		both() // the end of a client is no error
	})
	err := p.answers(client, server, first)
	both()
	passing.Wait()
	return err
}

// endWrites ends one direction of a connection, if that can be.
func endWrites(conn net.Conn) bool {
	half, ok := conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// answers passes the answers of PostgreSQL. Until the session is ready it reads along, for the key
// by which the client can cancel a query.
func (p *Proxy) answers(client io.Writer, server net.Conn, message []byte) error {
	var own *key
	defer func() {
		if own != nil {
			p.forget(*own)
		}
	}()
	for {
		if body := message[5:]; message[0] == kindKey && len(body) >= 8 && own == nil {
			k := key{process: binary.BigEndian.Uint32(body), secret: string(body[4:])}
			if p.remember(k, backend{server.RemoteAddr().String()}) {
				own = &k
			}
		}
		if _, err := client.Write(message); err != nil {
			return err
		}
		if message[0] == kindReady || message[0] == kindError {
			break
		}
		var err error
		if message, err = readMessage(server); err != nil {
			return err
		}
	}
	_, err := io.Copy(client, server)
	return err
}

func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return p.config.Dial(ctx, "tcp", address)
}

// cancel passes a request to cancel a query on to the PostgreSQL that knows its session.
func (p *Proxy) cancel(ctx context.Context, k key) error {
	b, ok := p.find(k)
	if !ok {
		return nil // as PostgreSQL, which says nothing to those who guess
	}
	conn, err := p.dial(ctx, b.address)
	if err != nil {
		return fmt.Errorf("cancel query: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return fmt.Errorf("cancel query: %w", err)
	}
	request := binary.BigEndian.AppendUint32(nil, uint32(12+len(k.secret)))
	request = binary.BigEndian.AppendUint32(request, versionOfCancel)
	request = binary.BigEndian.AppendUint32(request, k.process)
	if _, err := conn.Write(append(request, k.secret...)); err != nil {
		return fmt.Errorf("cancel query: %w", err)
	}
	// PostgreSQL closes the connection when the signal is sent: only then may the client go on.
	_, err = io.Copy(io.Discard, conn)
	return err
}
