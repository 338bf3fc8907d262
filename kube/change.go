package kube

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/pintle-go/pintle/kube/internal/wire"
	"k8s.io/apimachinery/pkg/types"
)

// Change is a change of one object, or the mark Synced. An [Informer] yields changes, and
// the predicates of a controller look at them. A change of an object has two states,
// before and now. Its counterpart is controller-runtime's event.UpdateEvent with
// ObjectOld and ObjectNew; [Decode] returns these two.
//
// The methods describe the object as it is now or, if it was deleted, as it last was. The
// state before is the one that the loop was last shown, however many steps there were in
// between; [EveryStep] leaves out none. A Change keeps both states, encoded, for as
// long as the Change itself is kept.
type Change struct {
	// Type is Added, Modified, Deleted or Synced.
	Type WatchEventType
	Key  Key

	of *origin
	// was is the state of the object that the loop saw last. It is nil if the loop saw
	// none. In a Synced, was and is are both nil.
	was, is *entry
}

// NewChange returns the change of an object from was to is, as an [Informer] would yield it:
// Added if was is nil, Deleted if is is nil, else Modified. It is for tests of predicates,
// and needs no server. The kind is given as to [For] or [ViewOf]. Both states must have the
// same namespace, name and uid. NewChange keeps no pointer to them.
func NewChange[T any, P embedsKubeObject[T]](was, is *T, kind ...Kind) (Change, error) {
	h := newHandle(new(Client), reflect.TypeFor[T](), newObject[T], one(kind), !isUnstructured(reflect.TypeFor[T]()))
	if h.err != nil {
		return Change{}, &Error{Verb: "make a change of", Kind: h.kindName(), Err: h.err}
	}
	h.client, h.err = nil, errors.New("the change was made without a server")
	c, err := Change{Type: Modified, of: &origin{handle: h}}, errNoObject
	switch {
	case was != nil && is != nil:
		if c.was, err = h.record(asObject(was)); err == nil {
			c.is, err = h.record(asObject(is))
		}
		if err == nil && (KeyOf(asObject(was)) != KeyOf(asObject(is)) || c.was.UID() != c.is.UID()) {
			err = errors.New("the two states are of two objects")
		}
	case is != nil:
		c.Type = Added
		c.is, err = h.record(asObject(is))
	case was != nil:
		c.Type = Deleted
		c.was, err = h.record(asObject(was))
		c.is, is = c.was, was
	}
	if err != nil {
		return Change{}, &Error{Verb: "make a change of", Kind: h.kindName(), Err: err}
	}
	c.Key = KeyOf(asObject(is))
	return c, nil
}

// record returns the entry of an object, as a store keeps it.
func (h *handle) record(o object) (*entry, error) {
	o = shallow(o)
	o.GetObjectKind().SetGroupVersionKind(h.kind.GVK)
	raw, err := wire.EncodeJSON(o)
	if err != nil {
		return nil, err
	}
	rec, err := wire.NewRecorder(h.codec).Record(wire.Raw{Bytes: raw})
	if err != nil {
		return nil, err
	}
	return wire.NewEntry(rec), nil
}

// before returns the state before a Modified, and nil for other changes. A deletion
// counts as a change of the whole object.
func (c Change) before() *entry {
	if c.Type != Modified {
		return nil
	}
	return c.was
}

// Kind returns the name of the object's kind.
func (c Change) Kind() string {
	if c.of == nil {
		return ""
	}
	return c.of.kindName()
}

// UID returns the object's uid. A recreated object has another uid under the same name.
func (c Change) UID() types.UID {
	if c.is == nil {
		return ""
	}
	return c.is.UID()
}

// ResourceVersion returns the object's resourceVersion.
func (c Change) ResourceVersion() string {
	if c.is == nil {
		return ""
	}
	return c.is.ResourceVersion()
}

