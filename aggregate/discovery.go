package aggregate

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
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
	for _, group := range all.groups() {
		var versions []metav1.GroupVersionForDiscovery
		for _, v := range all.versions(group) {
			gv := schema.GroupVersion{Group: group, Version: v}
			versions = append(versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
			var resources []metav1.APIResource
			for _, r := range all.in(gv) {
				resources = append(resources, r.discovery(v)...)
			}
			lister := discovery.APIResourceListerFunc(func() []metav1.APIResource { return resources })
			mux.Handle("/apis/"+gv.String(), discovery.NewAPIVersionHandler(apiserver.Codecs, gv, lister))

			aggregated, err := endpoints.ConvertGroupVersionIntoToDiscovery(complete(resources, gv))
			if err != nil {
				panic(err) // a subresource has the scope of its resource
			}
			server.AggregatedDiscoveryGroupManager.AddGroupVersion(group, apidiscoveryv2.APIVersionDiscovery{
				Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: v, Resources: aggregated,
			})
		}
		found := metav1.APIGroup{Name: group, Versions: versions, PreferredVersion: versions[0]}
		server.DiscoveryGroupManager.AddGroup(found)
		mux.Handle("/apis/"+group, discovery.NewAPIGroupHandler(apiserver.Codecs, found))
		mux.HandlePrefix("/apis/"+group+"/", objects)
	}
}

// discovery returns the entries of the resource and its subresources.
func (r *resource) discovery(version string) []metav1.APIResource {
	names, namespaced := r.definition.Spec.Names, r.definition.Spec.Scope == apiextensionsv1.NamespaceScoped
	entry := metav1.APIResource{
		Name: names.Plural, SingularName: names.Singular, Kind: names.Kind, Namespaced: namespaced,
		Verbs: r.verbs, ShortNames: names.ShortNames, Categories: names.Categories,
	}
	if r.source == nil {
		entry.StorageVersionHash = discovery.StorageVersionHash(r.definition.Spec.Group, r.storageVersion(), names.Kind)
	}
	all := []metav1.APIResource{entry}
	add := func(name, kind string, verbs ...string) *metav1.APIResource {
		all = append(all, metav1.APIResource{Name: names.Plural + "/" + name, Kind: kind, Namespaced: namespaced, Verbs: verbs})
		return &all[len(all)-1]
	}
	if sub := r.version(version).Subresources; sub != nil {
		if sub.Status != nil {
			add("status", names.Kind, "get", "patch", "update")
		}
		if sub.Scale != nil {
			scale := add("scale", "Scale", "get", "patch", "update")
			scale.Group, scale.Version = autoscalingv1.GroupName, "v1"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.subresources)) {
		add(name, names.Kind, r.subresources[name].verb)
	}
	return all
}

// complete fills in group and version, which the old form leaves out if they are those of
// the list.
func complete(resources []metav1.APIResource, gv schema.GroupVersion) []metav1.APIResource {
	full := slices.Clone(resources)
	for i := range full {
		if full[i].Version == "" {
			full[i].Group, full[i].Version = gv.Group, gv.Version
		}
	}
	return full
}

// kinds are the kinds of a server.
type kinds []*resource

// named returns the kind with a group and a plural name, or nil.
func (k kinds) named(group, plural string) *resource {
	for _, r := range k {
		if r.definition.Spec.Group == group && r.definition.Spec.Names.Plural == plural {
			return r
		}
	}
	return nil
}

// groups returns the names of all groups in order.
func (k kinds) groups() []string {
	var names []string
	for _, r := range k {
		names = append(names, r.definition.Spec.Group)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// versions returns the versions of a group that are served, the preferred one first.
func (k kinds) versions(group string) []string {
	var names []string
	for _, r := range k {
		for _, v := range r.definition.Spec.Versions {
			if r.definition.Spec.Group == group && v.Served {
				names = append(names, v.Name)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return slices.Compact(names)
}

// in returns the kinds that are served in a group and version, in the order of their names.
func (k kinds) in(gv schema.GroupVersion) []*resource {
	var in []*resource
	for _, r := range k {
		if v := r.version(gv.Version); r.definition.Spec.Group == gv.Group && v != nil && v.Served {
			in = append(in, r)
		}
	}
	slices.SortFunc(in, func(a, b *resource) int { return strings.Compare(a.definition.Name, b.definition.Name) })
	return in
}
