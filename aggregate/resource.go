package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Any is a [Stored] or a [Projection] of any types.
type Any interface {
	resource(s Server) (*resource, error)
}

// resource has the parts of a kind that is served.
type resource struct {
	definition *apiextensionsv1.CustomResourceDefinition
	kind       schema.GroupVersionKind // in the version that is stored
	verbs      metav1.Verbs
	// of is the kind of a Projection's sources.
	of kube.Kind
	// source holds the objects of a Projection. It is nil if the objects are stored.
	source storage.Interface
	// subresources are the program's own, by name.
	subresources map[string]Subresource[unstructured.Unstructured]

	defaults func(context.Context, *unstructured.Unstructured) error
	validate func(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList

	objects *customresource.REST // the storage, once the handler is made
}

// newResource makes a resource from the definition of its kind. The definition is
// checked as kube-apiserver checks one that is installed, with the cost of CEL rules.
func newResource(d *crd.Definition) (*resource, error) {
	if d == nil {
		return nil, errors.New("the definition of a kind is missing: make it with crd.Of")
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	wanted := *d
	wanted.SetGroupVersionKind(d.GVK())
	wanted.Status = crd.Status{}
	data, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("encode definition %s: %w", d.Name, err)
	}
	full, internal := new(apiextensionsv1.CustomResourceDefinition), new(apiextensions.CustomResourceDefinition)
	decoder := apiserver.Codecs.UniversalDecoder(apiextensionsv1.SchemeGroupVersion)
	err = cmp.Or(runtime.DecodeInto(decoder, data, full), apiserver.Scheme.Convert(full, internal, nil))
	if err != nil {
		return nil, fmt.Errorf("read definition %s: %w", d.Name, err)
	}
	if full.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		return nil, fmt.Errorf("definition %s: an aggregated API server calls no conversion webhook", d.Name)
	}
	if wrong := validation.ValidateCustomResourceDefinition(context.Background(), internal); len(wrong) > 0 {
		return nil, fmt.Errorf("definition %s: %w", d.Name, wrong.ToAggregate())
	}
	version, err := apihelpers.GetCRDStorageVersion(full)
	if err != nil {
		return nil, err
	}
	full.UID = types.UID(full.Name) // the handler tells definitions apart by it
	full.Status.AcceptedNames = full.Spec.Names
	full.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		// The handler delays the first objects of a definition that is seconds old.
		LastTransitionTime: metav1.Unix(1, 0),
	}}
	return &resource{
		definition: full,
		kind:       schema.GroupVersionKind{Group: full.Spec.Group, Version: version, Kind: full.Spec.Names.Kind},
		// In the order in which kube-apiserver has those of a custom resource.
		verbs: metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
	}, nil
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.definition.Spec.Group, Resource: r.definition.Spec.Names.Plural}
}

// streams reports whether the answer to a request may take for ever.
func (k kinds) streams(_ *http.Request, info *request.RequestInfo) bool {
	r := k.named(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource})
	return info.Verb == "watch" || r != nil && r.subresources[info.Subresource].Stream
}

// handler serves the objects of all kinds. The handler of kube-apiserver for custom
// resources does the work. It believes that the definitions are installed.
type handler struct {
	kinds   kinds
	customs http.Handler
	limit   int64 // of the body of a request for a subresource of the program's own, in bytes
}

func newHandler(all kinds, back *backend, c *genericapiserver.Config) (*handler, error) {
	// The informer never runs: it has all definitions from the start.
	installed := externalversions.NewSharedInformerFactory(nil, 0).Apiextensions().V1().CustomResourceDefinitions()
	for _, r := range all {
		if err := installed.Informer().GetIndexer().Add(r.definition); err != nil {
			return nil, fmt.Errorf("serve %s: %w", r.definition.Name, err)
		}
	}
	customs, err := apiserver.NewCustomResourceDefinitionHandler(nil, nil, installed, http.NotFoundHandler(), back,
		c.AdmissionControl, nil, nil, nil, 1, c.Authorization.Authorizer, c.RequestTimeout,
		time.Duration(c.MinRequestTimeout)*time.Second, map[string]*spec.Schema{}, c.MaxRequestBodyBytes)
	if err != nil {
		return nil, fmt.Errorf("make handler: %w", err)
	}
	for _, r := range all {
		// This opens the storage, which otherwise the first request would wait for.
		objects, err := customs.GetCustomResourceListerCollectionDeleter(r.definition)
		if err != nil {
			return nil, fmt.Errorf("serve %s: %w", r.definition.Name, err)
		}
		r.objects = objects.(*customresource.REST)
	}
	return &handler{kinds: all, customs: customs, limit: c.MaxRequestBodyBytes}, nil
}

// ready reports whether all kinds can be read.
func (h *handler) ready(*http.Request) error {
	for _, r := range h.kinds {
		if err := r.objects.ReadinessCheck(); err != nil {
			return fmt.Errorf("%s: %w", r.definition.Name, err)
		}
	}
	return nil
}

// ServeHTTP serves a request for objects. Before it, the request was authorized.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, _ := request.RequestInfoFrom(req.Context()) // the library's handlers have put it there
	r := h.kinds.named(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource})
	if r == nil {
		http.NotFound(w, req)
		return
	}
	own, isOwn := r.subresources[info.Subresource]
	allowed := r.verbs
	if isOwn {
		allowed = metav1.Verbs{own.Verb}
	}
	switch {
	case !slices.Contains(allowed, info.Verb):
		refuse(w, req, apierrors.NewMethodNotSupported(r.groupResource(), info.Verb))
	case isOwn:
		if err := h.act(w, req, info, r); err != nil {
			refuse(w, req, err)
		}
	default:
		h.customs.ServeHTTP(w, req)
	}
}

// act serves a subresource of the program's own.
func (h *handler) act(w http.ResponseWriter, req *http.Request, info *request.RequestInfo, r *resource) error {
	own := r.subresources[info.Subresource]
	switch {
	case !apihelpers.HasServedCRDVersion(r.definition, info.APIVersion):
		return apierrors.NewNotFound(r.groupResource(), info.Name)
	case req.URL.Query().Has("dryRun") && own.Verb != "get":
		return apierrors.NewBadRequest("the subresource " + info.Subresource + " of " + info.Resource + " has no dry run")
	case !own.Stream && req.ContentLength > h.limit:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", h.limit))
	}
	o, err := r.objects.Get(request.WithNamespace(req.Context(), info.Namespace), info.Name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	return own.Serve(w, req, o.(*unstructured.Unstructured))
}
