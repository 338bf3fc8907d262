package wire

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube/internal/scan"
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

// DecodeAnswer decodes the object in an answer. If the answer holds something else, the error
// wraps [ErrAnswer] and names it.
func (c *Codec) DecodeAnswer(contentType string, body []byte, into Object) error {
	raw, err := Unwrap(contentType, body)
	if err != nil {
		return err
	}
	var is metav1.TypeMeta
	if raw.Protobuf {
		is = envelopeType(body)
	} else {
		is = jsonType(body)
	}
	if !c.answers(is) {
		if status, ok := DecodeStatus(body); ok {
			return fmt.Errorf("read object: %w: a Status: %s", ErrAnswer, cmp.Or(status.Message, status.Status, "empty"))
		}
		return fmt.Errorf("read object: %w: a %s of %s", ErrAnswer, is.Kind, cmp.Or(is.APIVersion, "no apiVersion"))
	}
	return c.Decode(raw, into)
}

// answers reports that an object with such a kind answers a request for an object. The
// version is the server's business. Some servers leave the kind out.
func (c *Codec) answers(is metav1.TypeMeta) bool {
	if c.metadata && is.Kind == "PartialObjectMetadata" || is.Kind == "" || c.gvk.Kind == "" {
		return true
	}
	gv, err := schema.ParseGroupVersion(is.APIVersion)
	return is.Kind == c.gvk.Kind && (is.APIVersion == "" || err == nil && gv.Group == c.gvk.Group)
}

// CheckItem refuses an item of a list that names another kind.
func (c *Codec) CheckItem(raw Raw) error {
	if raw.Protobuf { // it names no kind
		return nil
	}
	if is := jsonType(raw.Bytes); !c.answers(is) {
		return fmt.Errorf("read list: %w: a %s of %s", ErrAnswer, is.Kind, cmp.Or(is.APIVersion, "no apiVersion"))
	}
	return nil
}

var errFound = errors.New("found")

// jsonType reads apiVersion and kind of a JSON object. Servers write them first. What is
// malformed is left to the decoder.
func jsonType(object []byte) (is metav1.TypeMeta) {
	_ = scan.Members(object, func(name string, value []byte) error {
		switch isText := len(value) > 0 && value[0] == '"'; {
		case name == "kind" && isText:
			is.Kind = scan.Unquote(value)
		case name == "apiVersion" && isText:
			is.APIVersion = scan.Unquote(value)
		}
		if is.Kind != "" && is.APIVersion != "" {
			return errFound
		}
		return nil
	})
	return is
}

// StatusError returns a failure as an error. If the server gave no message, the error has one of its own.
func StatusError(s *metav1.Status) *apierrors.StatusError {
	if s.Message == "" {
		s.Message = fmt.Sprintf("status %d, reason %s, without a message", s.Code, cmp.Or(s.Reason, "unknown"))
	}
	return &apierrors.StatusError{ErrStatus: *s}
}

// DecodeStatus decodes a metav1.Status in JSON or protobuf. It reports whether body is a
// Status.
func DecodeStatus(body []byte) (*metav1.Status, bool) {
	status := new(metav1.Status)
	if raw, ok := cutEnvelope(body); ok {
		// A message of one kind may decode as one of another kind: the envelope names the
		// kind.
		if envelopeType(body).Kind != "Status" || status.Unmarshal(raw) != nil {
			return nil, false
		}
		return status, true
	}
	if err := json.Unmarshal(body, status, decodeOptions); err != nil || status.Kind != "Status" {
		return nil, false
	}
	return status, true
}