// NewGeneration reports that the object's generation differs from the one before. For
// most kinds that means that its spec has changed or its deletion has begun.
// NewGeneration is true for an object that was added or deleted. It is also true for
// every change of a kind that counts no generations, such as ConfigMap. Its counterparts
// are controller-runtime's predicate.GenerationChangedPredicate and kube-rs's
// predicates::generation.
func (c Change) NewGeneration() bool {
	before := c.before()
	if before == nil || c.is == nil {
		return true
	}
	is := c.is.Generation()
	return is == 0 || before.Generation() != is
}

// Deleting reports that the object is deleted, or that its deletion has begun and is held
// up by finalizers or a grace period.
func (c Change) Deleting() bool {
	return c.is != nil && (c.Type == Deleted || c.is.Deleting())
}

// DeletionBegan reports that this change began the deletion of the object, as far as the
// informer knows. It is true for an object that is added while it is deleted.
func (c Change) DeletionBegan() bool {
	before := c.before()
	return c.Deleting() && (before == nil || !before.Deleting())
}

// Owner has the content of an owner reference. Its counterpart is apimachinery's
// metav1.OwnerReference.
type Owner struct {
	GVK        GVK
	Name       string
	UID        types.UID
	Controller bool
}

// Owners yields the object's owners. First it yields the owners that the object has. Then
// it yields the owners that the object had before this change and has lost.
func (c Change) Owners() iter.Seq[Owner] {
	return func(yield func(Owner) bool) {
		var seen []types.UID
		for _, e := range []*entry{c.is, c.was} {
			if e == nil {
				continue
			}
			for o := range e.Owners() {
				if slices.Contains(seen, o.UID) {
					continue
				}
				seen = append(seen, o.UID)
				if !yield(Owner(o)) {
					return
				}
			}
		}
	}
}

// Then returns the sum of c and a later change of the same object. A recreated object is
// another object, although it has the same name. If the later change is of another
// object, Then returns the later change.
func (c Change) Then(later Change) Change {
	if c.is == nil || later.is == nil || c.UID() != later.UID() {
		return later
	}
	switch {
	case later.Type == Modified:
		later.Type, later.was = c.Type, c.was
	case c.was != nil:
		later.was = c.was
	}
	return later
}

// DecodeNow decodes the object of a change as it is now, or the last state of an object that was
// deleted. T must be the type of the informer's handle. It costs no more than half as much as
// [Decode]: if the store has indexes, the object was decoded for their functions, and one loop over
// the changes gets that very object. Its counterpart is ObjectNew of controller-runtime's
// event.UpdateEvent.
func DecodeNow[T any](c Change) (*T, error) {
	if err := c.fits(reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	o, err := c.decode(c.is)
	return typed[T](o), err
}

// Decode decodes the object of a change, before it and now. Was is the state that the
// loop was last shown. It is nil for an object that was added. Is is the state of the
// object now, or the last state of an object that was deleted. T must be the type of the
// informer's handle. Its counterparts are ObjectOld and ObjectNew of controller-runtime's
// event.UpdateEvent.
func Decode[T any](c Change) (was, is *T, err error) {
	if err := c.fits(reflect.TypeFor[T]()); err != nil {
		return nil, nil, err
	}
	w, err := c.decode(c.was)
	if err != nil {
		return typed[T](w), nil, err
	}
	o, err := c.decode(c.is)
	return typed[T](w), typed[T](o), err
}

// fits returns an error if the objects are not of a type.
func (c Change) fits(t reflect.Type) error {
	if c.of == nil || c.of.goType != t {
		return fmt.Errorf("decode %s: the type of its store is not %s", c.Kind(), t)
	}
	return nil
}

// decode decodes a state of the object, which may be nil.
func (c Change) decode(e *entry) (object, error) {
	if e == nil {
		return nil, nil
	}
	o, err := c.of.decode(e)
	if err != nil {
		err = &Error{Verb: "read", Kind: c.Kind(), Namespace: c.Key.Namespace, Name: c.Key.Name, Err: err}
	}
	return o, err
}
