package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube/internal/intent"
	"github.com/pintle-go/pintle/kube/internal/owned"
)

// Ensure is [View.Apply] for a reconcile, which applies the same again and again:
// it costs no request if a store of this client, of the same type and kind, shows
// that nothing would change. That is so if the last thing that this process
// applied to the object says the same, and every field that the field manager owns
// since has the value that it had then. It returns the object as the store has it.
//
// Whatever else there is in the object counts no more than for Apply: what others
// added stays. What they changed of the manager's fields, or took away, is put
// back. The first Ensure of an object in a process is always an Apply, as are those
// for which there is no store or whose intent sets what the server does not show,
// such as the stringData of a Secret, and dry runs.
//
// A child, which names its controller (see [SetController]), takes the place of no
// object of its name that the store shows to belong to another controller, nor of
// one without any, unless that has all the labels of the child: such a one was
// orphaned, or is meant to be taken over. The error wraps [ErrTaken].
//
// Caveat: a store learns of changes a moment later. A change by somebody else that
// the store has not seen yet is not put back by this call, but by the one that the
// change itself leads to where the kind is watched.
func (v View[T]) Ensure(ctx context.Context, o *T) (*T, error) {
	acc := asObject(o)
	if o == nil || acc.GetResourceVersion() != "" || len(acc.GetManagedFields()) > 0 || v.write.DryRun {
		return v.Apply(ctx, o)
	}
	req, err := v.applyRequest(ctx, acc, intent.Spec)
	if err != nil {
		return nil, err
	}
	key := Key{req.namespace, req.name}
	t := v.client.stores.covering(v.handle, key.Namespace)
	if t == nil {
		return v.sendApply(ctx, req, acc.GetUID())
	}
	wanted := sha256.Sum256(fmt.Appendf(req.body, "\n%s", req.query.Encode()))
	is := new(T)
	if same, err := t.unchanged(ctx, key, wanted, asObject(is)); err != nil {
		return nil, req.wrap(err)
	} else if same {
		return is, nil
	}
	if err := t.takes(ctx, key, acc); err != nil {
		return nil, req.wrap(err)
	}
	is, err = v.sendApply(ctx, req, acc.GetUID())
	if err == nil {
		t.ensure(key, wanted, req.query.Get("fieldManager"), asObject(is))
	}
	return is, err
}

// ensured is what a process last applied to an object of a table.
type ensured struct {
	uid    types.UID
	wanted [sha256.Size]byte // a digest of what was sent
	fields *owned.Fields     // what the field manager owns since
	values owned.Digest      // of these fields, as the server answered
	// seen is the entry that was last found to have these values.
	seen *entry
}

// covering returns a filled table of a handle's type whose objects are all there
// are in a namespace, up to its label selector, or nil.
func (s *stores) covering(h handle, namespace string) (found *table) {
	s.each(h.kind, namespace, func(t *table) {
		if t.handle.goType != h.goType || t.handle.kind.GVK != h.kind.GVK || t.handle.codec.view != h.codec.view || t.handle.selector.field != "" {
			return
		}
		select {
		case <-t.synced:
			found = t
		default:
		}
	})
	return found
}

// unchanged reports that by what is wanted nothing is to change in an object, and
// decodes it then. If that is not known it is false.
func (t *table) unchanged(ctx context.Context, key Key, wanted [sha256.Size]byte, into object) (bool, error) {
	t.mu.RLock()
	last, known := t.ensured[key]
	t.mu.RUnlock()
	if !known || last.wanted != wanted {
		return false, nil
	}
	e, _, live, err := t.get(ctx, key)
	if err != nil || live || e == nil || !e.is(last.uid) || e.metaField(fieldDeletionTimestamp) != nil {
		return false, err
	}
	if e.decode(t.handle.codec, into) != nil {
		return false, nil // an Apply will tell
	}
	if e == last.seen {
		return true, nil
	}
	if last.seen == nil || !t.handle.codec.sameSpec(e, last.seen) {
		if values, err := digest(last.fields, into); err != nil || values != last.values {
			return false, nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now, ok := t.ensured[key]; ok && now.values == last.values && now.wanted == wanted {
		now.seen = e
		t.ensured[key] = now
	}
	return true, nil
}

// ensure notes what was applied to an object, and how the server answered.
func (t *table) ensure(key Key, wanted [sha256.Size]byte, manager string, o object) {
	last := ensured{uid: o.GetUID(), wanted: wanted}
	var err error
	for _, m := range o.GetManagedFields() {
		if m.Manager == manager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" && m.FieldsV1 != nil {
			last.fields, err = t.handle.client.ownedFields(m.FieldsV1.GetRawBytes(), o)
		}
	}
	if last.fields != nil && err == nil {
		last.values, err = digest(last.fields, o)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// Fields that the server takes and does not show, such as a Secret's
	// stringData, may be changed unseen.
	if last.fields == nil || err != nil || last.uid == "" || !last.values.Whole {
		delete(t.ensured, key) // it is applied again the next time
		return
	}
	if t.ensured == nil {
		t.ensured = make(map[Key]ensured)
	}
	t.ensured[key] = last
}

func digest(fields *owned.Fields, o object) (owned.Digest, error) {
	raw, err := encodeJSON(o)
	if err != nil {
		return owned.Digest{}, err
	}
	return fields.Of(raw)
}

// maxOwnedSets bounds how many sets of fields a client keeps: the children of all
// objects that are reconciled alike have the same.
const maxOwnedSets = 1024

// ownedFields returns a set of an object's fields, which is kept once for all who
// have it.
func (c *Client) ownedFields(raw []byte, o object) (*owned.Fields, error) {
	// References to owners go by uid. By their place the sets of like objects are
	// the same; where the place changes, that is a change.
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
