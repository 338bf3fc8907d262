package wal

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// Timeline names a timeline to safekeepers, with a token for its tenant.
type Timeline struct {
	Tenant, Timeline, Token string
	// TLS checks the certificates of safekeepers. Without it connections have no TLS.
	TLS *tls.Config
}

// Client is a connection to one safekeeper for one timeline. It is for one goroutine.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
	// State is the state of the log in the last answer that had one.
	State State
}

// callTimeout is the time in which a safekeeper has to answer.
const callTimeout = 5 * time.Second

// Dial connects to a safekeeper and reads the state of the timeline's log.
func Dial(ctx context.Context, address string, t Timeline) (*Client, error) {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to safekeeper: %w", err)
	}
	if t.TLS != nil {
		secure, err := askTLS(conn, address, t.TLS)
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("connect to safekeeper: %w", err)
		}
		conn = secure
	}
	c := &Client{conn: conn, r: bufio.NewReader(conn)}
	if _, err := io.WriteString(conn, magic); err != nil {
		conn.Close()
		return nil, fmt.Errorf("greet safekeeper: %w", err)
	}
	body, err := marshal(hello{t.Tenant, t.Timeline, t.Token})
	if err == nil {
		err = c.state(ctx, kindHello, body)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("greet safekeeper %s: %w", address, err)
	}
	return c, nil
}

// askTLS asks the server at an address for TLS.
func askTLS(conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	config.ServerName = host
	return wire.AskTLS(conn, config)
}

// Close closes the connection.
func (c *Client) Close() { c.conn.Close() }

// call sends a message and returns the answer's body. A refusal is an error.
func (c *Client) call(ctx context.Context, kind byte, body []byte, want byte) ([]byte, error) {
	if err := c.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	if err := writeMessage(c.conn, kind, body); err != nil {
		return nil, err
	}
	got, answer, err := readMessage(c.r)
	if err != nil {
		return nil, err
	}
	if got == kindRefusal {
		r, err := parse[refusal](answer)
		if err != nil {
			return nil, err
		}
		if r.State != nil {
			c.State = *r.State
		}
		if known := refusals[r.Code]; known != nil {
			return nil, fmt.Errorf("%w (%s)", known, r.Message)
		}
		return nil, errors.New(r.Message)
	}
	if got != want {
		return nil, fmt.Errorf("%w: kind %q", errMessage, got)
	}
	return answer, nil
}

// state makes a call whose answer is a state.
func (c *Client) state(ctx context.Context, kind byte, body []byte) error {
	answer, err := c.call(ctx, kind, body, kindState)
	if err != nil {
		return err
	}
	state, err := parse[State](answer)
	if err != nil {
		return err
	}
	if kind == kindAppend {
		state.History = c.State.History
	}
	c.State = state
	return nil
}

// Vote asks for a vote. The vote was given if the term of State is this one.
func (c *Client) Vote(ctx context.Context, term Term) error {
	return c.state(ctx, kindVote, encodeTerm(term))
}

// Elect announces an elected proposer.
func (c *Client) Elect(ctx context.Context, e Election) error {
	body, err := marshal(e)
	if err != nil {
		return err
	}
	return c.state(ctx, kindElect, body)
}

// Append sends WAL, which is durable on the safekeeper when Append returns.
func (c *Client) Append(ctx context.Context, a Append) error {
	return c.state(ctx, kindAppend, encodeAppend(a))
}

// Read returns WAL from an LSN on, which may be empty. With committed it waits for up to a
// second for WAL, and returns none that is not committed. It also returns the commit.
func (c *Client) Read(ctx context.Context, from LSN, committed bool) (bytes []byte, commit LSN, _ error) {
	body, err := marshal(readRequest{From: from, Committed: committed})
	if err != nil {
		return nil, 0, err
	}
	answer, err := c.call(ctx, kindRead, body, kindData)
	if err != nil {
		return nil, 0, fmt.Errorf("read WAL at %s: %w", from, err)
	}
	d, err := parseData(answer)
	if err == nil && d.At != from {
		err = fmt.Errorf("%w: WAL at %s instead of %s", errMessage, d.At, from)
	}
	return d.Bytes, d.Commit, err
}
