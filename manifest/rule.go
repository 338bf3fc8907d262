package manifest

import (
	"slices"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Rule is the right to do something with the objects of a kind.
type Rule struct {
	// Kind names the kind. Its plural may be left out if it is of k8s.io/api or
	// of one of the operator's definitions.
	Kind        kube.Kind
	Subresource string
	Verbs       []string
	// Names are the objects that it is about; empty: all. Creating cannot be
	// limited to names.
	Names []string
	// Namespaces are where; empty: everywhere.
	Namespaces []string

	err error // of the handle that it was made from
}

// Rules are several rights.
type Rules []Rule

// Named limits rights to objects of some names, but for creating, which cannot be.
// Lists and watches then need a handle that is narrowed to one of the names with
// Fielded("metadata.name=…").
func (r Rules) Named(names ...string) Rules {
	r = slices.Clone(r)
	for i := range r {
		r[i].Names = names
	}
	return r
}

// Gets is what Get needs.
func Gets(handles ...kube.AnyHandle) Rules { return may(handles, "", "get") }

// Lists is what List needs.
func Lists(handles ...kube.AnyHandle) Rules { return may(handles, "", "list") }

// Watches is what Watch, Until, a store and cached reads need.
func Watches(handles ...kube.AnyHandle) Rules { return may(handles, "", "list", "watch") }

// Creates is what Create needs.
func Creates(handles ...kube.AnyHandle) Rules { return may(handles, "", "create") }

// Updates is what Update needs.
func Updates(handles ...kube.AnyHandle) Rules { return may(handles, "", "update") }

// UpdatesStatus is what UpdateStatus needs.
func UpdatesStatus(handles ...kube.AnyHandle) Rules { return may(handles, "status", "update") }

// Applies is what Apply and Ensure need: they create what is not there.
func Applies(handles ...kube.AnyHandle) Rules { return may(handles, "", "create", "patch") }

// AppliesStatus is what ApplyStatus needs.
func AppliesStatus(handles ...kube.AnyHandle) Rules { return may(handles, "status", "patch") }

// Patches is what Patch needs.
func Patches(handles ...kube.AnyHandle) Rules { return may(handles, "", "patch") }

// Modifies is what Modify needs.
func Modifies(handles ...kube.AnyHandle) Rules { return may(handles, "", "get", "patch") }

// Deletes is what Delete needs.
func Deletes(handles ...kube.AnyHandle) Rules { return may(handles, "", "delete") }

// DeletesAll is what DeleteAll needs.
func DeletesAll(handles ...kube.AnyHandle) Rules { return may(handles, "", "deletecollection") }

// Uses is the right to verbs on a subresource, such as "create" on "eviction".
func Uses(handle kube.AnyHandle, subresource string, verbs ...string) Rules {
	return may([]kube.AnyHandle{handle}, subresource, verbs...)
}

// Blocks is what needs, in clusters that ask for it, who makes objects of the
// handles the controllers of others, as [kube.SetController] does.
func Blocks(owners ...kube.AnyHandle) Rules { return may(owners, "finalizers", "update") }

func may(handles []kube.AnyHandle, subresource string, verbs ...string) Rules {
	var rules Rules
	for _, h := range handles {
		rules = append(rules, Rule{
			Kind: h.Kind(), Subresource: subresource, Verbs: verbs, Namespaces: h.Namespaces(), err: h.Err(),
		})
	}
	return rules
}

// Events is what an event.Recorder needs for objects in some namespaces, or in
// all and for those that have none.
func Events(namespaces ...string) Rules {
	return Rules{{Kind: eventKind, Verbs: []string{"create", "patch"}, Namespaces: namespaces}}
}

var eventKind = builtin("events.k8s.io", "Event", "events")

// Authorizes is what the option Authorize of package controller needs, which has
// the server say who may see metrics.
func Authorizes() Rules {
	return Rules{
		{Kind: builtin("authentication.k8s.io", "TokenReview", "tokenreviews"), Verbs: []string{"create"}},
		{Kind: builtin("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"), Verbs: []string{"create"}},
	}
}

// Installs is what [crd.Install] needs, for an operator that installs its kinds
// itself.
func Installs(definitions ...*crd.Definition) Rules {
	var names []string
	for _, d := range definitions {
		names = append(names, d.Name)
	}
	kind := builtin("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
	return Rules{{Kind: kind, Verbs: []string{"get", "list", "watch", "create", "patch"}, Names: names}}
}

// elects is what a lease.Lease needs.
func elects(name, namespace string) Rules {
	kind := builtin("coordination.k8s.io", "Lease", "leases")
	return Rules{{Kind: kind, Verbs: []string{"get", "list", "watch", "create", "update"}, Names: []string{name}, Namespaces: []string{namespace}}}
}

func builtin(group, kind, plural string) kube.Kind {
	return kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: kind}, Plural: plural}
}
