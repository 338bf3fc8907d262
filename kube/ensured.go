package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/written"
	"github.com/pintle-go/pintle/kube/internal/intent"
	"github.com/pintle-go/pintle/kube/internal/owned"
	"github.com/pintle-go/pintle/kube/internal/scan"
	"github.com/pintle-go/pintle/kube/internal/wire"
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
	// values are those of these fields in the answer. They are empty for a status, whose
	// answer has only the metadata: seen has the values.
	values owned.Digest
	rv     string // resourceVersion in the answer; empty if it does not identify a state
	// owns is the hash of the manager's entry after the apply. Sight describes that entry
	// as the server last told the table of it.
	owns  uint64
	sight sight
	// seen is the last entry of the table that is the answer, or was found to have the same
	// values.
	seen *entry
	// by is set while the answer is on its way.
	by *ensuring
	// undone counts the applies of the same in a row that put back what others had changed.
	// It is nil if there is none.
	undone *written.Streak
}

// ensuredParts is a table's knowledge of the ensured parts of objects.
type ensuredParts struct {
	selector selector         // selector of the table; an object outside it is never shown, and not remembered
	entry    func(Key) *entry // finds an entry in the table's content
	mu       sync.Mutex
	by       map[part]ensured
	flying   map[part]int // the Ensures whose answers are on their way
}

// ensuring is an apply on its way. It is not remembered if another write of the part is
// on its way at the same time. It is not known which of these writes the server does
// last.
type ensuring struct {
	in     *ensuredParts
	id     part
	alone  bool
	before ensured // the last apply before this one, if it was answered
	// nothing is set if the body sets no field, so that the manager owns none.
	nothing bool
	// others is the change since the last apply, which was the same, if this one follows
	// because of that change.
	others Change
	// gone holds the uids of objects of this name that have gone since the apply began. The
	// answer may be about one of them.
	gone []types.UID
}

// digest identifies an apply by the content of its request, and by the field managers whose
// fields it takes over.
func (h *handle) digest(r *request) (sum [sha256.Size]byte) {
	d := sha256.New()
	d.Write(r.body)
	d.Write([]byte("\n" + r.query.Encode()))
	d.Write(h.appendTakeOver(nil))
	d.Sum(sum[:0])
	return sum
}

func (h *handle) appendTakeOver(dst []byte) []byte {
	for _, manager := range h.write.TakeOver {
		dst = append(append(dst, '\n'), url.QueryEscape(manager)...)
	}
	return dst
}

// begin notes that an apply to a part of an object is about to be sent.
// Others is what unchanged has returned.
func (p *ensuredParts) begin(id part, wanted [sha256.Size]byte, req *request, others Change) *ensuring {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by, p.flying = make(map[part]ensured), make(map[part]int)
	}
	by := &ensuring{in: p, id: id, alone: p.flying[id] == 0, nothing: setsNothing(req.body), others: others}
	p.flying[id]++
	next := ensured{manager: req.query.Get("fieldManager"), wanted: wanted, by: by}
	if last := p.by[id]; last.manager == next.manager {
		next.sight, by.before = last.sight, last
	}
	p.by[id] = next
	return by
}

// setsNothing reports that the body of an apply only names an object, and has at most an
// empty status.
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
		if name == "status" && isEmpty(value) {
			return nil
		}
		return top(name, value)
	})
	return !sets
}

