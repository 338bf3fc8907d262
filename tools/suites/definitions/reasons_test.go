package definitions

import (
	"path"

	"github.com/pintle-go/pintle/internal/crddiff"
)

// A reason explains differences. Its patterns are those of package path, and an empty one
// matches everything. The file is FILE/VERSION.
type reason struct {
	why              string
	file, path, what string
}

func (r reason) match(k kind, d crddiff.Difference) bool {
	for _, c := range [][2]string{{r.file, k.file + "/" + k.version()}, {r.path, d.Path}, {r.what, d.What}} {
		if ok, err := path.Match(c[0], c[1]); c[0] != "" && (!ok || err != nil) {
			return false
		}
	}
	return true
}

// Reasons for a difference.
const (
	gatewayMarkers = "the Gateway API has a generator of its own, which reads further markers: gateway:experimental:…"
	edited         = "karpenter edits what controller-gen has made (hack/validation)"
	exactlyOne     = "the rule of ExactlyOneOf is written otherwise and means the same"
	otherVersion   = "the markers of the names are at another version of the kind"
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
		{gatewayMarkers, gateway + "/*", "*.value", "pattern"},
		{gatewayMarkers, gateway + "/*", "*.addresses\\[\\]", "oneOf"},
		{gatewayMarkers, gateway + "/*", ".spec.parentRefs", rules},
		{gatewayMarkers, gateway + "/*", ".spec.rules", rules},
		{gatewayMarkers, gateway + "/*", "*.filters\\[\\]", rules},
		{gatewayMarkers, gateway + "/*", "*.filters\\[\\].type", "enum"},
		{otherVersion, "gateway.networking.k8s.io_backendtlspolicies.yaml/v1alpha3", "", "names"},
		{smallIntegers, gateway + "/*", "*.forwardBody.maxSize", ""},

		{noStatus, "addons.cluster.x-k8s.io_clusterresourcesetbindings.yaml/v1beta1", "", "subresources"},
		{encodesItself, kubeadm1, "", "error"},
		{exactlyOne, "*.cluster.x-k8s.io_kubeadm*/v1beta2", "*.partitions\\[\\]", rules},

		{edited, karpenter, "*.requirements\\[\\].*", ""},
		{edited, karpenter, "*aints\\[\\].*", ""},
		{edited, karpenter, "*.metadata.labels", ""},
		{edited, karpenter, "*.metadata.labels\\[\\*\\]", ""},
		{edited, karpenter, ".status.conditions\\[\\]", "required"},
		{edited, karpenter, ".status.conditions\\[\\].reason", ""},
	}
}
