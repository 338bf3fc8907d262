package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// The annotations of the Secret of a cluster's keys that say which tenants and timelines the objects of some
// names have, as membersAnnotation says which members there are. They outlive the objects. In another
// Kubernetes, with copies of the data, objects of these names have other uids: without the annotations they
// would have other ids, and be empty. The name of an object follows the slash. Each has an annotation of its
// own, so that writers need not know of each other. The value is TENANT, or TENANT/TIMELINE.
const (
	TenantOf   = "tenant.neon.pintle.dev/"
	TimelineOf = "timeline.neon.pintle.dev/"
)

// rememberLimit is the size of the annotations up to which more are added. The API server takes 256 KiB, and the
// members must find a place.
const rememberLimit = 200 << 10

// AnnotationOf returns the annotation for an object. What follows the slash has at most 63 characters.
func AnnotationOf(kind, name string) string {
	if len(name) > 63 {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:16])
	}
	return kind + name
}

// Recall returns the value for an object of a name in the storage of a cluster, empty if there is none. The
// error is NotFound while the cluster has no keys.
func (c *Clients) Recall(ctx context.Context, cluster kube.Key, kind, name string) (value string, err error) {
	keys, err := c.Secrets.In(cluster.Namespace).Cached().Get(ctx, KeysName(cluster.Name))
	if err != nil {
		return "", err
	}
	return keys.Annotations[AnnotationOf(kind, name)], nil
}

// Remember keeps the value for an object of a name, or forgets it if it is empty. A cluster without keys
// remembers nothing, and one with some thousand objects no more.
func (c *Clients) Remember(ctx context.Context, cluster kube.Key, kind, name, value string) error {
	secrets, annotation := c.Secrets.In(cluster.Namespace), AnnotationOf(kind, name)
	keys, err := secrets.Cached().Get(ctx, KeysName(cluster.Name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || keys.Annotations[annotation] == value {
		return err
	}
	size := 0
	for k, v := range keys.Annotations {
		size += len(k) + len(v)
	}
	if _, known := keys.Annotations[annotation]; value != "" && !known && size > rememberLimit {
		return nil
	}
	set := &value
	if value == "" {
		set = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": keys.UID, "annotations": map[string]*string{annotation: set},
	}})
	if err == nil {
		_, err = secrets.Patch(ctx, keys.Name, types.MergePatchType, patch)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write annotation %s of Secret %s: %w", annotation, keys.Name, err)
	}
	return nil
}

// Unremember forgets the value for an object of a name, which was deleted. Another value stays.
func (c *Clients) Unremember(ctx context.Context, cluster kube.Key, kind, name, value string) error {
	is, err := c.Recall(ctx, cluster, kind, name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && is != value:
		return nil
	case err != nil:
		return err
	}
	return c.Remember(ctx, cluster, kind, name, "")
}
