package aggregate

import (
	"cmp"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	genericapiserver "k8s.io/apiserver/pkg/server"
	handler2 "k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// describe makes the server publish the schemas of its kinds. kube-apiserver downloads
// them when their hash changes, and the hash is the same on all replicas, because nothing in
// the documents depends on order or time.
func describe(server *genericapiserver.GenericAPIServer, all kinds) error {
	mux := server.Handler.NonGoRestfulMux
	v3 := handler3.NewOpenAPIService()
	if err := v3.RegisterOpenAPIV3VersionedService("/openapi/v3", mux); err != nil {
		return fmt.Errorf("publish schemas: %w", err)
	}
	var olds []*spec.Swagger
	for _, version := range all.served() {
		var documents []*spec3.OpenAPI
		for _, r := range version.resources {
			document, old, err := r.openAPI(version.Version)
			if err != nil {
				return fmt.Errorf("make schema of %s: %w", r.definition.Name, err)
			}
			documents, olds = append(documents, document), append(olds, old)
		}
		merged, err := builder.MergeSpecsV3(documents...)
		if err != nil {
			return fmt.Errorf("merge schemas: %w", err)
		}
		v3.UpdateGroupVersion("apis/"+version.String(), merged)
	}
	v2, err := builder.MergeSpecs(olds[0], olds...)
	if err != nil {
		return fmt.Errorf("merge schemas: %w", err)
	}
	handler2.NewOpenAPIService(v2).RegisterOpenAPIVersionedService("/openapi/v2", mux)
	return nil
}

// openAPI returns the documents of the resource in both forms.
func (r *resource) openAPI(version string) (*spec3.OpenAPI, *spec.Swagger, error) {
	v3, err := builder.BuildOpenAPIV3(r.definition, version, builder.Options{IncludeSelectableFields: true})
	v2, oldErr := builder.BuildOpenAPIV2(r.definition, version, builder.Options{V2: true, IncludeSelectableFields: true})
	if err := cmp.Or(err, oldErr); err != nil {
		return nil, nil, err
	}
	// kube-apiserver merges the document with others, whose defaults are pruned as well.
	v2.Definitions = handler2.PruneDefaults(v2.Definitions)
	if r.source != nil {
		for _, path := range v3.Paths.Paths {
			path.Put, path.Post, path.Patch, path.Delete = nil, nil, nil, nil
		}
		for name, path := range v2.Paths.Paths {
			path.Put, path.Post, path.Patch, path.Delete = nil, nil, nil, nil
			v2.Paths.Paths[name] = path
		}
	}
	return v3, v2, nil
}
