package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// GVK names a kind: group, version and kind. It is
// schema.GroupVersionKind of apimachinery.
type GVK = schema.GroupVersionKind

// Scope tells whether the objects of a kind live in namespaces. Its counterpart is
// meta.RESTScope of apimachinery.
type Scope string

const (
	Namespaced    Scope = "Namespaced"
	ClusterScoped Scope = "Cluster"
)

// Kind declares the identity of a Go type as an API object. Most types need no Kind: the
// types of k8s.io/api are known, and a program's own type names its kind with a method
//
//	func (Book) GVK() kube.GVK
//
// For the types of other API packages, declare a Kind once, as a package-level value, and
// give it to [For]:
//
//	var CertManager = kube.Kind{AddToScheme: certmanagerv1.AddToScheme}
//
//	certificates := kube.For[certmanagerv1.Certificate](client, CertManager)
//
// A Kind takes the place of registering a type in a runtime.Scheme. Its counterpart in
// kube-rs is ApiResource.
//
// Fields that are left out are looked up: group, version and kind in the type or in
// AddToScheme, plural and scope in the server's discovery.
type Kind struct {
	GVK
	// Plural is the resource's name in URLs.
	Plural string
	Scope  Scope
	// AddToScheme is the function that API packages export to list their types.
	AddToScheme func(*runtime.Scheme) error

	// whole is the Go type that has all fields of the kind, if that type is known. It
	// decodes the protobuf of a view's objects.
	whole reflect.Type
	// err is the reason why KindOf found no kind.
	err error
}

// KindOf returns the kind of Go type T, for a [ViewOf] some of its fields. T names its kind
// by a GVK method or as a type of k8s.io/api, or a declaration of T's API package finds it:
//
//	kube.ViewOf[certificateStatus](client, kube.KindOf[certmanagerv1.Certificate](CertManager))
//
// If T has no kind, the handle that gets the Kind returns the error. Its counterpart is
// GVKForObject of controller-runtime's apiutil.
func KindOf[T any, P embedsKubeObject[T]](of ...Kind) Kind {
	return one(of).whose(reflect.TypeFor[T]())
}

// whose returns the declaration of the kind for which Go type t has all fields.
func (k Kind) whose(t reflect.Type) Kind {
	kind, err := k.identify(t)
	if err != nil {
		return Kind{err: err}
	}
	kind.whole = t
	return kind
}

// Err returns the reason why [KindOf] could not find the kind, or nil.
func (k Kind) Err() error { return k.err }

// ErrKind is wrapped by the errors of handles whose type does not name its kind.
var ErrKind = errors.New("unknown kind")

// identify fills in group, version and kind of Go type t, unless they are declared. It
// looks at the type's GVK method, at the k8s.io/api table and at AddToScheme, in this
// order.
func (k Kind) identify(t reflect.Type) (Kind, error) {
	kind := k
	if kind.err != nil {
		return kind, kind.err
	}
	builtin, isBuiltin := builtinKind(t)
	namer, isNamer := reflect.New(t).Interface().(interface{ GVK() GVK })
	switch {
	case isBuiltin && !kind.Empty() && kind.GVK != builtin.GVK:
		return kind, fmt.Errorf("%w: %s is %s, and the given kind is %s", ErrKind, t, say(builtin.GVK), say(kind.GVK))
	case isBuiltin:
		kind.GVK = builtin.GVK
		kind.Plural, kind.Scope = cmp.Or(kind.Plural, builtin.Plural), cmp.Or(kind.Scope, builtin.Scope)
	case !kind.Empty():
	case isNamer:
		kind.GVK = namer.GVK()
	case t == reflect.TypeFor[metav1.PartialObjectMetadata]():
		return kind, fmt.Errorf("%w: PartialObjectMetadata needs a kind, as in "+
			"kube.ViewOf[metav1.PartialObjectMetadata](client, kube.KindOf[corev1.Pod]())", ErrKind)
	case kind.AddToScheme != nil:
		gvk, err := registered(t, kind.AddToScheme)
		if err != nil {
			return kind, err
		}
		kind.GVK = gvk
	default:
		return kind, fmt.Errorf("%w: Go type %s does not name its kind: give it a method `func (%s) GVK() kube.GVK`, "+
			"or declare it once with kube.Kind{AddToScheme: …} and give that to kube.For", ErrKind, t, t.Name())
	}
	return kind, check(t, kind)
}

