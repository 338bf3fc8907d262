package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// Keeps returns the rights that a plan of package plan needs for its children: to apply
// them, to look at them, and to delete them. For StatefulSets these include the rights to
// list PersistentVolumeClaims and to grow them. Pass the handles in the Owns of the
// controller. Add [Gets] for other kinds that the plan reads without a store, and [Lists]
// of pods if late workloads should say why their pods are not ready.
func Keeps(children ...kube.AnyHandle) Rules {
	rules := slices.Concat(Applies(children...), Gets(children...), Deletes(children...))
	for _, c := range children {
		if k := c.Kind(); k.Group == "apps" && k.Kind == "StatefulSet" {
			claims := kube.For[corev1.PersistentVolumeClaim](c.Client())
			if namespaces := c.Namespaces(); len(namespaces) > 0 {
				claims = claims.In(namespaces...)
			}
			rules = append(rules, may([]kube.AnyHandle{claims}, "", "list", "patch")...)
		}
	}
	return rules
}
