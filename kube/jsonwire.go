package kube

import (
	"cmp"
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

// listReader reads a list, in protobuf or JSON, item by item, so that its whole is
// never held. An error of any of its functions ends the reading.
type listReader struct {
	proto bool
	// most is how large an item, or any other part of the list, may be.
	most int64
	// is, which may be nil, gets what the list says it is: before its items, if it
	// says it there.
	is func(apiVersion, kind string) error
	// head, which may be nil, gets the list's metadata: before its items, if it is
	// there.
	head func(metav1.ListMeta) error
	// each gets the items. The bytes are valid until it returns.
	each func(item []byte) error
}

// errAnswer: the server, or a proxy before it, has answered with something else.
var errAnswer = errors.New("unexpected answer")

func (l listReader) read(r io.Reader) (metav1.ListMeta, error) {
	if l.proto {
		return l.readProtobuf(r)
	}
	return l.readJSON(r)
}

func (l listReader) readJSON(r io.Reader) (meta metav1.ListMeta, err error) {
	b := &bounded{r: r, most: l.most}
	d := jsontext.NewDecoder(b, decodeOptions)
	b.next()
	if err := expect(d, '{'); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	var apiVersion, kind string
	items := false
	named := func(into *string) error {
		if err := json.UnmarshalDecode(d, into); err != nil {
			return fmt.Errorf("read list: %w", err)
		}
		if l.is == nil || apiVersion == "" || kind == "" {
			return nil
		}
		return l.is(apiVersion, kind)
	}
	for d.PeekKind() == '"' {
		b.next()
		name, err := d.ReadToken()
		if err != nil {
			return meta, fmt.Errorf("read list: %w", err)
		}
		switch name.String() {
		case "apiVersion":
			err = named(&apiVersion)
		case "kind":
			err = named(&kind)
		case "metadata":
			if err = json.UnmarshalDecode(d, &meta); err != nil {
				err = fmt.Errorf("read list: %w", err)
			} else if l.head != nil {
				err = l.head(meta)
			}
		case "items":
			items = true
			err = l.readItems(d, b)
		default:
			if err = d.SkipValue(); err != nil {
				err = fmt.Errorf("read list: %w", err)
			}
		}
		if err != nil {
			return meta, err
		}
		b.next()
	}
	if err := expect(d, '}'); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	switch {
	case l.is != nil && (apiVersion == "" || kind == ""):
		return meta, fmt.Errorf("read list: %w: JSON that names no apiVersion and kind", errAnswer)
	case !items:
		return meta, fmt.Errorf("read list: %w: %s without items", errAnswer, cmp.Or(kind, "JSON"))
	}
	return meta, nil
}

func (l listReader) readItems(d *jsontext.Decoder, b *bounded) error {
	if d.PeekKind() == 'n' { // null: an empty list
		return d.SkipValue()
	}
	if err := expect(d, '['); err != nil {
		return fmt.Errorf("read items: %w", err)
	}
	for d.PeekKind() != ']' {
		b.next()
		item, err := d.ReadValue()
		if err != nil {
			return fmt.Errorf("read item: %w", err)
		}
		if int64(len(item)) > l.most { // what is read ahead does not count against it
			return tooLarge(l.most)
		}
		if err := l.each(item); err != nil {
			return err
		}
		b.next()
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
type jsonEvents struct {
	d *jsontext.Decoder
	b *bounded
}

func newJSONEvents(r io.Reader, most int64) *jsonEvents {
	b := &bounded{r: r, most: most}
	return &jsonEvents{jsontext.NewDecoder(b, decodeOptions), b}
}

// next returns the bytes of the next event, valid until the one after.
func (j *jsonEvents) next() ([]byte, error) {
	j.b.next()
	event, err := j.d.ReadValue()
	if int64(len(event)) > j.b.most {
		return nil, tooLarge(j.b.most)
	}
	return event, err
}

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
		err = fmt.Errorf("%w: an event without type or object", errAnswer)
	}
	return ev, err
}
