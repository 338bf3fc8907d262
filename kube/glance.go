package kube

import (
	"crypto/sha256"
	"net/url"
	"slices"
	"sync"

	"github.com/pintle-go/pintle/internal/glance"
	"github.com/pintle-go/pintle/kube/internal/intent"
	"github.com/pintle-go/pintle/kube/internal/own"
)

// encoded is the body of an apply.
type encoded struct {
	buf  []byte
	text []byte // the body, in buf; nil: there is none
}

// bodies has buffers for bodies, most of which are not sent.
var bodies = sync.Pool{New: func() any { return new(encoded) }}

// maxBody keeps a single large object from being remembered.
const maxBody = 1 << 20

// release leaves the buffer to another body.
func (b *encoded) release() {
	b.text = nil // it may be too large for the buffer
	bodies.Put(b)
}

// glance reports that an Ensure of o would send nothing, and answers the question. It neither
// waits nor decodes, and knows less than ensure: where it returns false, ensure may find out
// that nothing would change.
func (h *handle) glance(o object, asked *glance.Object) bool {
	if o.GetResourceVersion() != "" || len(o.GetManagedFields()) > 0 {
		return false
	}
	body := bodies.Get().(*encoded)
	defer body.release()
	t, e, last := h.lastOf(o, intent.Spec, body)
	if t == nil || !e.Is(asked.UID) || e.Deleting() {
		return false
	}
	if e != last.seen && last.fields != nil {
		if last.seen == nil || !t.handle.codec.SameSpec(e, last.seen) {
			return false
		}
		t.ensured.saw(part{key: KeyOf(o)}, last, e)
	}
	codec := t.handle.codec
	asked.Decode = func(into any) error { return e.Decode(codec, into.(object)) }
	return true
}

// statusSeen reports that the store shows the status of o, and has been found to show it
// before. It knows less than ensureStatus. It leaves the encoded status in body.
func (h *handle) statusSeen(o object, body *encoded) bool {
	t, e, last := h.lastOf(o, intent.Status, body)
	return t != nil && e == last.seen && (o.GetUID() == "" || e.Is(o.GetUID())) && t.handle.codec.HasStatus(e)
}

// lastOf returns the last apply of this process to a part of an object, if it says the same
// as o, and the present entry of the object. It returns no table if it does not know them.
func (h *handle) lastOf(o object, p intent.Part, body *encoded) (t *table, e *entry, last ensured) {
	key := KeyOf(o)
	body.text = nil
	switch {
	case h.err != nil, h.client == nil, h.codec == nil, h.write.DryRun:
		return nil, nil, last
	case len(h.namespaces) > 0 && !slices.Contains(h.namespaces, key.Namespace):
		return nil, nil, last
	}
	if t = h.client.stores.showing(h, key, o); t == nil {
		return nil, nil, last
	}
	id := part{key, p == intent.Status}
	wanted, ok := h.wanted(o, p, body)
	if _, known := t.ensured.last(id, wanted); !ok || !known {
		return nil, nil, last
	}
	e, at, need := t.peek(key)
	if need != own.Read || e == nil || at != key {
		return nil, nil, last
	}
	last, known := t.ensured.last(id, wanted) // as of the entry, or later
	if !known || last.foreign() || !e.Is(last.uid) {
		return nil, nil, last
	}
	return t, e, last
}

// wanted encodes a part of an object, and returns the digest of its apply, as
// [handle.digest] does. Ok is false if the object cannot be encoded.
func (h *handle) wanted(o object, p intent.Part, body *encoded) (sum [sha256.Size]byte, ok bool) {
	encoder, err := h.client.encoder(h.goType)
	if err != nil {
		return sum, false
	}
	text, err := encoder.Object(body.buf[:0:cap(body.buf)], o, h.intent(p))
	if err != nil {
		return sum, false
	}
	whole := h.appendTakeOver(h.appendQuery(append(text, '\n')))
	body.text = whole[:len(text):len(text)]
	if cap(whole) <= maxBody {
		body.buf = whole
	}
	return sha256.Sum256(whole), true
}

// appendQuery appends the query of an apply that is no dry run, as url.Values.Encode does.
func (h *handle) appendQuery(dst []byte) []byte {
	dst = append(append(dst, "fieldManager="...), url.QueryEscape(h.managerName())...)
	if h.write.FieldValidation != "" {
		dst = append(append(dst, "&fieldValidation="...), url.QueryEscape(h.write.FieldValidation)...)
	}
	if !h.write.NoForce {
		dst = append(dst, "&force=true"...)
	}
	return dst
}
