package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// The types of events that are about objects: the types of metav1.WatchEvent.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
)

// eventError is the type of an event whose object is a metav1.Status. It ends a watch.
const eventError = "ERROR"

// ErrEvent is wrapped by the error of a malformed event. The event has a frame of its
// own, so the next event can be read.
var ErrEvent = errors.New("malformed event")

// Event is an event of a watch.
type Event struct {
	// Type may be a type for which this package has no name.
	Type   string
	Object Raw
}

// Events reads the events of a watch, in protobuf or JSON.
type Events struct {
	protobuf bool
	frames   frames
}

// frames are the pieces in which a server sends a watch's answer. Each holds an event.
type frames interface {
	// next returns the bytes of the next frame. They are valid until the next call.
	next() ([]byte, error)
}

// NewEvents returns a reader of the events of a watch. [CheckType] must accept the
// Content-Type of the answer. most bounds an event.
func NewEvents(contentType string, r io.Reader, most int64) *Events {
	if isProtobuf(contentType) {
		return &Events{true, &protobufFrames{r: bufio.NewReaderSize(r, 16<<10), most: most}}
	}
	b := &bounded{r: r, most: most}
	return &Events{false, &jsonFrames{jsontext.NewDecoder(b, decodeOptions), b}}
}

// Next returns the next event. Its object is valid until the next call. The error is
// io.EOF if the server has ended the watch. It is an apierrors.StatusError if the
// server has told the reason. It wraps [ErrEvent] if the event is malformed.
func (e *Events) Next() (Event, error) {
	frame, err := e.frames.next()
	if err != nil {
		return Event{}, err
	}
	parse := parseJSONEvent
	if e.protobuf {
		parse = parseProtobufEvent
	}
	kind, object, err := parse(frame)
	if err == nil && kind == eventError {
		return Event{}, statusOf(object)
	}
	if err == nil && e.protobuf {
		object, err = cutEventObject(object)
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w: %w", ErrEvent, err)
	}
	return Event{kind, Raw{object, e.protobuf}}, nil
}

// statusOf returns the error that an event of the type eventError holds.
func statusOf(object []byte) error {
	status, ok := DecodeStatus(object)
	if !ok {
		return errors.New("the watch ended with an error that is not a Status")
	}
	return StatusError(status)
}

type jsonFrames struct {
	d *jsontext.Decoder
	b *bounded
}

func (j *jsonFrames) next() ([]byte, error) {
	j.b.next()
	event, err := j.d.ReadValue()
	if int64(len(event)) > j.b.most {
		return nil, tooLarge(j.b.most)
	}
	return event, err
}

func parseJSONEvent(raw []byte) (kind string, object []byte, err error) {
	err = scan.Members(raw, func(name string, value []byte) error {
		switch name {
		case "type":
			kind = scan.Unquote(value)
		case "object":
			object = value
		}
		return nil
	})
	if err == nil && (kind == "" || object == nil) {
		err = errors.New("it has no type or no object")
	}
	return kind, object, err
}

type protobufFrames struct {
	r    *bufio.Reader
	most int64
	buf  bytes.Buffer
}

func (p *protobufFrames) next() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	m := messageReader{r: p.r, left: size, most: p.most}
	if err := m.read(&p.buf, size); err != nil {
		return nil, err
	}
	return p.buf.Bytes(), nil
}

// parseProtobufEvent parses a metav1.WatchEvent: type = 1, object = 2, which is
// a runtime.RawExtension: raw = 1. The object is in its envelope.
func parseProtobufEvent(msg []byte) (kind string, object []byte, err error) {
	for len(msg) > 0 {
		var f protoField
		if f, msg, err = nextField(msg); err != nil {
			return "", nil, err
		}
		switch f.num {
		case 1:
			kind = string(f.val)
		case 2:
			if object, err = findField(f.val, 1); err != nil {
				return "", nil, err
			}
		}
	}
	return kind, object, nil
}

func cutEventObject(object []byte) ([]byte, error) {
	msg, ok := cutEnvelope(object)
	if !ok {
		return nil, fmt.Errorf("%w: its object has no envelope", errProtobuf)
	}
	return msg, nil
}
