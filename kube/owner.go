package kube

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetOwner adds a reference to owner to a child's owner references, so that the
// garbage collector deletes the child after the owner. The child's namespace is
// set to the owner's if it has none and its kind is namespaced.
//
// What the garbage collector would answer by deleting the child is an error: an
// owner in another namespace, and a namespaced owner of a cluster-scoped child.
// So is an owner that was not read from the server, which has no uid.
func SetOwner[O, C any](owners Handle[O], owner *O, children Handle[C], child *C) error {
	return setOwner(owners.base(), asObject(owner), children.base(), asObject(child), false)
}

// SetController is [SetOwner] with the owner as the one controller of the child.
// A child that another controller has is an error.
func SetController[O, C any](owners Handle[O], owner *O, children Handle[C], child *C) error {
	return setOwner(owners.base(), asObject(owner), children.base(), asObject(child), true)
}

func setOwner(owners handle, owner object, children handle, child object, controller bool) error {
	fail := func(format string, args ...any) error {
		return &Error{Verb: "set owner of", Kind: children.kindName(), Namespace: child.GetNamespace(), Name: child.GetName(), Err: fmt.Errorf(format, args...)}
	}
	switch {
	case reflect.ValueOf(owner).IsNil(), reflect.ValueOf(child).IsNil():
		return &Error{Verb: "set owner of", Kind: children.kindName(), Err: errNoObject}
	case owners.err != nil:
		return fail("%w", owners.err)
	case children.err != nil:
		return fail("%w", children.err)
	case owner.GetUID() == "":
		return fail("%s %s has no uid: only an object that was read can own", owners.kind.Kind, owner.GetName())
	case owner.GetNamespace() != "" && children.kind.Scope == ClusterScoped:
		return fail("%w: %s is cluster-scoped and cannot be owned by %s %s, which is in a namespace", ErrScope, children.kind.Kind, owners.kind.Kind, KeyOf(owner))
	case owner.GetNamespace() != "" && child.GetNamespace() == "":
		child.SetNamespace(owner.GetNamespace())
	case owner.GetNamespace() != "" && owner.GetNamespace() != child.GetNamespace():
		return fail("%w: %s %s cannot own across namespaces", ErrScope, owners.kind.Kind, KeyOf(owner))
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
			return fail("%s %s controls it already", r.Kind, r.Name)
		}
	}
	switch {
	case mine < 0:
		refs = append(refs, ref)
	case controller:
		refs[mine] = ref
	default: // a controller is an owner already
		refs[mine].APIVersion, refs[mine].Name = ref.APIVersion, ref.Name
	}
	child.SetOwnerReferences(refs)
	return nil
}
