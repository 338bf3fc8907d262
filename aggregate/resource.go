package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
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
	verbs      metav1.Verbs
	// of is the kind of a Projection's sources.
	of kube.Kind
	// source holds the objects of a Projection. It is nil if the objects are stored.
	source       storage.Interface
	subresources map[string]subresource

	defaults func(context.Context, *unstructured.Unstructured) error
	validate func(ctx context.Context, object, old *unstructured.Unstructured) (field.ErrorList, error)

	objects rest.Getter // the storage, once the handler is made
}

// subresource is a subresource of the program's own.
type subresource struct {
	verb   string
	stream bool
	serve  func(http.ResponseWriter, *http.Request, *unstructured.Unstructured) error
}

// newResource makes a resource from the definition of its kind. The definition is
// checked as kube-apiserver checks one that is installed, with the cost of CEL rules.
func newResource(d *crd.Definition) (*resource, error) {
	if d == nil {
		return nil, errors.New("the definition of a kind is missing: make it with crd.Of")
	}
	data, err := d.JSON()
	if err != nil {
		return nil, err
	}
	full := new(apiextensionsv1.CustomResourceDefinition)
	if err := json.Unmarshal(data, full); err != nil {
		return nil, fmt.Errorf("read definition %s: %w", d.Name, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(full)
	if full.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		return nil, fmt.Errorf("definition %s: an aggregated API server calls no conversion webhook", d.Name)
	}
	internal := new(apiextensions.CustomResourceDefinition)
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(full, internal, nil); err != nil {
		return nil, fmt.Errorf("read definition %s: %w", d.Name, err)
	}
	if wrong := validation.ValidateCustomResourceDefinition(context.Background(), internal); len(wrong) > 0 {
		return nil, fmt.Errorf("definition %s: %w", d.Name, wrong.ToAggregate())
	}
	full.UID = types.UID(full.Name) // the handler tells definitions apart by it
	full.Status.AcceptedNames = full.Spec.Names
	for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.Established, apiextensionsv1.NamesAccepted} {
		full.Status.Conditions = append(full.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: condition, Status: apiextensionsv1.ConditionTrue,
			// The handler delays the first objects of a definition that is seconds old.
			LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	return &resource{
		definition: full,
		verbs:      metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
	}, nil
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.definition.Spec.Group, Resource: r.definition.Spec.Names.Plural}
}

// version returns the version with a name, or nil.
func (r *resource) version(name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range r.definition.Spec.Versions {
		if r.definition.Spec.Versions[i].Name == name {
			return &r.definition.Spec.Versions[i]
		}
	}
	return nil
}

func (r *resource) storageVersion() string {
	for _, v := range r.definition.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// streams returns the names of subresources whose answers may take for ever.
func (k kinds) streams() sets.String { //nolint:staticcheck // the library's function takes this type
	names := sets.NewString()
	for _, r := range k {
		for name, s := range r.subresources {
			if s.stream {
				names.Insert(name)
			}
		}
	}
	return names
}

// handler serves the objects of all kinds. The handler of kube-apiserver for custom
// resources does the work. It believes that the definitions are installed.
type handler struct {
	kinds   kinds
	customs http.Handler
}

func newHandler(all kinds, back *backend, c *genericapiserver.Config) (*handler, error) {
	// The informer never runs: it has all definitions from the start.
	installed := definitions{cache.NewSharedIndexInformer(&cache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, cache.Indexers{})}
	for _, r := range all {
		if err := installed.informer.GetIndexer().Add(r.definition); err != nil {
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
		r.objects = objects.(rest.Getter)
	}
	return &handler{kinds: all, customs: customs}, nil
}

// ready reports whether all kinds can be read.
func (h *handler) ready() error {
	for _, r := range h.kinds {
		if storage, ok := r.objects.(rest.StorageWithReadiness); ok {
			if err := storage.ReadinessCheck(); err != nil {
				return fmt.Errorf("%s: %w", r.definition.Name, err)
			}
		}
	}
	return nil
}

// ServeHTTP serves a request for objects. Before it, the request was authorized.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest {
		http.NotFound(w, req)
		return
	}
	r := h.kinds.named(info.APIGroup, info.Resource)
	if r == nil {
		http.NotFound(w, req)
		return
	}
	own, isOwn := r.subresources[info.Subresource]
	allowed := r.verbs
	if isOwn {
		allowed = metav1.Verbs{own.verb}
	}
	switch {
	case !slices.Contains(allowed, info.Verb):
		h.refuse(w, req, info, apierrors.NewMethodNotSupported(r.groupResource(), info.Verb))
	case isOwn:
		if err := h.act(w, req, info, r, own); err != nil {
			h.refuse(w, req, info, err)
		}
	default:
		h.customs.ServeHTTP(w, req)
	}
}

// act serves a subresource of the program's own.
func (h *handler) act(w http.ResponseWriter, req *http.Request, info *request.RequestInfo, r *resource, own subresource) error {
	if v := r.version(info.APIVersion); v == nil || !v.Served {
		return apierrors.NewNotFound(r.groupResource(), info.Name)
	}
	ctx := request.WithNamespace(req.Context(), info.Namespace)
	o, err := r.objects.Get(ctx, info.Name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	return own.serve(w, req, o.(*unstructured.Unstructured))
}

func (h *handler) refuse(w http.ResponseWriter, req *http.Request, info *request.RequestInfo, err error) {
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	responsewriters.ErrorNegotiated(err, apiserver.Codecs, gv, w, req)
}

// definitions is the informer of the installed definitions.
type definitions struct{ informer cache.SharedIndexInformer }

func (d definitions) Informer() cache.SharedIndexInformer { return d.informer }

func (d definitions) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(d.informer.GetIndexer())
}
