package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// SetOwner adds an owner reference to the child, which names owner, so that the garbage
// collector deletes the child after the owner. If the child has no namespace and its kind
// is namespaced, SetOwner sets the child's namespace to the owner's. Its counterpart is
// SetOwnerReference of controller-runtime's controllerutil.
//
// An owner in another namespace is an error, as is a namespaced owner of a cluster-scoped
// child: the garbage collector would delete the child. An owner that was not read from
// the server has no uid, and is an error too. So is an owner in another cluster, for the
// garbage collector of the child's cluster knows no such owner and deletes the child.
func SetOwner[O, C any](owners Handle[O], owner *O, children Handle[C], child *C) error {
	return setOwner(owners.base(), asObject(owner), children.base(), asObject(child), false)
}

// SetController is [SetOwner] with the owner as the one controller of the child. It
// returns an error if the child has another controller. Its counterpart is
// SetControllerReference of controller-runtime's controllerutil.
func SetController[O, C any](owners Handle[O], owner *O, children Handle[C], child *C) error {
	return setOwner(owners.base(), asObject(owner), children.base(), asObject(child), true)
}

func setOwner(owners *handle, owner object, children *handle, child object, controller bool) error {
	fail := func(format string, args ...any) error {
		return &Error{
			Verb: "set owner of", Kind: children.kindName(), Namespace: child.GetNamespace(), Name: child.GetName(),
			Err: fmt.Errorf(format, args...),
		}
	}
	switch {
	case reflect.ValueOf(owner).IsNil(), reflect.ValueOf(child).IsNil():
		return &Error{Verb: "set owner of", Kind: children.kindName(), Err: errNoObject}
	case owners.err != nil:
		return fail("%w", owners.err)
	case children.err != nil:
		return fail("%w", children.err)
	case !owners.client.SameCluster(children.client):
		return fail("%s %s is in another cluster: the garbage collector would delete the object", owners.kind.Kind,
			KeyOf(owner))
	case owner.GetUID() == "":
		return fail("%s %s has no uid: only an object that was read from the server can be an owner", owners.kind.Kind,
			owner.GetName())
	case owner.GetNamespace() != "" && children.kind.Scope == ClusterScoped:
		return fail("%w: %s is cluster-scoped and cannot be owned by %s %s, which is in a namespace",
			ErrScope, children.kind.Kind, owners.kind.Kind, KeyOf(owner))
	case owner.GetNamespace() != "" && child.GetNamespace() == "":
		child.SetNamespace(owner.GetNamespace())
	case owner.GetNamespace() != "" && owner.GetNamespace() != child.GetNamespace():
		return fail("%w: %s %s cannot own an object in another namespace", ErrScope, owners.kind.Kind, KeyOf(owner))
	}
	ref := metav1.OwnerReference{
		APIVersion: owners.kind.GroupVersion().String(),
		Kind:       owners.kind.Kind,
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
	}
	if controller {
		yes := true
		ref.Controller, ref.BlockOwnerDeletion = &yes, &yes
	}
	refs := slices.Clone(child.GetOwnerReferences())
	mine := -1
	for i, r := range refs {
		switch {
		case r.UID == ref.UID:
			mine = i
		case controller && r.Controller != nil && *r.Controller:
			return fail("%s %s is already its controller", r.Kind, r.Name)
		}
	}
	switch {
	case mine < 0:
		refs = append(refs, ref)
	case controller:
		refs[mine] = ref
	default: // a controller is an owner too
		refs[mine].APIVersion, refs[mine].Name = ref.APIVersion, ref.Name
	}
	child.SetOwnerReferences(refs)
	return nil
}

// ErrTaken is wrapped by the error of [View.Ensure] if an object of that name exists
// already and belongs to somebody else.
var ErrTaken = errors.New("an object of this name already exists")

// takes returns the reason why an object that names its controller may not replace the
// object of its name. There are two reasons: that object has another controller; or it has
// no controller and lacks one of the labels that mark such a child. The server is asked if
// the labels of the table's handle may hide that object.
func (t *table) takes(ctx context.Context, key Key, o object) error {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return nil
	}
	e, at, err := t.get(ctx, key)
	if err == nil && e == nil && t.handle.selector.label != "" {
		e, err = t.hidden(ctx, at)
	}
	if err != nil || e == nil {
		return err
	}
	is := controllerOf(e)
	switch {
	case is != nil && is.UID == owner.UID:
		return nil
	case is != nil && is.GVK.Kind == owner.Kind && is.Name == owner.Name:
		return fmt.Errorf("%w: an earlier %s %s owns it, and it will be deleted after that owner", ErrTaken, is.GVK.Kind,
			is.Name)
	case is != nil:
		return fmt.Errorf("%w: %s %s owns it", ErrTaken, is.GVK.Kind, is.Name)
	}
	own := labels.Set(o.GetLabels())
	if len(own) > 0 && labels.SelectorFromSet(own).Matches(e.Labels()) {
		return nil
	}
	return fmt.Errorf("%w, and it has no controller: delete it, or add the labels %q to it so that it is taken over",
		ErrTaken, own)
}

// hidden returns the server's state of an object that the table does not have, or nil if
// the server does not have it either.
func (t *table) hidden(ctx context.Context, key Key) (*entry, error) {
	found, err := t.fetch(ctx, key)
	if err != nil {
		return nil, err
	}
	return found.entry, found.err
}

// controllerOf returns the owner reference of an object's controller, nil if it has none.
func controllerOf(e *entry) *wire.Owner {
	for o := range e.Owners() {
		if o.Controller {
			return &o
		}
	}
	return nil
}