// isEmpty reports that a JSON value is an object that holds empty objects at most.
func isEmpty(value []byte) bool {
	empty := len(value) > 0 && value[0] == '{'
	if !empty {
		return false
	}
	_ = scan.Members(value, func(_ string, v []byte) error { // value was just encoded
		empty = empty && isEmpty(v)
		return nil
	})
	return empty
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
	if last.undone = nil; by.others.is != nil {
		last.undone = by.before.undone
	}
	if by.restores(o) {
		streak, _, _ := by.again(time.Now())
		last.undone = &streak
	}
	last.uid, last.rv = o.GetUID(), o.GetResourceVersion()
	last.fields, err = c.appliedFields(o, last.manager, by.id.subresource())
	if err == nil && last.fields != nil && !by.id.status {
		last.values, err = digest(last.fields, o)
	}
	// An empty status gives the
	// manager no field, and neither does an object that has only a name. If a server
	// tells of no managedFields at all, that does not show an empty status.
	// If the body sets fields, a server that names another manager does not show theirs.
	empty := last.fields == nil && by.nothing && (!by.id.status || len(o.GetManagedFields()) > 0)
	known := err == nil && last.uid != "" && (empty || last.fields != nil) && p.selector.fits(o)
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
		last = last.answered(sight{last.rv, owns})
		if e := p.entry(by.id.key); e != nil && last.answers(e) {
			last.seen = e
		}
		p.by[by.id] = last
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
		entries := o.GetManagedFields()
		// If somebody has removed all entries, the manager has not applied other fields.
		others := len(entries) > 0 && appliedSum(entries, last.manager, id.subresource()) != last.owns
		if last.by != nil || others || o.GetUID() != last.uid {
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
// object. If so, it decodes the object. It returns false if it does not know. If it returns
// false because the object has changed since the same apply, others is that change.
func (t *table) unchanged(
	ctx context.Context, id part, wanted [sha256.Size]byte, into object,
) (same bool, others Change, err error) {
	if _, known := t.ensured.last(id, wanted); !known {
		return false, others, nil
	}
	e, _, err := t.get(ctx, id.key)
	if err != nil || e == nil {
		return false, others, context.Cause(ctx) // while ctx lasts, an Apply will tell
	}
	last, known := t.ensured.last(id, wanted) // as of the entry, or later
	if !known || !e.Is(last.uid) || !id.status && e.Deleting() {
		return false, others, nil
	}
	since := Change{Type: Modified, Key: id.key, of: &origin{handle: t.handle}, was: last.seen, is: e}
	if last.foreign() {
		return false, since, nil
	}
	if e.Decode(t.handle.codec, into) != nil {
		return false, others, nil //nolint:nilerr // an Apply will tell
	}
	if e == last.seen || last.fields == nil {
		return true, others, nil
	}
	if !t.hasValues(id, &last, e, into) {
		return false, since, nil
	}
	t.ensured.saw(id, last, e)
	return true, others, nil
}

// hasValues reports that an entry, which was decoded as o, has the values of the last apply
// to a part of the object. It returns false if it does not know: then an apply will tell.
func (t *table) hasValues(id part, last *ensured, e *entry, o object) bool {
	want := last.values
	switch {
	case !id.status && last.seen != nil && t.handle.codec.SameSpec(e, last.seen):
		return true
	case !id.status && !last.values.Whole:
		// The server accepts some fields that it does not show, such as a Secret's stringData and an
		// empty list. If anything else changes, such a field may have changed too.
		return false
	case id.status && last.seen == nil:
		return false
	case id.status:
		seen := t.handle.newObject()
		if last.seen.Decode(t.handle.codec, seen) != nil {
			return false
		}
		want, _ = digest(last.fields, seen) // o is encoded alike
	}
	values, err := digest(last.fields, o)
	return err == nil && values == want
}

// shows notes an entry that the table has in its content since a moment ago.
func (p *ensuredParts) shows(key Key, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range partsOf(key) {
		if last, known := p.by[id]; known && last.by == nil && last.seen == nil && last.answers(e) {
			last.seen = e
			p.by[id] = last
		}
	}
}

// answers reports that an entry has the state of the object in the answer.
func (e *ensured) answers(shown *entry) bool {
	return e.rv != "" && shown.Is(e.uid) && shown.ResourceVersion() == e.rv
}

// saw notes that an entry has the values of the last apply to a part of an object, unless
// there was another apply since.
func (p *ensuredParts) saw(id part, last ensured, e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, ok := p.by[id]; ok && now.by == nil &&
		now.values == last.values && now.wanted == last.wanted && now.rv == last.rv {
		now.seen = e
		p.by[id] = now
	}
}

// last returns the last apply to a part of an object. Known is false while an answer is
// on its way, or if the last apply had another body.
func (p *ensuredParts) last(id part, wanted [sha256.Size]byte) (last ensured, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known = p.by[id]
	return last, known && last.by == nil && last.wanted == wanted
}

// differs reports that the last apply to a part of an object had another body. As a rule
// the table shows that body then, and a look at the object is not worth its cost.
func (p *ensuredParts) differs(id part, wanted [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.by[id]
	return known && last.by == nil && last.wanted != wanted
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
// body of an apply, whose digest is wanted. If o has a uid, the object must have the same
// uid.
func (t *table) statusShown(
	ctx context.Context, id part, body []byte, wanted [sha256.Size]byte, o object,
) (bool, error) {
	e, _, err := t.get(ctx, id.key)
	if err != nil || e == nil || o.GetUID() != "" && !e.Is(o.GetUID()) || !t.handle.codec.HasStatus(e) {
		return false, context.Cause(ctx) // while ctx lasts, an apply will tell
	}
	last, known := t.ensured.last(id, wanted)
	if known && e == last.seen && e.Is(last.uid) {
		return true, nil // it was compared before
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
	shown, err := encoder.Object(nil, is, t.handle.intent(intent.Status))
	if err != nil || !bytes.Equal(shown, body) {
		return false, err
	}
	if known && e.Is(last.uid) {
		t.ensured.saw(id, last, e)
	}
	return true, nil
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
	raw, err := wire.EncodeJSON(o)
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
