package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ListReader reads a list, in protobuf or JSON, item by item. The whole list is never in
// memory. If one of its functions returns an error, the reading ends and Read returns the
// error.
type ListReader struct {
	// Codec is the codec of the items. A list of another kind is refused. Nil: any list
	// is read, also one that does not name its kind.
	Codec *Codec
	// MaxBytes bounds an item, and any other part of the list.
	MaxBytes int64
	// Named, which may be nil, gets the list's kind, and whether that is the usual name
	// for lists of the items' kind.
	Named func(kind string, usual bool)
	// Head, which may be nil, gets the list's metadata. It is called before the items, if
	// the metadata stands before them.
	Head func(metav1.ListMeta) error
	// Each gets the items. Their bytes are valid until it returns.
	Each func(Raw) error
}

// Read reads a list and returns its metadata.
func (l ListReader) Read(contentType string, r io.Reader) (metav1.ListMeta, error) {
	if err := CheckType(contentType); err != nil {
		return metav1.ListMeta{}, err
	}
	if isProtobuf(contentType) {
		return l.readProtobuf(r)
	}
	return l.readJSON(r)
}

// named checks the kind that a list names.
func (l ListReader) named(apiVersion, kind string) error {
	usual := false
	if l.Codec != nil {
		var err error
		if usual, err = l.Codec.checkList(apiVersion, kind); err != nil {
			return err
		}
	}
	if l.Named != nil {
		l.Named(kind, usual)
	}
	return nil
}

func (l ListReader) head(meta metav1.ListMeta) error {
	if l.Head == nil {
		return nil
	}
	return l.Head(meta)
}

func (l ListReader) readJSON(r io.Reader) (meta metav1.ListMeta, err error) {
	b := &bounded{r: r, most: l.MaxBytes}
	d := jsontext.NewDecoder(b, decodeOptions)
	b.next()
	if err := expect(d, '{'); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	var apiVersion, kind string
	items := false
	name := func(into *string) error {
		if err := json.UnmarshalDecode(d, into); err != nil {
			return fmt.Errorf("read list: %w", err)
		}
		if apiVersion == "" || kind == "" {
			return nil
		}
		return l.named(apiVersion, kind)
	}
	for d.PeekKind() == '"' {
		b.next()
		member, err := d.ReadToken()
		if err != nil {
			return meta, fmt.Errorf("read list: %w", err)
		}
		switch member.String() {
		case "apiVersion":
			err = name(&apiVersion)
		case "kind":
			err = name(&kind)
		case "metadata":
			if err = json.UnmarshalDecode(d, &meta); err != nil {
				err = fmt.Errorf("read list: %w", err)
			} else {
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
	case l.Codec != nil && (apiVersion == "" || kind == ""):
		return meta, fmt.Errorf("read list: %w: JSON that names no apiVersion and kind", ErrAnswer)
	case !items:
		return meta, fmt.Errorf("read list: %w: %s without items", ErrAnswer, cmp.Or(kind, "JSON"))
	}
	return meta, nil
}

func (l ListReader) readItems(d *jsontext.Decoder, b *bounded) error {
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
		if int64(len(item)) > l.MaxBytes { // bytes that are read ahead do not count against the bound
			return tooLarge(l.MaxBytes)
		}
		if err := l.Each(Raw{Bytes: item}); err != nil {
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
		return fmt.Errorf("malformed JSON: got %q, want %q", tok.Kind(), kind)
	}
	return nil
}

func (l ListReader) readProtobuf(r io.Reader) (meta metav1.ListMeta, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	magic := make([]byte, len(protobufMagic))
	if _, err := io.ReadFull(br, magic); err != nil {
		return meta, fmt.Errorf("read list: %w", err)
	}
	if !bytes.Equal(magic, protobufMagic) {
		return meta, fmt.Errorf("read list: %w: no Kubernetes envelope", errProtobuf)
	}
	var buf bytes.Buffer
	m := messageReader{r: br, left: -1, most: l.MaxBytes}
	listed, named := false, l.Codec == nil
	for {
		num, size, err := m.next()
		if errors.Is(err, io.EOF) && !listed {
			return meta, fmt.Errorf("read list: %w: the envelope has no list", ErrAnswer)
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
			if num == unknownTypeMeta {
				apiVersion, _ := findField(buf.Bytes(), 1) // malformed: no version
				kind, _ := findField(buf.Bytes(), 2)       // malformed: no kind
				if err := l.named(string(apiVersion), string(kind)); err != nil {
					return meta, err
				}
				named = true
			}
			continue
		}
		switch {
		case listed:
			// By the rules of protobuf the last list counts, but the caller has already
			// had the first list.
			return meta, fmt.Errorf("read list: %w: two lists in one envelope", errProtobuf)
		case !named:
			return meta, fmt.Errorf("read list: %w: the envelope names no kind", ErrAnswer)
		}
		listed = true
		if meta, err = l.readMessage(br, size, &buf); err != nil {
			return meta, err
		}
	}
}

// readMessage reads the message of a list.
func (l ListReader) readMessage(r *bufio.Reader, size int64, buf *bytes.Buffer) (meta metav1.ListMeta, err error) {
	list := messageReader{r: r, left: size, most: l.MaxBytes}
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
			if err = meta.Unmarshal(buf.Bytes()); err == nil {
				err = l.head(meta)
			}
		case fieldItems:
			err = l.Each(Raw{buf.Bytes(), true})
		}
		if err != nil {
			return meta, err
		}
	}
}
