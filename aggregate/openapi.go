package aggregate

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	v2 := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0",
		Info:    &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "unversioned"}},
		Paths:   &spec.Paths{Paths: map[string]spec.PathItem{}},
	}}
	for _, group := range all.groups() {
		for _, version := range all.versions(group) {
			var documents []*spec3.OpenAPI
			for _, r := range all.in(schema.GroupVersion{Group: group, Version: version}) {
				v3, err := r.openAPIV3(version)
				if err != nil {
					return err
				}
				documents = append(documents, v3)
				old, err := r.openAPIV2(version)
				if err != nil {
					return err
				}
				if v2, err = builder.MergeSpecs(v2, old); err != nil {
					return fmt.Errorf("merge schemas: %w", err)
				}
			}
			merged, err := builder.MergeSpecsV3(documents...)
			if err != nil {
				return fmt.Errorf("merge schemas: %w", err)
			}
			v3.UpdateGroupVersion("apis/"+group+"/"+version, merged)
		}
	}
	handler2.NewOpenAPIService(v2).RegisterOpenAPIVersionedService("/openapi/v2", mux)
	return nil
}

func (r *resource) openAPIV3(version string) (*spec3.OpenAPI, error) {
	document, err := builder.BuildOpenAPIV3(r.definition, version, builder.Options{IncludeSelectableFields: true})
	if err != nil {
		return nil, fmt.Errorf("make schema of %s: %w", r.definition.Name, err)
	}
	if r.source != nil {
		for _, path := range document.Paths.Paths {
			path.Put, path.Post, path.Patch, path.Delete = nil, nil, nil, nil
		}
	}
	return document, nil
}

func (r *resource) openAPIV2(version string) (*spec.Swagger, error) {
	document, err := builder.BuildOpenAPIV2(r.definition, version, builder.Options{V2: true, IncludeSelectableFields: true})
	if err != nil {
		return nil, fmt.Errorf("make schema of %s: %w", r.definition.Name, err)
	}
	// kube-apiserver merges the document with others, whose defaults are pruned as well.
	document.Definitions = handler2.PruneDefaults(document.Definitions)
	if r.source != nil {
		for name, path := range document.Paths.Paths {
			path.Put, path.Post, path.Patch, path.Delete = nil, nil, nil, nil
			document.Paths.Paths[name] = path
		}
	}
	return document, nil
}
