package kube

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes' protobuf encoding: an object is the four bytes "k8s\0" and a
// runtime.Unknown, whose field 2 holds the object's own message
// (k8s.io/apimachinery/pkg/runtime/serializer/protobuf). In every message
// of k8s.io/api field 1 is the metadata and, in a list, field 2 the items.
// A watch is a sequence of four-byte big-endian lengths, each followed by a
// metav1.WatchEvent without the envelope, whose object has one.

var protobufMagic = []byte("k8s\x00")

const (
	unknownTypeMeta = 1
	unknownRaw      = 2
	fieldMetadata   = 1
	fieldItems      = 2
)

var errProtobuf = errors.New("malformed protobuf")

// protoField is a field of a message: val holds the content of a
// length-delimited one, all all of its bytes with tag and length.
type protoField struct {
	num  int
	wire int
	val  []byte
	all  []byte
}

const (
	wireVarint = 0
	wireI64    = 1
	wireBytes  = 2
	wireI32    = 5
)

// nextField cuts the first field off a message.
func nextField(msg []byte) (f protoField, rest []byte, err error) {
	tag, n := binary.Uvarint(msg)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
		return f, nil, errProtobuf
	}
	f.num, f.wire = int(tag>>3), int(tag&7)
	end := n
	switch f.wire {
	case wireVarint:
		_, m := binary.Uvarint(msg[n:])
		if m <= 0 {
			return f, nil, errProtobuf
		}
		end += m
	case wireI64:
		end += 8
	case wireI32:
		end += 4
	case wireBytes:
		size, m := binary.Uvarint(msg[n:])
		if m <= 0 || size > uint64(len(msg)-n-m) {
			return f, nil, errProtobuf
		}
		end += m + int(size)
		f.val = msg[n+m : end]
	default:
		return f, nil, errProtobuf
	}
	if end > len(msg) {
		return f, nil, errProtobuf
	}
	f.all = msg[:end]
	return f, msg[end:], nil
}

// findField returns the content of the last length-delimited field num.
func findField(msg []byte, num int) (val []byte, err error) {
	for len(msg) > 0 {
		var f protoField
		if f, msg, err = nextField(msg); err != nil {
			return nil, err
		}
		if f.num == num && f.wire == wireBytes {
			val = f.val
		}
	}
	return val, nil
}

// cutEnvelope returns the message inside the envelope, which aliases body.
func cutEnvelope(body []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(body, protobufMagic)
	if !ok {
		return nil, false
	}
	raw, err := findField(rest, unknownRaw)
	return raw, err == nil
}

// envelopeKind returns the kind that the envelope names: field 2 of its
// runtime.TypeMeta.
func envelopeKind(body []byte) string {
	typeMeta, err := findField(bytes.TrimPrefix(body, protobufMagic), unknownTypeMeta)
	if err != nil {
		return ""
	}
	kind, _ := findField(typeMeta, 2) // malformed: no kind
	return string(kind)
}

// encodeEnvelope puts a message into the envelope.
func encodeEnvelope(gvk GVK, msg []byte) ([]byte, error) {
	unknown := runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		Raw:      msg,
	}
	size := unknown.Size()
	out := make([]byte, len(protobufMagic)+size)
	copy(out, protobufMagic)
	if _, err := unknown.MarshalTo(out[len(protobufMagic):]); err != nil {
		return nil, err
	}
	return out, nil
}

func (l listReader) readProtobuf(r io.Reader) (meta metav1.ListMeta, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	magic := make([]byte, len(protobufMagic))
	if _, err := io.ReadFull(br, magic); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	if !bytes.Equal(magic, protobufMagic) {
		return meta, fmt.Errorf("read list: %w: no Kubernetes envelope", errProtobuf)
	}
	var buf bytes.Buffer
	m := messageReader{r: br, left: -1, most: l.most}
	listed, named := false, l.is == nil
	for {
		num, size, err := m.next()
		if errors.Is(err, io.EOF) && !listed {
			return meta, fmt.Errorf("read list: %w: an envelope without a list", errAnswer)
		}
		if errors.Is(err, io.EOF) {
			return meta, nil
		}
		if err != nil {
			return meta, fmt.Errorf("read list: %w", err)
		}
		if num != unknownRaw {
			if err := m.read(&buf, size); err != nil {
				return meta, fmt.Errorf("read list: %w", err)
			}
			if num == unknownTypeMeta && l.is != nil {
				apiVersion, _ := findField(buf.Bytes(), 1) // malformed: no version
				kind, _ := findField(buf.Bytes(), 2)       // malformed: no kind
				if err := l.is(string(apiVersion), string(kind)); err != nil {
					return meta, err
				}
				named = true
			}
			continue
		}
		switch {
		case listed:
			// The last would count, but the first has been told of.
			return meta, fmt.Errorf("read list: %w: two lists in one envelope", errProtobuf)
		case !named:
			return meta, fmt.Errorf("read list: %w: an envelope that names no kind", errAnswer)
		}
		listed = true
		if meta, err = l.readMessage(br, size, &buf); err != nil {
			return meta, err
		}
	}
}

