package kube

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube/internal/scan"
)

// decodeOptions make decoding as lenient as the API server's own encoder needs:
// strings may hold invalid UTF-8 that was stored before it was checked.
var decodeOptions = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// wireEvent is an event of a watch: the object is the message without envelope,
// or JSON. It is valid until the next event is read.
type wireEvent struct {
	kind   string
	object []byte
}

// The types of events on the wire: metav1.WatchEvent.
const (
	eventAdded    = "ADDED"
	eventModified = "MODIFIED"
	eventDeleted  = "DELETED"
	eventBookmark = "BOOKMARK"
	eventError    = "ERROR"
)

// readList reads a list, in protobuf or JSON, item by item, so that its whole is
// never held. The bytes given to each are valid until it returns. Head, which may
// be nil, gets the list's metadata, which servers send before the items. An error
// of either ends the reading.
func readList(proto bool, r io.Reader, head func(metav1.ListMeta) error, each func(item []byte) error) (metav1.ListMeta, error) {
	if proto {
		return readListProtobuf(r, head, each)
	}
	return readListJSON(r, head, each)
}

func readListJSON(r io.Reader, head func(metav1.ListMeta) error, each func(item []byte) error) (meta metav1.ListMeta, err error) {
	d := jsontext.NewDecoder(r, decodeOptions)
	if err := expect(d, '{'); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return meta, fmt.Errorf("read list: %w", err)
		}
		switch name.String() {
		case "metadata":
			if err := json.UnmarshalDecode(d, &meta); err != nil {
				return meta, fmt.Errorf("read list: %w", err)
			}
			if head != nil {
				if err := head(meta); err != nil {
					return meta, err
				}
			}
		case "items":
			if err := readItems(d, each); err != nil {
				return meta, err
			}
		default:
			if err := d.SkipValue(); err != nil {
				return meta, fmt.Errorf("read list: %w", err)
			}
		}
	}
	if err := expect(d, '}'); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	return meta, nil
}

func readItems(d *jsontext.Decoder, each func(item []byte) error) error {
	if d.PeekKind() == 'n' { // null: an empty list
		return d.SkipValue()
	}
	if err := expect(d, '['); err != nil {
		return fmt.Errorf("read items: %w", err)
	}
	for d.PeekKind() != ']' {
		item, err := d.ReadValue()
		if err != nil {
			return fmt.Errorf("read item: %w", err)
		}
		if err := each(item); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

func expect(d *jsontext.Decoder, kind jsontext.Kind) error {
	tok, err := d.ReadToken()
	if err != nil {
		return noEOF(err)
	}
	if tok.Kind() != kind {
		return fmt.Errorf("malformed JSON: %q where %q should be", tok.Kind(), kind)
	}
	return nil
}

// jsonEvents reads the events of a watch.
type jsonEvents struct{ d *jsontext.Decoder }

// next returns the bytes of the next event, valid until the one after.
func (j *jsonEvents) next() ([]byte, error) { return j.d.ReadValue() }

func parseEventJSON(raw []byte) (ev wireEvent, err error) {
	err = scan.Members(raw, func(name string, value []byte) error {
		switch name {
		case "type":
			ev.kind = scan.Unquote(value)
		case "object":
			ev.object = value
		}
		return nil
	})
	if err == nil && (ev.kind == "" || ev.object == nil) {
		err = errors.New("malformed JSON: event without type or object")
	}
	return ev, err
}
