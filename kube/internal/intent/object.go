package intent

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// inSpec reports whether a member of an object's metadata may be applied.
func inSpec(name string) bool {
	switch name {
	case "managedFields", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink", "finalizers":
		return false
	}
	return true
}

// inStatus reports whether a member of the metadata identifies the object.
func inStatus(name string) bool {
	return name == "name" || name == "namespace" || name == "uid"
}

// compile builds the encoders of the type's members.
func (e *Encoder) compile() error {
	c := compiler{nodes: map[reflect.Type]*node{}}
	if e.typ.Kind() != reflect.Struct || jsonfields.Encodes(e.typ) {
		n, err := c.node(e.typ)
		if err != nil {
			return err
		}
		e.root = n.encode
		return nil
	}
	for _, f := range fieldsOf(e.typ) {
		var err error
		switch f.Member {
		case "apiVersion", "kind":
		case "metadata":
			if e.meta.spec, err = c.metadata(f, inSpec); err == nil {
				e.meta.status, err = c.metadata(f, inStatus)
			}
			e.plain = append(e.plain, e.meta.spec)
		case "status":
			e.status, err = c.status(f)
		default:
			var m memberFunc
			m, err = c.member(f)
			e.plain = append(e.plain, m)
		}
		if err != nil {
			return atMember(f.Member, err)
		}
	}
	return nil
}

// metadata returns the encoder of a metadata field. It sends the members that keep
// allows.
func (c *compiler) metadata(f field, keep func(string) bool) (memberFunc, error) {
	n, err := c.node(f.Type)
	if err != nil {
		return nil, err
	}
	base := f.Type
	if base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	encode := func(s *state, v reflect.Value) error {
		start := len(s.buf)
		if err := n.encode(s, v); err != nil {
			return err
		}
		kept, err := appendMembers(nil, s.buf[start:], keep)
		s.buf = append(s.buf[:start], kept...)
		return err
	}
	if base.Kind() == reflect.Struct && !jsonfields.Encodes(base) {
		var members []memberFunc
		for _, mf := range fieldsOf(base) {
			if !keep(mf.Member) {
				continue
			}
			m, err := c.member(mf)
			if err != nil {
				return nil, atMember(mf.Member, err)
			}
			members = append(members, m)
		}
		encode = structEncoder(members)
		if f.Type.Kind() == reflect.Pointer {
			encode = pointerEncoder(&node{encode: encode})
		}
	}
	return f.with(encode), nil
}

func (c *compiler) status(f field) (encodeStatus, error) {
	n, err := c.node(f.Type)
	if err != nil {
		return nil, err
	}
	return func(s *state, object reflect.Value) error {
		v, ok := f.Value(object)
		if !ok || nilable(f.Type.Kind()) && v.IsNil() {
			return atMember(f.Member, errors.New("is nil"))
		}
		s.buf = append(s.buf, `,"status":`...)
		if err := n.encode(s, v); err != nil {
			return atMember(f.Member, err)
		}
		return nil
	}, nil
}

func (e *Encoder) object(s *state, object reflect.Value, opt Options) error {
	start := len(s.buf)
	var err error
	s.buf = append(s.buf, `{"apiVersion":`...)
	if s.buf, err = jsontext.AppendQuote(s.buf, opt.APIVersion); err != nil {
		return atMember("apiVersion", err)
	}
	s.buf = append(s.buf, `,"kind":`...)
	if s.buf, err = jsontext.AppendQuote(s.buf, opt.Kind); err != nil {
		return atMember("kind", err)
	}
	if e.root != nil {
		return e.whole(s, object, start, opt.Part)
	}
	members := e.plain
	switch opt.Part {
	case Spec:
	case Status:
		if e.status == nil {
			return errNoStatus
		}
		members = nil
		if e.meta.status != nil {
			if err := e.meta.status(s, object); err != nil {
				return err
			}
		}
		if err := e.status(s, object); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no such part of an object: %d", opt.Part)
	}
	for _, m := range members {
		if err := m(s, object); err != nil {
			return err
		}
	}
	s.buf = append(s.buf, '}')
	return nil
}

// whole encodes an object that encodes itself, such as an unstructured one, and then
// removes the fields that must not be sent.
func (e *Encoder) whole(s *state, object reflect.Value, start int, part Part) error {
	end := len(s.buf)
	if err := e.root(s, object); err != nil {
		return err
	}
	src := bytes.Clone(s.buf[end:])
	s.buf = s.buf[:end]
	hasStatus := false
	err := eachMember(src, func(name string, value jsontext.Value) error {
		keep := inSpec
		switch {
		case name == "apiVersion", name == "kind":
			return nil
		case name == "metadata" && value.Kind() == 'n':
			return nil
		case name == "metadata":
			if part == Status {
				keep = inStatus
			}
			meta, err := appendMembers(nil, value, keep)
			if err != nil {
				return atMember(name, err)
			}
			value = meta
		case name == "status" && value.Kind() == 'n':
			return nil
		case name == "status":
			hasStatus = true
			fallthrough
		default:
			if (part == Status) != (name == "status") {
				return nil
			}
		}
		s.buf = append(s.buf, ',')
		s.buf, _ = jsontext.AppendQuote(s.buf, name)
		s.buf = append(s.buf, ':')
		s.buf = append(s.buf, value...)
		return nil
	})
	if err == nil && part == Status && !hasStatus {
		err = atMember("status", errors.New("is nil"))
	}
	s.buf = append(s.buf, '}')
	return err
}

// appendMembers appends the object in src without the members that keep
// refuses.
func appendMembers(dst, src []byte, keep func(string) bool) ([]byte, error) {
	dst = append(dst, '{')
	err := eachMember(src, func(name string, value jsontext.Value) error {
		if !keep(name) {
			return nil
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst, _ = jsontext.AppendQuote(dst, name)
		dst = append(dst, ':')
		dst = append(dst, value...)
		return nil
	})
	return append(dst, '}'), err
}

// eachMember calls f with the members of the object in src, which is valid.
func eachMember(src []byte, f func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	tok, err := d.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return errors.New("is not a JSON object")
	}
	for d.PeekKind() != '}' {
		tok, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := tok.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}
