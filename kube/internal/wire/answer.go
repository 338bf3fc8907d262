package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The media types that this package reads and writes.
const (
	TypeJSON     = "application/json"
	TypeProtobuf = "application/vnd.kubernetes.protobuf"
)

// ErrAnswer is wrapped by the errors of answers with unexpected content, such as a
// proxy's page.
var ErrAnswer = errors.New("unexpected answer")

// Raw is an object as it stands in an answer. Its bytes are the object's protobuf message
// without envelope, or JSON.
type Raw struct {
	Bytes    []byte
	Protobuf bool
}

// Shape is the shape of an answer.
type Shape int

// The shapes of answers.
const (
	OneObject Shape = iota
	AList
	AWatch
)

// Accept returns the Accept header for answers of a shape. It ends with plain JSON, which
// every server supports.
func (c *Codec) Accept(s Shape) string {
	params := ""
	if s == AWatch {
		params = ";stream=watch"
	}
	switch {
	case c.metadata && s == AList:
		params += ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	case c.metadata:
		params += ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	case c.whole == nil:
		return TypeJSON
	default:
		return TypeProtobuf + params + "," + TypeJSON
	}
	return TypeProtobuf + params + "," + TypeJSON + params + "," + TypeJSON
}

// CheckType refuses an answer that is neither protobuf nor JSON.
func CheckType(contentType string) error {
	switch mediaType(contentType) {
	case TypeProtobuf, TypeJSON, "":
		return nil
	}
	return fmt.Errorf("%w: its type %q is neither JSON nor protobuf: does a proxy answer instead of the server?",
		ErrAnswer, contentType)
}

func isProtobuf(contentType string) bool { return mediaType(contentType) == TypeProtobuf }

// mediaType returns a Content-Type without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// Unwrap returns the object in an answer. Its bytes alias body.
func Unwrap(contentType string, body []byte) (Raw, error) {
	if err := CheckType(contentType); err != nil {
		return Raw{}, fmt.Errorf("read object: %w", err)
	}
	if !isProtobuf(contentType) {
		return Raw{Bytes: body}, nil
	}
	msg, ok := cutEnvelope(body)
	if !ok {
		return Raw{}, fmt.Errorf("read object: %w: no Kubernetes envelope", errProtobuf)
	}
	return Raw{msg, true}, nil
}

// DecodeStatus decodes a metav1.Status in JSON or protobuf. It reports whether body is a
// Status.
func DecodeStatus(body []byte) (*metav1.Status, bool) {
	status := new(metav1.Status)
	if raw, ok := cutEnvelope(body); ok {
		// A message of one kind may decode as one of another kind: the envelope names the
		// kind.
		if envelopeKind(body) != "Status" || status.Unmarshal(raw) != nil {
			return nil, false
		}
		return status, true
	}
	if err := json.Unmarshal(body, status, decodeOptions); err != nil || status.Kind != "Status" {
		return nil, false
	}
	return status, true
}
