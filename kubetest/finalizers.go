package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// discoveryType has the kinds of all groups in one answer (KEP-3352).
	discoveryType = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"
	metadataType  = "application/json;v=v1;g=meta.k8s.io;as=PartialObjectMetadataList"
	mergePatch    = "application/merge-patch+json"
)

// groups is the part of an APIGroupDiscoveryList that is needed here.
type groups struct {
	Items []struct {
		Metadata struct{ Name string }
		Versions []struct {
			Version   string
			Freshness string
			Resources []struct {
				Resource string
				Scope    string
				Verbs    []string
			}
		}
	}
}

// builtIn are the groups of Kubernetes itself that have namespaced kinds.
var builtIn = map[string]bool{
	"apps": true, "autoscaling": true, "batch": true, "policy": true, "authorization.k8s.io": true,
	"coordination.k8s.io": true, "discovery.k8s.io": true, "events.k8s.io": true, "networking.k8s.io": true,
	"rbac.authorization.k8s.io": true, "resource.k8s.io": true, "storage.k8s.io": true,
}

// removeFinalizers removes the finalizers of all custom resources in a namespace.
func (s *server) removeFinalizers(ctx context.Context, namespace string) error {
	var all groups
	if err := s.get(ctx, "/apis", discoveryType, &all); err != nil {
		return fmt.Errorf("list kinds: %w", err)
	}
	var failed []error
	for _, g := range all.Items {
		if builtIn[g.Metadata.Name] {
			continue
		}
		seen := make(map[string]bool) // a kind may have several versions
		for _, v := range g.Versions {
			if v.Freshness != "Current" { // of an aggregated API server that does not answer
				continue
			}
			for _, r := range v.Resources {
				if seen[r.Resource] || r.Scope != "Namespaced" || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "patch") {
					continue
				}
				seen[r.Resource] = true
				path := "/apis/" + g.Metadata.Name + "/" + v.Version + "/namespaces/" + namespace + "/" + r.Resource
				failed = append(failed, s.removeFinalizersOf(ctx, path))
			}
		}
	}
	return errors.Join(failed...)
}

// removeFinalizersOf removes the finalizers of all objects of a kind in a namespace.
func (s *server) removeFinalizersOf(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var objects struct {
		Items []struct {
			Metadata struct {
				Name       string
				Finalizers []string
			}
		}
	}
	if err := s.get(ctx, path, metadataType, &objects); err != nil {
		if isNotFound(err) {
			return nil // the definition was deleted
		}
		return fmt.Errorf("list %s: %w", path, err)
	}
	var failed []error
	for _, o := range objects.Items {
		if len(o.Metadata.Finalizers) == 0 {
			continue
		}
		none := map[string]any{"metadata": map[string]any{"finalizers": nil}}
		err := s.send(ctx, http.MethodPatch, path+"/"+o.Metadata.Name, mergePatch, none)
		if err != nil && !isNotFound(err) {
			failed = append(failed, fmt.Errorf("remove the finalizers of %s/%s: %w", path, o.Metadata.Name, err))
		}
	}
	return errors.Join(failed...)
}
