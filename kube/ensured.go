package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/intent"
	"github.com/pintle-go/pintle/kube/internal/owned"
	"github.com/pintle-go/pintle/kube/internal/scan"
)

// part is the spec or the status of an object. The two are applied apart.
type part struct {
	key    Key
	status bool
}

func partsOf(key Key) []part { return []part{{key, false}, {key, true}} }

// subresource returns the subresource of the part, as managedFields name it.
func (p part) subresource() string {
	if p.status {
		return "status"
	}
	return ""
}

// ensured is the last apply of a process to a part of an object.
type ensured struct {
	uid     types.UID
	manager string
	wanted  [sha256.Size]byte // a digest of the body that was sent
	fields  *owned.Fields     // the fields that the manager owns since; nil if it owns none
	values  owned.Digest      // values of these fields, as the server answered
	// owns is the hash of the manager's entry after the apply. Sight describes that entry
	// as the server last told the table of it.
	owns  uint64
	sight sight
	// seen is the last entry of the table that was found to have these values.
	seen *entry
	// by is set while the answer is on its way.
	by *ensuring
}

// ensuredParts is a table's knowledge of the ensured parts of objects.
type ensuredParts struct {
	selector selector // selector of the table; an object outside it is never shown, and not remembered
	mu       sync.Mutex
	by       map[part]ensured
	flying   map[part]int // the Ensures whose answers are on their way
}

// ensuring is an apply on its way. It is not remembered if another write of the part is
// on its way at the same time. It is not known which of these writes the server does
// last.
type ensuring struct {
	in    *ensuredParts
	id    part
	alone bool
	// nothing is set if the body sets no field, so that the manager owns none.
	nothing bool
	// gone holds the uids of objects of this name that have gone since the apply began. The
	// answer may be about one of them.
	gone []types.UID
}

// digest identifies the content of a request.
func (r *request) digest() (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(r.body)
	h.Write([]byte("\n" + r.query.Encode()))
	h.Sum(sum[:0])
	return sum
}

// begin notes that an apply to a part of an object is about to be sent.
func (p *ensuredParts) begin(id part, wanted [sha256.Size]byte, req *request) *ensuring {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by, p.flying = make(map[part]ensured), make(map[part]int)
	}
	by := &ensuring{in: p, id: id, alone: p.flying[id] == 0, nothing: setsNothing(req.body)}
	p.flying[id]++
	next := ensured{manager: req.query.Get("fieldManager"), wanted: wanted, by: by}
	if last := p.by[id]; last.manager == next.manager {
		next.sight = last.sight
	}
	p.by[id] = next
	return by
}

// setsNothing reports that the body of an apply only names an object.
func setsNothing(body []byte) bool {
	sets := false
	names := func(members ...string) func(string, []byte) error {
		return func(name string, _ []byte) error {
			sets = sets || !slices.Contains(members, name)
			return nil
		}
	}
	top := names("apiVersion", "kind", "metadata")
	_ = scan.Members(body, func(name string, value []byte) error { // body was just encoded
		if name == "metadata" {
			_ = scan.Members(value, names("name", "namespace", "uid"))
		}
		return top(name, value)
	})
	return !sets
}

// failed notes that an apply was not answered.
func (by *ensuring) failed() {
	by.in.forget(by.id)
	by.in.mu.Lock()
	defer by.in.mu.Unlock()
	by.landed()
}

// landed counts an apply that has ended. The caller holds the lock.
func (by *ensuring) landed() {
	if by.in.flying[by.id]--; by.in.flying[by.id] == 0 {
		delete(by.in.flying, by.id)
	}
}

// done notes the server's answer o to an apply.
func (by *ensuring) done(c *Client, o object) {
	p := by.in
	p.mu.Lock()
	last := p.by[by.id]
	p.mu.Unlock()
	var err error
	last.uid = o.GetUID()
	if last.fields, err = c.appliedFields(o, last.manager, by.id.subresource()); err == nil && last.fields != nil {
		last.values, err = digest(last.fields, o)
	}
	// The server accepts some fields that it does not show, such as a Secret's
	// stringData. Others may change such a field unseen. An empty status gives the
	// manager no field, and neither does an object that has only a name. If a server
	// tells of no managedFields at all, that does not show an empty status.
	empty := last.fields == nil && (by.nothing || by.id.status && len(o.GetManagedFields()) > 0)
	known := err == nil && last.uid != "" && (empty || last.fields != nil && last.values.Whole) && p.selector.fits(o)
	owns := appliedSum(o.GetManagedFields(), last.manager, by.id.subresource())
	p.mu.Lock()
	defer p.mu.Unlock()
	by.landed()
	now := p.by[by.id]
	if now.by != by {
		return // another write came between
	}
	if known && by.alone && !slices.Contains(by.gone, last.uid) {
		last.by, last.sight = nil, now.sight
		p.by[by.id] = last.answered(sight{o.GetResourceVersion(), owns})
		return
	}
	delete(p.by, by.id) // the next Ensure applies it again
}

// applied notes a write of an object, other than by an Ensure, and the answer o to it.
// The table forgets a part if the field manager owns other fields since that write.
func (p *ensuredParts) applied(key Key, o object) {
	for _, id := range partsOf(key) {
		p.mu.Lock()
		last, known := p.by[id]
		p.mu.Unlock()
		if !known {
			continue
		}
		owns := appliedSum(o.GetManagedFields(), last.manager, id.subresource())
		if last.by != nil || owns != last.owns || o.GetUID() != last.uid {
			p.forget(id)
		}
	}
}

