package definitions

import "path"

// A reason explains differences. Its patterns are those of package path, and an empty one
// matches everything. The file is FILE/VERSION.
type reason struct {
	why              string
	file, path, what string
}

func (r reason) match(k kind, d difference) bool {
	for _, c := range [][2]string{{r.file, k.file + "/" + k.version()}, {r.path, d.path}, {r.what, d.what}} {
		if ok, err := path.Match(c[0], c[1]); c[0] != "" && (!ok || err != nil) {
			return false
		}
	}
	return true
}

// Features that crd.Of lacks.
const (
	ofNamed     = "lacking: crd.Of does not read the markers of Y in type X Y"
	schemaless  = "lacking: crd.Of takes +kubebuilder:validation:Schemaless for any value, without the field's other markers"
	recursive   = "lacking: crd.Of does not cut a type that contains itself at +kubebuilder:validation:Schemaless"
	sameColumns = "lacking: crd.Of refuses two columns of the same name, which the server accepts"
)

// Other reasons for a difference.
const (
	gatewayMarkers = "the Gateway API has a generator of its own, which reads further markers: gateway:experimental:…"
	edited         = "karpenter edits what controller-gen has made (hack/validation)"
	exactlyOne     = "the rule of ExactlyOneOf is written otherwise and means the same"
	smallIntegers  = "crd.Of gives the bounds of Go's uint16"
	noStatus       = "the type has no status, but a marker for its subresource"
	encodesItself  = "the type has a method MarshalJSON, so that its fields do not tell its JSON"
)

func reasons() []reason {
	const (
		gateway   = "gateway.networking.k8s.io_*"
		kubeadm1  = "*.cluster.x-k8s.io_kubeadm*/v1beta1"
		karpenter = "karpenter.sh_*/*"
		rules     = "x-kubernetes-validations"
	)
	return []reason{
		{ofNamed, gateway + "/*", "*.requestHeaderModifier.*.name", ""},
		{ofNamed, gateway + "/*", "*.responseHeaderModifier.*.name", ""},
		{ofNamed, gateway + "/*", "*.headers\\[\\].name", ""},
		{ofNamed, gateway + "/*", "*.queryParams\\[\\].name", ""},
		{ofNamed, gateway + "/*", "*.cors.*Headers\\[\\]", ""},
		{ofNamed, gateway + "/v1beta1", ".status", "default"},
		{ofNamed, "gateway.networking.k8s.io_backendtlspolicies.yaml/v1alpha3", "", ""},
		{ofNamed, gateway + "routes.yaml/v1alpha2", ".spec.rules\\[\\]", "required"},
		{ofNamed, gateway + "routes.yaml/v1alpha2", ".spec.rules\\[\\].*", ""},
		{ofNamed, karpenter, ".status.conditions\\[\\].*", ""},

		{gatewayMarkers, gateway + "/*", "*.value", "pattern"},
		{gatewayMarkers, gateway + "/*", "*.addresses\\[\\]", "oneOf"},
		{gatewayMarkers, gateway + "/*", ".spec.parentRefs", rules},
		{gatewayMarkers, gateway + "/*", ".spec.rules", rules},
		{gatewayMarkers, gateway + "/*", "*.filters\\[\\]", rules},
		{gatewayMarkers, gateway + "/*", "*.filters\\[\\].type", "enum"},
		{smallIntegers, gateway + "/*", "*.forwardBody.maxSize", ""},

		{noStatus, "addons.cluster.x-k8s.io_clusterresourcesetbindings.yaml/v1beta1", "", "subresources"},
		{recursive, "cluster.x-k8s.io_clusterclasses.yaml/*", "", "error"},
		{sameColumns, "cluster.x-k8s.io_machinedeployments.yaml/v1beta2", "", "error"},
		{sameColumns, "controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml/v1beta2", "", "error"},
		{encodesItself, kubeadm1, "", "error"},
		{exactlyOne, "*.cluster.x-k8s.io_kubeadm*/v1beta2", "*.partitions\\[\\]", rules},

		{schemaless, karpenter, "*.expireAfter", ""},
		{schemaless, karpenter, "*.consolidateAfter", ""},
		{edited, karpenter, "*.requirements\\[\\].*", ""},
		{edited, karpenter, "*aints\\[\\].*", ""},
		{edited, karpenter, "*.metadata.labels", ""},
		{edited, karpenter, "*.metadata.labels\\[\\*\\]", ""},
		{edited, karpenter, ".status.conditions\\[\\]", "required"},
	}
}
