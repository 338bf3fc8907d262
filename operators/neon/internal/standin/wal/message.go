package wal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// magic begins a connection. No client of PostgreSQL begins so, which speaks to the same port.
const magic = "PNTLWAL1"

// A message is its kind, the length of its body in 4 bytes, and the body.
const (
	kindHello   = 'H' // Hello
	kindState   = 'S' // State: the answer to Hello, kindVote, kindElect and kindAppend
	kindRefusal = 'R' // Refusal: the answer to anything
	kindVote    = 'V' // the term, 8 bytes
	kindElect   = 'E' // Election
	kindAppend  = 'A' // Append: see encodeAppend
	kindRead    = 'G' // readRequest
	kindData    = 'D' // Data: see encodeData
)

const (
	largestBody  = 4 << 20
	largestChunk = 1 << 20
	appendHeader = 28
	dataHeader   = 16
)

// hello names the timeline of a connection.
type hello struct {
	Tenant   string `json:"tenant"`
	Timeline string `json:"timeline"`
	Token    string `json:"token"`
}

// refusal is an error that crosses the connection.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// State is sent with refusals of proposers.
	State *State `json:"state,omitempty"`
}

// readRequest asks for WAL.
type readRequest struct {
	From LSN `json:"from"`
	// Committed keeps WAL back that is not committed, and waits for some for up to a second.
	Committed bool `json:"committed"`
}

// data is WAL at an LSN, which may be empty.
type data struct {
	At, Commit LSN
	Bytes      []byte
}

var errMessage = errors.New("the message is malformed")

func writeMessage(w io.Writer, kind byte, body []byte) error {
	if len(body) > largestBody {
		return fmt.Errorf("write message: %d bytes are too many", len(body))
	}
	message := make([]byte, 5, 5+len(body))
	message[0] = kind
	binary.BigEndian.PutUint32(message[1:], uint32(len(body)))
	_, err := w.Write(append(message, body...))
	return err
}

func writeJSON(w io.Writer, kind byte, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	return writeMessage(w, kind, text)
}

func readMessage(r io.Reader) (kind byte, body []byte, _ error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > largestBody {
		return 0, nil, fmt.Errorf("%w: %d bytes", errMessage, size)
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return head[0], body, nil
}

// parse returns the content of a message's body.
func parse[T any](body []byte) (T, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%w: %w", errMessage, err)
	}
	return v, nil
}

func encodeAppend(a Append) []byte {
	body := make([]byte, appendHeader, appendHeader+len(a.Data))
	binary.BigEndian.PutUint64(body, uint64(a.Term))
	binary.BigEndian.PutUint64(body[8:], uint64(a.At))
	binary.BigEndian.PutUint64(body[16:], uint64(a.Commit))
	binary.BigEndian.PutUint32(body[24:], a.Generation)
	return append(body, a.Data...)
}

func parseAppend(body []byte) (Append, error) {
	if len(body) < appendHeader {
		return Append{}, fmt.Errorf("%w: %d bytes to append", errMessage, len(body))
	}
	return Append{
		Term:       Term(binary.BigEndian.Uint64(body)),
		At:         LSN(binary.BigEndian.Uint64(body[8:])),
		Commit:     LSN(binary.BigEndian.Uint64(body[16:])),
		Generation: binary.BigEndian.Uint32(body[24:]),
		Data:       body[appendHeader:],
	}, nil
}

func encodeData(d data) []byte {
	body := make([]byte, dataHeader, dataHeader+len(d.Bytes))
	binary.BigEndian.PutUint64(body, uint64(d.At))
	binary.BigEndian.PutUint64(body[8:], uint64(d.Commit))
	return append(body, d.Bytes...)
}

func parseData(body []byte) (data, error) {
	if len(body) < dataHeader {
		return data{}, fmt.Errorf("%w: %d bytes of data", errMessage, len(body))
	}
	return data{
		At:     LSN(binary.BigEndian.Uint64(body)),
		Commit: LSN(binary.BigEndian.Uint64(body[8:])),
		Bytes:  body[dataHeader:],
	}, nil
}

func parseTerm(body []byte) (Term, error) {
	if len(body) != 8 {
		return 0, fmt.Errorf("%w: %d bytes of a term", errMessage, len(body))
	}
	return Term(binary.BigEndian.Uint64(body)), nil
}

func encodeTerm(t Term) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t)) }

func marshal(body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write message: %w", err)
	}
	return text, nil
}
