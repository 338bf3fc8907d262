package plan

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

// storageClass is the part of a StorageClass that says when claims are bound.
type storageClass struct {
	kube.Object
	VolumeBindingMode string `json:"volumeBindingMode,omitempty"`
}

func (storageClass) GVK() kube.GVK {
	return kube.GVK{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}
}

// pendingClaim returns an object if it is a claim for a volume that is not bound yet.
func pendingClaim(o any) *corev1.PersistentVolumeClaim {
	c, ok := o.(*corev1.PersistentVolumeClaim)
	if ok && c != nil && c.Status.Phase == corev1.ClaimPending && c.Spec.StorageClassName != nil {
		return c
	}
	return nil
}

// bindsLater reports whether a claim waits only for the first pod that uses it, as its
// StorageClass says. That pod may be made by a node that needs the claim. If the operator may not
// read StorageClasses, why says so.
func (p *Plan) bindsLater(ctx context.Context, c *corev1.PersistentVolumeClaim) (later bool, why string) {
	class, err := kube.ViewOf[storageClass](p.client).Get(ctx, *c.Spec.StorageClassName)
	if apierrors.IsForbidden(err) {
		why = "its StorageClass may bind it at its first consumer: the operator may not get StorageClasses"
	}
	return err == nil && class.VolumeBindingMode == "WaitForFirstConsumer", why
}
