package aggregate

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// the creation of an object old is nil. The error of a mistake has the text that the
	// functions of package field make of it.
	Validate func(ctx context.Context, object, old *T) field.ErrorList
	// Subresources are further subresources, beside status and scale.
	Subresources []Subresource[T]
}

// Subresource is something that clients do with an object, or read of it, beyond the
// object itself: "restart" acts at once, "log" streams. The URL is that of the object,
// followed by a slash and Name.
type Subresource[T any] struct {
	Name string
	// Verb is the verb of the right that a client needs: "create" for POST, which is the
	// default, or "get", "update", "patch" or "delete".
	Verb string
	// Stream exempts requests from the time limit of a minute.
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
		r.validate = func(ctx context.Context, u, was *unstructured.Unstructured) (field.ErrorList, error) {
			object, err := decode[T](u)
			if err != nil {
				return nil, err
			}
			old, err := decode[T](was)
			if err != nil {
				return nil, err
			}
			return s.Validate(ctx, object, old), nil
		}
	}
	return r, addSubresources(r, s.Subresources)
}

// addSubresources adds the program's own subresources to a resource.
func addSubresources[T any](r *resource, all []Subresource[T]) error {
	r.subresources = map[string]subresource{}
	for _, s := range all {
		switch {
		case s.Name == "" || s.Name == "status" || s.Name == "scale":
			return fmt.Errorf("definition %s: a subresource cannot be called %q", r.definition.Name, s.Name)
		case s.Serve == nil:
			return fmt.Errorf("definition %s: Serve of subresource %s is missing", r.definition.Name, s.Name)
		}
		own := subresource{verb: s.Verb, stream: s.Stream}
		if own.verb == "" {
			own.verb = "create"
		}
		own.serve = func(w http.ResponseWriter, req *http.Request, u *unstructured.Unstructured) error {
			object, err := decode[T](u)
			if err != nil {
				return err
			}
			return s.Serve(w, req, object)
		}
		r.subresources[s.Name] = own
	}
	return nil
}
