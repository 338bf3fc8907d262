package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kubernetes' protobuf encoding: an object is an envelope, made of the four bytes
// "k8s\0" and a runtime.Unknown, whose field 2 holds the object's own message
// (k8s.io/apimachinery/pkg/runtime/serializer/protobuf). In every message
// of k8s.io/api field 1 is the metadata and, in a list, field 2 the items.
// A watch is a sequence of four-byte big-endian lengths, each followed by a
// metav1.WatchEvent without envelope. The object in the event has an envelope.

var protobufMagic = []byte("k8s\x00")

// The numbers of fields that this package reads without the generated code.
const (
	unknownTypeMeta = 1 // of runtime.Unknown
	unknownRaw      = 2

	fieldMetadata = 1 // of every object and list
	fieldItems    = 2 // of every list

	fieldName              = 1 // of ObjectMeta
	fieldNamespace         = 3
	fieldUID               = 5
	fieldResourceVersion   = 6
	fieldGeneration        = 7
	fieldDeletionTimestamp = 9
	fieldLabels            = 11 // a map entry: key = 1, value = 2
	fieldOwners            = 13
	fieldManagedFields     = 17

	fieldOwnerKind       = 1 // of OwnerReference
	fieldOwnerName       = 3
	fieldOwnerUID        = 4
	fieldOwnerAPIVersion = 5
	fieldOwnerController = 6
)

var errProtobuf = errors.New("malformed protobuf")

// protoField is a field of a message. all holds its bytes with tag and length. val holds
// only the content, if the field is length-delimited.
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

// nextField cuts off the first field of a message.
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

// envelopeType returns the kind that the envelope names, as fields 1 and 2 of its
// runtime.TypeMeta. It is empty if the envelope is malformed.
func envelopeType(body []byte) (is metav1.TypeMeta) {
	typeMeta, err := findField(bytes.TrimPrefix(body, protobufMagic), unknownTypeMeta)
	if err != nil {
		return is
	}
	apiVersion, _ := findField(typeMeta, 1) // malformed: none
	kind, _ := findField(typeMeta, 2)
	return metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(kind)}
}

// encodeEnvelope puts a message into an envelope.
func encodeEnvelope(gvk schema.GroupVersionKind, msg []byte) ([]byte, error) {
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

// messageReader reads the fields of a message from a stream.
type messageReader struct {
	r    *bufio.Reader
	left int64 // bytes until the message's end; below zero: until the stream's end
	most int64 // the largest size of a field
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

// read reads a field's content into buf, which grows only with the bytes that arrive.
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
