package aggregate

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// discover makes the server tell which groups, versions, resources and verbs it has, in
// the old and in the aggregated form, and sends requests for objects to the handler.
func discover(server *genericapiserver.GenericAPIServer, all kinds, objects http.Handler) {
	mux := server.Handler.NonGoRestfulMux
	groups := map[string][]metav1.GroupVersionForDiscovery{}
	for _, v := range all.served() {
		var resources, listed []metav1.APIResource
		for _, r := range v.resources {
			for _, entry := range r.discovery(v.GroupVersion) {
				resources = append(resources, entry)
				if entry.Group == v.Group { // the old form leaves out what is that of the list
					entry.Group, entry.Version = "", ""
				}
				listed = append(listed, entry)
			}
		}
		lister := discovery.APIResourceListerFunc(func() []metav1.APIResource { return listed })
		mux.Handle("/apis/"+v.String(), discovery.NewAPIVersionHandler(apiserver.Codecs, v.GroupVersion, lister))
		aggregated, err := endpoints.ConvertGroupVersionIntoToDiscovery(resources)
		if err != nil {
			panic(err) // a subresource has the scope of its resource
		}
		server.AggregatedDiscoveryGroupManager.AddGroupVersion(v.Group, apidiscoveryv2.APIVersionDiscovery{
			Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: v.Version, Resources: aggregated,
		})
		known := metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version}
		groups[v.Group] = append(groups[v.Group], known)
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		found := metav1.APIGroup{Name: group, Versions: groups[group], PreferredVersion: groups[group][0]}
		server.DiscoveryGroupManager.AddGroup(found)
		mux.Handle("/apis/"+group, discovery.NewAPIGroupHandler(apiserver.Codecs, found))
		mux.HandlePrefix("/apis/"+group+"/", objects)
	}
}

// discovery returns the entries of the resource and its subresources in a version.
func (r *resource) discovery(in schema.GroupVersion) []metav1.APIResource {
	names, namespaced := r.definition.Spec.Names, r.definition.Spec.Scope == apiextensionsv1.NamespaceScoped
	entry := metav1.APIResource{
		Name: names.Plural, SingularName: names.Singular, Group: in.Group, Version: in.Version, Kind: names.Kind,
		Namespaced: namespaced, Verbs: r.verbs, ShortNames: names.ShortNames, Categories: names.Categories,
	}
	if r.source == nil {
		entry.StorageVersionHash = discovery.StorageVersionHash(r.kind.Group, r.kind.Version, r.kind.Kind)
	}
	all := []metav1.APIResource{entry}
	add := func(name string, kind schema.GroupVersionKind, verbs ...string) {
		all = append(all, metav1.APIResource{
			Name: names.Plural + "/" + name, Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
			Namespaced: namespaced, Verbs: verbs,
		})
	}
	if sub, err := apihelpers.GetSubresourcesForVersion(r.definition, in.Version); err == nil && sub != nil {
		if sub.Status != nil {
			add("status", in.WithKind(names.Kind), "get", "patch", "update")
		}
		if sub.Scale != nil {
			add("scale", autoscalingv1.SchemeGroupVersion.WithKind("Scale"), "get", "patch", "update")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.subresources)) {
		add(name, in.WithKind(names.Kind), r.subresources[name].Verb)
	}
	return all
}

// kinds are the kinds of a server, in the order of their names.
type kinds []*resource

// named returns the kind of a resource, or nil.
func (k kinds) named(of schema.GroupResource) *resource {
	i := slices.IndexFunc(k, func(r *resource) bool { return r.groupResource() == of })
	if i < 0 {
		return nil
	}
	return k[i]
}

// served is a version of a group with its kinds.
type served struct {
	schema.GroupVersion
	resources kinds
}

// served returns the versions that are served, the preferred one of a group first.
func (k kinds) served() (all []served) {
	in := map[schema.GroupVersion]kinds{}
	for _, r := range k {
		for _, v := range r.definition.Spec.Versions {
			if gv := (schema.GroupVersion{Group: r.kind.Group, Version: v.Name}); v.Served {
				in[gv] = append(in[gv], r)
			}
		}
	}
	for _, gv := range slices.SortedFunc(maps.Keys(in), func(a, b schema.GroupVersion) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	}) {
		all = append(all, served{gv, in[gv]})
	}
	return all
}