// registered returns the one kind for which an API package registers Go type t. Packages
// that keep a former group or version alive register a type for several kinds: the
// declaration has to choose.
func registered(t reflect.Type, addToScheme func(*runtime.Scheme) error) (GVK, error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return GVK{}, fmt.Errorf("list kinds of %s: %w", t.PkgPath(), err)
	}
	var found []GVK
	for gvk, known := range scheme.AllKnownTypes() {
		if known == t && gvk.Version != runtime.APIVersionInternal {
			found = append(found, gvk)
		}
	}
	switch len(found) {
	case 0:
		return GVK{}, fmt.Errorf("%w: AddToScheme of the given kind does not register %s", ErrKind, t)
	case 1:
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, gvk := range found {
		names[i] = say(gvk)
	}
	slices.Sort(names)
	return GVK{}, fmt.Errorf("%w: AddToScheme of the given kind registers %s for %d kinds, %s: "+
		"set the GVK of the kube.Kind to one of them", ErrKind, t, len(names), strings.Join(names, " and "))
}

// say names a kind for people, as manifests do: Deployment of apps/v1.
func say(gvk GVK) string { return fmt.Sprintf("%s of %s", gvk.Kind, gvk.GroupVersion()) }

// check returns an error for a kind that no server can serve. Its names become parts of
// URLs.
func check(t reflect.Type, kind Kind) error {
	switch {
	case kind.Version == "":
		return fmt.Errorf("%w: the GVK of %s has no version", ErrKind, t)
	case kind.Kind == "":
		return fmt.Errorf("%w: the GVK of %s has no kind", ErrKind, t)
	case kind.Group != "" && validation.IsDNS1123Subdomain(kind.Group) != nil:
		return fmt.Errorf("%w: the group of %s cannot be %q: it is a name such as example.com", ErrKind, t, kind.Group)
	case validation.IsDNS1035Label(kind.Version) != nil:
		return fmt.Errorf("%w: the version of %s cannot be %q: it is a name such as v1", ErrKind, t, kind.Version)
	case validation.IsDNS1035Label(strings.ToLower(kind.Kind)) != nil:
		return fmt.Errorf("%w: the kind of %s cannot be %q: it is a name such as Book", ErrKind, t, kind.Kind)
	case kind.Plural != "" && !validPlural(kind.Plural):
		return fmt.Errorf("%w: the plural of %s cannot be %q: it is the resource's name in URLs, such as books",
			ErrKind, t, kind.Plural)
	case kind.Scope != "" && kind.Scope != Namespaced && kind.Scope != ClusterScoped:
		return fmt.Errorf("%w: scope %q of %s is neither %s nor %s", ErrKind, kind.Scope, t, Namespaced, ClusterScoped)
	}
	return nil
}

// validPlural reports that a resource may have a name. Definitions allow only the names of
// hosts. Aggregated API servers may also have underscores and dots in them.
func validPlural(name string) bool {
	return validation.IsDNS1123Subdomain(strings.ReplaceAll(name, "_", "-")) == nil
}

// groupResource names the resource without its version, as the server's messages do:
// deployments.apps.
func (k Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// path returns a URL path of the kind: of the objects in a namespace ("" for all or
// none), of the object called name, or of that object's subresource.
func (k Kind) path(namespace, name, subresource string) string {
	p := groupVersionPath(k.GroupVersion())
	if namespace != "" && k.Scope == Namespaced {
		p += "/namespaces/" + url.PathEscape(namespace)
	}
	p += "/" + k.Plural
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	if subresource != "" {
		p += "/" + subresource
	}
	return p
}

func groupVersionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}