// readMessage reads the message of a list.
func (l listReader) readMessage(r *bufio.Reader, size int64, buf *bytes.Buffer) (meta metav1.ListMeta, err error) {
	list := messageReader{r: r, left: size, most: l.most}
	for {
		num, size, err := list.next()
		if errors.Is(err, io.EOF) {
			return meta, nil
		}
		if err == nil {
			err = list.read(buf, size)
		}
		if err != nil {
			return meta, fmt.Errorf("read list: %w", err)
		}
		switch num {
		case fieldMetadata:
			if err = meta.Unmarshal(buf.Bytes()); err == nil && l.head != nil {
				err = l.head(meta)
			}
		case fieldItems:
			err = l.each(buf.Bytes())
		}
		if err != nil {
			return meta, err
		}
	}
}

// messageReader reads the fields of a message from a stream.
type messageReader struct {
	r    *bufio.Reader
	left int64 // bytes until the message's end; below zero: until the stream's end
	most int64 // how large a field may be
}

// next reads a field's tag and the size of its content. It returns io.EOF at
// the message's end.
func (m *messageReader) next() (num int, size int64, err error) {
	if m.left == 0 {
		return 0, 0, io.EOF
	}
	tag, err := m.uvarint()
	if errors.Is(err, io.EOF) && m.left > 0 {
		return 0, 0, io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, 0, err
	}
	num = int(tag >> 3)
	switch tag & 7 {
	case wireVarint:
		_, err = m.uvarint()
		return num, 0, noEOF(err)
	case wireBytes:
		n, err := m.uvarint()
		if err != nil {
			return 0, 0, noEOF(err)
		}
		if n > 1<<62 || m.left >= 0 && int64(n) > m.left {
			return 0, 0, errProtobuf
		}
		return num, int64(n), nil
	}
	return 0, 0, errProtobuf
}

func (m *messageReader) uvarint() (uint64, error) {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		if m.left == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		b, err := m.r.ReadByte()
		if err != nil {
			if shift > 0 {
				err = noEOF(err)
			}
			return 0, err
		}
		if m.left > 0 {
			m.left--
		}
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x, nil
		}
	}
	return 0, errProtobuf
}

// read reads a field's content into buf, which grows with what really comes.
func (m *messageReader) read(buf *bytes.Buffer, size int64) error {
	if size > m.most {
		return tooLarge(m.most)
	}
	buf.Reset()
	if _, err := io.CopyN(buf, m.r, size); err != nil {
		return noEOF(err)
	}
	if m.left > 0 {
		m.left -= size
	}
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// protobufEvents reads the events of a watch.
type protobufEvents struct {
	r    *bufio.Reader
	most int64
	buf  bytes.Buffer
}

func newProtobufEvents(r io.Reader, most int64) *protobufEvents {
	return &protobufEvents{r: bufio.NewReaderSize(r, 16<<10), most: most}
}

// next returns the bytes of the next event, valid until the one after.
func (p *protobufEvents) next() ([]byte, error) {
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

// parseEventProtobuf parses a metav1.WatchEvent: type = 1, object = 2, which is
// a runtime.RawExtension: raw = 1.
func parseEventProtobuf(msg []byte) (ev wireEvent, err error) {
	for len(msg) > 0 {
		var f protoField
		if f, msg, err = nextField(msg); err != nil {
			return ev, err
		}
		switch f.num {
		case 1:
			ev.kind = string(f.val)
		case 2:
			if ev.object, err = findField(f.val, 1); err != nil {
				return ev, err
			}
		}
	}
	raw, ok := cutEnvelope(ev.object)
	if !ok {
		return ev, fmt.Errorf("%w: event object has no envelope", errProtobuf)
	}
	if ev.kind != eventError {
		ev.object = raw // of an error the envelope tells the encoding
	}
	return ev, nil
}