// forget drops the knowledge of parts.
func (p *ensuredParts) forget(ids ...part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.by, id)
	}
}

// gone drops the knowledge of an object that is gone, and reports whether the object was
// ensured.
func (p *ensuredParts) gone(key Key, uid types.UID) (was bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range partsOf(key) {
		last, ok := p.by[id]
		switch {
		case !ok:
		case last.by != nil:
			last.by.gone = append(last.by.gone, uid)
		case last.uid == uid:
			was = true
			delete(p.by, id)
		}
	}
	return was
}

// unchanged reports that an apply of the body wanted would change nothing in a part of an
// object. If so, it decodes the object. It returns false if it does not know.
func (t *table) unchanged(ctx context.Context, id part, wanted [sha256.Size]byte, into object) (bool, error) {
	if _, known := t.ensured.last(id, wanted); !known {
		return false, nil
	}
	e, _, live, err := t.get(ctx, id.key)
	if err != nil || live || e == nil {
		return false, err
	}
	last, known := t.ensured.last(id, wanted) // as of the entry, or later
	if !known || last.foreign() || !e.Is(last.uid) || !id.status && e.Deleting() {
		return false, nil
	}
	if e.Decode(t.handle.codec, into) != nil {
		return false, nil // an Apply will tell
	}
	if e == last.seen || last.fields == nil {
		return true, nil
	}
	if last.seen == nil || id.status || !t.handle.codec.SameSpec(e, last.seen) {
		if values, err := digest(last.fields, into); err != nil || values != last.values {
			return false, nil
		}
	}
	t.ensured.mu.Lock()
	defer t.ensured.mu.Unlock()
	if now, ok := t.ensured.by[id]; ok && now.by == nil && now.values == last.values && now.wanted == wanted {
		now.seen = e
		t.ensured.by[id] = now
	}
	return true, nil
}

// last returns the last apply to a part of an object. Known is false while an answer is
// on its way, or if the last apply had another body.
func (p *ensuredParts) last(id part, wanted [sha256.Size]byte) (last ensured, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known = p.by[id]
	return last, known && last.by == nil && last.wanted == wanted
}

// foreign reports that another process applies to a part of an object in the name of
// the field manager.
func (p *ensuredParts) foreign(id part) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.by[id]
	return known && last.by == nil && last.foreign()
}

// statusShown reports that the status of an object in the table equals the status in the
// body of an apply. If o has a uid, the object must have the same uid.
func (t *table) statusShown(ctx context.Context, key Key, body []byte, o object) (bool, error) {
	e, _, live, err := t.get(ctx, key)
	if err != nil || live || e == nil || o.GetUID() != "" && !e.Is(o.GetUID()) || !t.handle.codec.HasStatus(e) {
		return false, err
	}
	is := t.handle.newObject()
	if e.Decode(t.handle.codec, is) != nil {
		return false, nil //nolint:nilerr // an apply will tell
	}
	is.SetUID(o.GetUID())
	encoder, err := t.handle.client.encoder(t.handle.goType)
	if err != nil {
		return false, err
	}
	options := intent.Options{APIVersion: t.handle.codec.APIVersion(), Kind: t.handle.kind.Kind, Part: intent.Status}
	shown, err := encoder.Object(nil, is, options)
	return err == nil && bytes.Equal(shown, body), err
}

// appliedFields returns the fields that a manager owns because it applied them to an
// object or its subresource. It returns nil if the manager owns none.
func (c *Client) appliedFields(o object, manager, subresource string) (*owned.Fields, error) {
	for _, m := range o.GetManagedFields() {
		if isApplied(&m, manager, subresource) {
			return c.ownedFields(m.FieldsV1.GetRawBytes(), o)
		}
	}
	return nil, nil
}

func digest(fields *owned.Fields, o object) (owned.Digest, error) {
	raw, err := encodeJSON(o)
	if err != nil {
		return owned.Digest{}, err
	}
	return fields.Of(raw)
}

// maxOwnedSets bounds how many sets of fields a client keeps. Objects that are reconciled
// alike have children with the same set.
const maxOwnedSets = 1024

// ownedFields returns a set of an object's fields. The client keeps one copy of it for
// all objects that have this set.
func (c *Client) ownedFields(raw []byte, o object) (*owned.Fields, error) {
	// In the set, a uid stands for each owner reference. With the reference's index in
	// place of the uid, the sets of like objects are the same. A change of the index
	// counts as a change.
	for i, owner := range o.GetOwnerReferences() {
		raw = bytes.Replace(raw, fmt.Appendf(nil, `"k:{\"uid\":\"%s\"}"`, owner.UID), fmt.Appendf(nil, `"i:%d"`, i), 1)
	}
	c.owned.Lock()
	defer c.owned.Unlock()
	if f, ok := c.owned.sets[string(raw)]; ok {
		return f, nil
	}
	f, err := owned.Parse(raw)
	if err != nil {
		return nil, err
	}
	if c.owned.sets == nil || len(c.owned.sets) >= maxOwnedSets {
		c.owned.sets = make(map[string]*owned.Fields)
	}
	c.owned.sets[string(raw)] = f
	return f, nil
}
