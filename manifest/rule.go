package manifest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/kube"
)

// rule is the right to use verbs on the objects of a kind.
type rule struct {
	// kind may lack the plural if it is in k8s.io/api or in one of the operator's
	// definitions.
	kind        kube.Kind
	subresource string
	verbs       []string
	names       []string // of objects; empty: all; it does not limit the right to create
	namespaces  []string // of the objects; empty: all

	own bool // namespaces is the operator's own one
	// once: an operator uses the right at most once for each object that it finds.
	once bool
	err  error // error of the handle from which the rule was made
}

// Rules is a list of rights. Functions such as [Applies] make them from handles. In
// controller-tools +kubebuilder:rbac markers declare them.
type Rules []rule

// Named limits rights to objects of some names. The right to create cannot be limited and
// stays as it is. Lists and watches then need a handle that is narrowed to one of the
// names with Fielded("metadata.name=…"). Named without a name, or with an empty one, is an
// error of the manifests: a setting that is empty by mistake must not widen the rights.
func (r Rules) Named(names ...string) Rules {
	r = slices.Clone(r)
	for i := range r {
		r[i].names = names
		if len(names) == 0 || slices.Contains(names, "") {
			r[i].err = errors.Join(r[i].err, fmt.Errorf(
				"limit rights to %s to the names %q: a name is empty", r[i].kind.GVK.Kind, names))
		}
	}
	return r
}

// Gets returns the right that Get needs.
func Gets(handles ...kube.AnyHandle) Rules { return may(handles, "", "get") }

// Lists returns the right that List needs.
func Lists(handles ...kube.AnyHandle) Rules { return may(handles, "", "list") }

// Watches returns the rights that Watch, Until, a store and cached reads need.
func Watches(handles ...kube.AnyHandle) Rules { return may(handles, "", "list", "watch") }

// Creates returns the right that Create needs.
func Creates(handles ...kube.AnyHandle) Rules { return may(handles, "", "create") }

// Updates returns the right that Update needs.
func Updates(handles ...kube.AnyHandle) Rules { return may(handles, "", "update") }

// Applies returns the rights that Apply and Ensure need. Both create an object that does
// not exist.
func Applies(handles ...kube.AnyHandle) Rules { return may(handles, "", "create", "patch") }

// AppliesStatus returns the right that Apply and Ensure of Status need. If a handle takes
// over fields (see [kube.WriteOptions.TakeOver]), it also returns the right to patch the
// objects: the server takes managed fields only there.
func AppliesStatus(handles ...kube.AnyHandle) Rules {
	rules := may(handles, "status", "patch")
	for _, h := range handles {
		if h.TakesOver() {
			over := Patches(h)
			over[0].once = true
			rules = append(rules, over...)
		}
	}
	return rules
}

// Patches returns the right that Patch needs.
func Patches(handles ...kube.AnyHandle) Rules { return may(handles, "", "patch") }

// Modifies returns the rights that Modify needs.
func Modifies(handles ...kube.AnyHandle) Rules { return may(handles, "", "get", "patch") }

// Deletes returns the right that Delete needs.
func Deletes(handles ...kube.AnyHandle) Rules { return may(handles, "", "delete") }

// Uses returns the right to verbs on a subresource, such as "create" on "eviction", or on
// the objects themselves for "".
func Uses(handle kube.AnyHandle, subresource string, verbs ...string) Rules {
	rules := may([]kube.AnyHandle{handle}, subresource, verbs...)
	if len(verbs) == 0 || slices.Contains(verbs, "") {
		rules[0].err = errors.Join(rules[0].err, fmt.Errorf(
			"grant the verbs %q on %s: a verb is empty", verbs, handle.Kind().GVK.Kind))
	}
	return rules
}

// blocks returns the right that [kube.SetController] needs: update on the owners'
// finalizers subresource. The owners are the objects of a handle.
func blocks(owners kube.AnyHandle) Rules { return Uses(owners, "finalizers", "update") }

func may(handles []kube.AnyHandle, subresource string, verbs ...string) Rules {
	var rules Rules
	for _, h := range handles {
		rules = append(rules, rule{
			kind: h.Kind(), subresource: subresource, verbs: verbs, namespaces: h.Namespaces(), err: h.Err(),
		})
	}
	return rules
}

// Events returns the rights that an event.Recorder needs for objects in some namespaces.
// Without namespaces it returns the rights for objects in all namespaces and for
// cluster-scoped objects.
func Events(namespaces ...string) Rules {
	r := rule{kind: eventKind, verbs: []string{"create", "patch"}, namespaces: namespaces}
	if slices.Contains(namespaces, "") {
		r.err = fmt.Errorf("grant the rights to events in the namespaces %q: a namespace is empty", namespaces)
	}
	return Rules{r}
}

var eventKind = builtin("events.k8s.io", "Event", "events")

// authorizes returns the rights that the option Authorize of package controller needs.
// With this option the API server decides which users may read metrics.
func authorizes() Rules {
	return Rules{
		{kind: builtin("authentication.k8s.io", "TokenReview", "tokenreviews"), verbs: []string{"create"}},
		{kind: builtin("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"), verbs: []string{"create"}},
	}
}

// Issues returns the rights that a [certificate.Issuer] needs. Without a Namespace the issuer
// works in that of the operator.
func Issues(i *certificate.Issuer) Rules {
	secret := kube.Kind{GVK: kube.GVK{Version: "v1", Kind: "Secret"}, Plural: "secrets"}
	rules := Rules{{
		kind: secret, verbs: []string{"get", "list", "watch", "create", "update"},
		names: []string{pki.SecretName(i.Secret, i.Service)}, namespaces: []string{i.Namespace}, own: i.Namespace == "",
	}}
	for _, t := range i.Targets {
		rules = append(rules, rule{kind: t.Kind(), verbs: []string{"list", "watch", "patch"}, names: []string{t.Name()}})
	}
	return rules
}

// elects returns the rights that a lease.Lease needs.
func elects(name, namespace string) Rules {
	kind := builtin("coordination.k8s.io", "Lease", "leases")
	return Rules{
		{
			kind: kind, verbs: []string{"get", "list", "watch", "create", "update"}, names: []string{name},
			namespaces: []string{namespace},
		},
	}
}

func builtin(group, kind, plural string) kube.Kind {
	return kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: kind}, Plural: plural}
}
