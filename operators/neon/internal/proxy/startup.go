package proxy

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	largestStartup  = 10_000 // as in PostgreSQL
	versionOfTLS    = 80877103
	versionOfGSS    = 80877104
	versionOfCancel = 80877102
)

// greeting is the first message of a client, after TLS was settled.
type greeting struct {
	conn    net.Conn
	cancel  *key
	message *startup
	// host is the name that the client has asked for with TLS.
	host string
}

// greet reads the first message of a client.
func (p *Proxy) greet(conn net.Conn) (greeting, error) {
	g := greeting{conn: conn}
	if err := conn.SetDeadline(time.Now().Add(p.config.StartupTimeout)); err != nil {
		return g, err
	}
	for range 3 { // GSS and TLS may be asked for before
		head, err := readHead(g.conn)
		if err != nil {
			return g, err
		}
		if head[0] == tlsHandshake && p.config.TLS != nil && g.conn == conn {
			if err := g.secure(&prefixed{conn, head}, p.config.TLS); err != nil {
				return g, err
			}
			if g.conn.(*tls.Conn).ConnectionState().NegotiatedProtocol != protocolName {
				return g, errors.New("set up TLS: the client names no protocol")
			}
			continue
		}
		body, err := readBody(g.conn, head)
		if err != nil {
			return g, err
		}
		switch version := binary.BigEndian.Uint32(body); {
		case version == versionOfGSS, version == versionOfTLS && (p.config.TLS == nil || g.conn != conn):
			if _, err := g.conn.Write([]byte("N")); err != nil {
				return g, err
			}
		case version == versionOfTLS:
			if _, err := conn.Write([]byte("S")); err != nil {
				return g, err
			}
			if err := g.secure(conn, p.config.TLS); err != nil {
				return g, err
			}
		case version == versionOfCancel:
			if len(body) < 12 || len(body) > 8+longestKey {
				return g, fmt.Errorf("read cancel request: its key has %d bytes", len(body)-8)
			}
			g.cancel = &key{process: binary.BigEndian.Uint32(body[4:]), secret: string(body[8:])}
			return g, conn.SetDeadline(time.Time{})
		default:
			if g.message, err = parseStartup(body); err != nil {
				code := codeProtocol
				if errors.Is(err, errVersion) {
					code = codeUnsupported
				}
				return g, errors.Join(err, refuse(g.conn, code, err.Error()))
			}
			return g, conn.SetDeadline(time.Time{})
		}
	}
	return g, errors.New("read startup message: too many requests before it")
}

// secure sets TLS up. No byte of the client was read in clear beyond its wish for TLS: text that
// somebody in between has added to that is a wrong handshake.
func (g *greeting) secure(conn net.Conn, config *tls.Config) error {
	secure := tls.Server(conn, config)
	if err := secure.Handshake(); err != nil {
		return fmt.Errorf("set up TLS: %w", err)
	}
	g.conn, g.host = secure, secure.ConnectionState().ServerName
	return nil
}

const (
	// tlsHandshake is the first byte of a client that begins with TLS at once, as libpq does with
	// sslnegotiation=direct. Startup messages are shorter than it says.
	tlsHandshake = 0x16
	// protocolName is that of PostgreSQL in TLS (ALPN).
	protocolName = "postgresql"
)

// prefixed is a connection of which some bytes were read.
type prefixed struct {
	net.Conn
	head []byte
}

func (c *prefixed) Read(p []byte) (int, error) {
	if len(c.head) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}

// readHead reads the length of a message without a kind.
func readHead(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("read startup message: %w", err)
	}
	return head, nil
}

// readBody reads the rest of a message without a kind. No byte after it is read: it can be TLS.
func readBody(r io.Reader, head []byte) ([]byte, error) {
	size := binary.BigEndian.Uint32(head)
	if size < 8 || size > largestStartup {
		return nil, fmt.Errorf("read startup message: %d bytes", size)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read startup message: %w", err)
	}
	return body, nil
}

// errName is the error of a client that does not say which endpoint it means.
var errName = errors.New("no endpoint is named: log in as USER.ENDPOINT, connect with TLS and the endpoint's " +
	"host name, or add options=endpoint=ENDPOINT to the connection string")

// errClear is the error of a client that would send all in clear.
var errClear = errors.New("the proxy serves TLS only: set sslmode=require")

// endpoint returns the endpoint that a client means, and removes its name from the options and
// from the user's name: PostgreSQL does not know it. The options win over the host's name, and that
// over the user's.
func (g *greeting) endpoint(only string, c Config) (string, error) {
	named, rest := endpointOption(g.message.get("options"))
	g.message.set("options", rest)
	if only != "" && named != "" && named != only {
		return "", fmt.Errorf("%w here", ErrUnknown)
	}
	user, byUser := c.SplitUser(g.message.get("user"))
	endpoint := cmp.Or(only, named)
	if endpoint == "" && strings.Contains(g.host, ".") && net.ParseIP(g.host) == nil {
		endpoint = c.Name(g.host)
	}
	endpoint = cmp.Or(endpoint, byUser)
	if byUser != "" && byUser == endpoint {
		g.message.set("user", user)
	}
	if endpoint == "" {
		return "", errName
	}
	if !isName(endpoint) {
		return "", ErrUnknown
	}
	return endpoint, nil
}

// isName reports that a text can be the name of an endpoint. Others are not passed on, and not
// repeated in messages.
func isName(text string) bool {
	return len(text) <= 253 && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// lastLabel splits the name of a user who names the endpoint behind it: USER.ENDPOINT.
func lastLabel(user string) (role, endpoint string) {
	if i := strings.LastIndexByte(user, '.'); i > 0 {
		return user[:i], user[i+1:]
	}
	return user, ""
}

// endpointOption takes the endpoint out of the options of a client, which are words like
// those of a command line.
func endpointOption(options string) (endpoint, rest string) {
	var kept []string
	for word := range strings.FieldsSeq(options) {
		name := word
		if name == "-c" {
			kept = append(kept, word)
			continue
		}
		name = strings.TrimPrefix(name, "-c")
		value, isEndpoint := strings.CutPrefix(name, "endpoint=")
		if !isEndpoint {
			value, isEndpoint = strings.CutPrefix(name, "endpoint%3D")
		}
		if !isEndpoint {
			kept = append(kept, word)
			continue
		}
		endpoint = value
		if last := len(kept) - 1; last >= 0 && kept[last] == "-c" {
			kept = kept[:last]
		}
	}
	return endpoint, strings.Join(kept, " ")
}

// refuse tells a client why it can't have a session, in PostgreSQL's form.
func refuse(w io.Writer, code, text string) error {
	message, err := (&pgproto3.ErrorResponse{
		Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: text,
	}).Encode(nil)
	if err != nil {
		return fmt.Errorf("write error: %w", err)
	}
	_, err = io.Copy(w, bytes.NewReader(message))
	return err
}
