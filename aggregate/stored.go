package aggregate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pintle-go/pintle/crd"
)

// Stored is a kind whose objects the server stores. Its requests are handled as those of
// a kind with a CustomResourceDefinition.
type Stored[T any] struct {
	// Definition describes the kind. [crd.Of] makes it. It is not installed. If it
	// has several versions, of [crd.Join], an object is stored in the first of them.
	Definition *crd.Definition
	// Default sets fields that the client left out, beyond the defaults of the
	// definition. It is called for each write of an object as a whole.
	Default func(ctx context.Context, object *T) error
	// Validate returns the mistakes in an object, which already fits the definition. At
	// the creation of an object old is nil. It is also nil if T has changed since old was
	// stored, so that T cannot hold it. An object that T cannot hold is invalid, unless only its
	// metadata changes. The error of a mistake has the text that the functions of package field
	// make of it. The cluster's webhooks and policies see the object after that.
	Validate func(ctx context.Context, object, old *T) field.ErrorList
	// Subresources are further subresources, beside status and scale.
	Subresources []Subresource[T]
}

// Subresource is something that clients do with an object, or read of it, beyond the
// object itself: "restart" acts at once, "log" streams. The URL is that of the object,
// followed by a slash and Name.
//
// A client needs the right for the subresource. There is no admission: the cluster's webhooks, policies
// and quotas do not see the request, and neither does Validate. A request with the parameter dryRun is
// refused, unless the verb is "get".
type Subresource[T any] struct {
	Name string
	// Verb is the verb of the right that a client needs: "create" for POST, which is the
	// default, or "get", "update", "patch" or "delete".
	Verb string
	// Stream exempts requests from the time limit of a minute, and their bodies from the limit
	// of 3 MiB.
	Stream bool
	// Serve answers a request about an object, which exists. It returns an error only if it
	// has written nothing. An error of k8s.io/apimachinery/pkg/api/errors keeps its code.
	Serve func(w http.ResponseWriter, r *http.Request, object *T) error
}

func (s Stored[T]) resource(Server) (*resource, error) {
	r, err := newResource(s.Definition)
	if err != nil {
		return nil, err
	}
	if s.Default != nil {
		r.defaults = func(ctx context.Context, u *unstructured.Unstructured) error { return setDefaults(ctx, u, s.Default) }
	}
	if s.Validate != nil {
		r.validate = func(ctx context.Context, u, was *unstructured.Unstructured) field.ErrorList {
			old, oldErr := decode[T](was)
			object, err := decode[T](u)
			switch {
			case err != nil && oldErr != nil && sameButMetadata(u, was):
				return nil // it can lose its finalizers
			case err != nil:
				return field.ErrorList{field.Invalid(nil, s.Definition.Spec.Names.Kind, err.Error())}
			case oldErr != nil:
				old = nil
			}
			return s.Validate(ctx, object, old)
		}
	}
	return r, addSubresources(r, s.Subresources)
}

// sameButMetadata reports whether two objects differ at most in their metadata.
func sameButMetadata(a, b *unstructured.Unstructured) bool {
	fields := maps.Clone(a.Object)
	fields["metadata"] = b.Object["metadata"]
	return reflect.DeepEqual(fields, b.Object)
}

// addSubresources adds the program's own subresources to a resource.
func addSubresources[T any](r *resource, all []Subresource[T]) error {
	r.subresources = map[string]Subresource[unstructured.Unstructured]{}
	for _, s := range all {
		verb := cmp.Or(s.Verb, "create")
		switch {
		case s.Name == "status" || s.Name == "scale" || len(validation.IsDNS1123Label(s.Name)) > 0:
			return fmt.Errorf("definition %s: a subresource cannot be called %q", r.definition.Name, s.Name)
		case r.subresources[s.Name].Serve != nil:
			return fmt.Errorf("definition %s: subresource %s is declared twice", r.definition.Name, s.Name)
		case s.Serve == nil:
			return fmt.Errorf("definition %s: Serve of subresource %s is missing", r.definition.Name, s.Name)
		case !slices.Contains([]string{"create", "get", "update", "patch", "delete"}, verb):
			return fmt.Errorf("definition %s: subresource %s cannot have the verb %q", r.definition.Name, s.Name, s.Verb)
		}
		serve := func(w http.ResponseWriter, req *http.Request, u *unstructured.Unstructured) error {
			object, err := decode[T](u)
			if err != nil {
				return err
			}
			return s.Serve(w, req, object)
		}
		r.subresources[s.Name] = Subresource[unstructured.Unstructured]{Verb: verb, Stream: s.Stream, Serve: serve}
	}
	return nil
}
