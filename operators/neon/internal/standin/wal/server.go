package wal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Server serves the logs of a safekeeper: to proposers and readers by the protocol of this
// package, and to replicas by PostgreSQL's protocol for replication.
type Server struct {
	// Find returns the log of a timeline. The text of its error reaches the client.
	Find func(tenant, timeline string) (*Log, error)
	// Verify returns an error unless a token gives access to a tenant. Without Verify all
	// have access, as in Neon's programs without a key.
	Verify func(token, tenant string) error
}

// waiting is the time for which a reader waits for WAL before it gets an empty answer.
const waiting = time.Second

// Serve serves connections until ctx ends, and returns after the last of them.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept connection: %w", err)
		}
		connections.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			_ = s.serve(ctx, conn) // the client hears of errors
		})
	}
}

// serve serves a connection of either protocol.
func (s *Server) serve(ctx context.Context, conn net.Conn) error {
	r := bufio.NewReader(conn)
	first, err := r.Peek(1)
	if err != nil {
		return err
	}
	if first[0] != magic[0] {
		return s.replicate(ctx, conn, r)
	}
	var begin [len(magic)]byte
	if _, err := io.ReadFull(r, begin[:]); err != nil || string(begin[:]) != magic {
		return errMessage
	}
	log, err := s.greet(conn, r)
	for err == nil {
		var kind byte
		var body []byte
		kind, body, err = readMessage(r)
		if err == nil {
			err = s.answer(ctx, conn, log, kind, body)
		}
	}
	return err
}

// greet answers the first message, which names the timeline.
func (s *Server) greet(conn net.Conn, r io.Reader) (*Log, error) {
	kind, body, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	if kind != kindHello {
		return nil, errMessage
	}
	h, err := parse[hello](body)
	if err != nil {
		return nil, err
	}
	log, err := s.open(h)
	if err != nil {
		return nil, errors.Join(err, refuse(conn, err, nil))
	}
	return log, writeJSON(conn, kindState, log.State())
}

func (s *Server) open(h hello) (*Log, error) {
	if s.Verify != nil {
		if err := s.Verify(h.Token, h.Tenant); err != nil {
			return nil, err
		}
	}
	return s.Find(h.Tenant, h.Timeline)
}

// answer answers one message. Its error ends the connection.
func (s *Server) answer(ctx context.Context, conn net.Conn, log *Log, kind byte, body []byte) error {
	var state State
	var err error
	switch kind {
	case kindVote:
		var term Term
		if term, err = parseTerm(body); err == nil {
			state, err = log.Vote(term)
		}
	case kindElect:
		var election Election
		if election, err = parse[Election](body); err == nil {
			state, err = log.Elect(election)
		}
	case kindAppend:
		var a Append
		if a, err = parseAppend(body); err == nil {
			state, err = log.Append(a)
		}
		state.History = nil // the answer to each append is short
	case kindRead:
		return answerRead(ctx, conn, log, body)
	default:
		err = errMessage
	}
	if err != nil {
		return errors.Join(err, refuse(conn, err, &state))
	}
	return writeJSON(conn, kindState, state)
}

func answerRead(ctx context.Context, conn net.Conn, log *Log, body []byte) error {
	request, err := parse[readRequest](body)
	if err != nil {
		return errors.Join(err, refuse(conn, err, nil))
	}
	d, err := readLog(ctx, log, request)
	if err != nil {
		return errors.Join(err, refuse(conn, err, nil))
	}
	return writeMessage(conn, kindData, encodeData(d))
}

// readLog reads the WAL of a request, at most largestChunk.
func readLog(ctx context.Context, log *Log, request readRequest) (data, error) {
	commit, moved, err := log.Moved()
	if err != nil {
		return data{}, err
	}
	limit := log.State().Flush
	if request.Committed {
		if request.From >= commit {
			select {
			case <-moved:
			case <-time.After(waiting):
			case <-ctx.Done():
			}
			if commit, _, err = log.Moved(); err != nil {
				return data{}, err
			}
		}
		limit = commit
	}
	d := data{At: request.From, Commit: commit}
	if request.From >= limit {
		return d, nil
	}
	d.Bytes = make([]byte, min(largestChunk, limit-request.From))
	if _, err := log.ReadAt(d.Bytes, int64(request.From)); err != nil {
		return data{}, err
	}
	return d, nil
}

// The codes of refusals that proposers tell apart.
var refusals = map[string]error{"term": ErrTerm, "generation": ErrGeneration, "missing": ErrMissing}

func refuse(w io.Writer, err error, state *State) error {
	r := refusal{Code: "error", Message: err.Error(), State: state}
	for code, known := range refusals {
		if errors.Is(err, known) {
			r.Code = code
		}
	}
	return writeJSON(w, kindRefusal, r)
}
