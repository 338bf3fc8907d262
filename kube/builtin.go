package kube

import (
	"reflect"
	"strings"
)

// builtinGroups maps a directory of k8s.io/api to its API group. The name of the
// directory does not give the group: k8s.io/api/networking holds networking.k8s.io.
var builtinGroups = map[string]string{
	"admission":             "admission.k8s.io",
	"admissionregistration": "admissionregistration.k8s.io",
	"apidiscovery":          "apidiscovery.k8s.io",
	"apiserverinternal":     "internal.apiserver.k8s.io",
	"apps":                  "apps",
	"authentication":        "authentication.k8s.io",
	"authorization":         "authorization.k8s.io",
	"autoscaling":           "autoscaling",
	"batch":                 "batch",
	"certificates":          "certificates.k8s.io",
	"coordination":          "coordination.k8s.io",
	"core":                  "",
	"discovery":             "discovery.k8s.io",
	"events":                "events.k8s.io",
	"extensions":            "extensions",
	"flowcontrol":           "flowcontrol.apiserver.k8s.io",
	"imagepolicy":           "imagepolicy.k8s.io",
	"networking":            "networking.k8s.io",
	"node":                  "node.k8s.io",
	"policy":                "policy",
	"rbac":                  "rbac.authorization.k8s.io",
	"resource":              "resource.k8s.io",
	"scheduling":            "scheduling.k8s.io",
	"storage":               "storage.k8s.io",
	"storagemigration":      "storagemigration.k8s.io",
}

// builtinClusterScoped holds the kinds of k8s.io/api that have no namespace.
// Kind names are unique across its groups, so the name alone decides.
var builtinClusterScoped = set(
	"APIGroupDiscovery", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle", "ComponentStatus",
	"CSIDriver", "CSINode", "CertificateSigningRequest", "DeviceClass", "DeviceTaintRule", "FlowSchema",
	"IPAddress", "ImageReview", "IngressClass", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	"MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PriorityClass",
	"PriorityLevelConfiguration", "ResourcePoolStatusRequest", "ResourceSlice", "RuntimeClass",
	"SelfSubjectAccessReview", "SelfSubjectReview", "SelfSubjectRulesReview", "ServiceCIDR", "StorageClass",
	"StorageVersion", "StorageVersionMigration", "SubjectAccessReview", "TokenReview",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	"VolumeAttachment", "VolumeAttributesClass",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// builtinKind returns the identity of a type of k8s.io/api. It finds the type by the path
// of its package. A test compares all of these types with a server's discovery.
func builtinKind(t reflect.Type) (Kind, bool) {
	rest, ok := strings.CutPrefix(t.PkgPath(), "k8s.io/api/")
	if !ok {
		return Kind{}, false
	}
	dir, version, ok := strings.Cut(rest, "/")
	if !ok {
		return Kind{}, false
	}
	group, ok := builtinGroups[dir]
	if !ok {
		return Kind{}, false
	}
	scope := Namespaced
	if builtinClusterScoped[t.Name()] {
		scope = ClusterScoped
	}
	return Kind{
		GVK:    GVK{Group: group, Version: version, Kind: t.Name()},
		Plural: builtinPlural(t.Name()),
		Scope:  scope,
	}, true
}

// generatedType returns the type of k8s.io/api that has all fields of a kind. The kind is
// that of a handle of Go type t. The result is nil if there is no such type or if it is
// not known.
func generatedType(t reflect.Type, kind Kind) reflect.Type {
	if kind.whole != nil {
		t = kind.whole
	}
	if _, builtin := builtinKind(t); !builtin {
		return nil
	}
	return t
}

func builtinPlural(kind string) string {
	s := strings.ToLower(kind)
	switch {
	case kind == "Endpoints":
		return s
	case strings.HasSuffix(s, "ss"), strings.HasSuffix(s, "status"):
		return s + "es"
	case strings.HasSuffix(s, "y"):
		return strings.TrimSuffix(s, "y") + "ies"
	}
	return s + "s"
}
