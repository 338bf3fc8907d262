package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// membersAnnotation of the Secret of the keys has the members of the cluster. It outlives the
// NeonCluster as the volumes and the storage controller's database do. A NeonCluster that takes them
// over has the same members: without it, the id of a safekeeper that was lost would come again, on an
// empty volume, and safekeepers with data would not run.
const membersAnnotation = "neon.pintle.dev/members"

// retained are the members in the annotation.
type retained struct {
	Safekeepers    []api.Member `json:"safekeepers"`
	Pageservers    []api.Member `json:"pageservers"`
	NextSafekeeper int64        `json:"nextSafekeeper"`
	NextPageserver int64        `json:"nextPageserver"`
}

// members returns the text of the annotation.
func members(s *api.ClusterStatus) string {
	constant := func(all []api.Member) []api.Member {
		kept := make([]api.Member, len(all))
		for i, m := range all {
			m.State = ""
			kept[i] = m
		}
		return kept
	}
	text, err := json.Marshal(retained{
		constant(s.Safekeepers), constant(s.Pageservers), s.NextSafekeeper, s.NextPageserver,
	})
	if err != nil {
		panic(err) // it has no values that JSON lacks
	}
	return string(text)
}

// recall gives a cluster without members those that the Secret of its keys has retained.
func (op *Operator) recall(ctx context.Context, c *api.NeonCluster) error {
	s := &c.Status
	if len(s.Safekeepers)+len(s.Pageservers) > 0 || s.NextSafekeeper+s.NextPageserver > 0 {
		return nil
	}
	keys, err := op.Secrets.In(c.Namespace).Cached().Get(ctx, KeysName(c.Name))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	text, ok := keys.Annotations[membersAnnotation]
	if !ok {
		return nil
	}
	var r retained
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("read annotation %s of Secret %s: %w", membersAnnotation, keys.Name, err)
	}
	s.Safekeepers, s.NextSafekeeper = r.Safekeepers, r.NextSafekeeper
	s.Pageservers, s.NextPageserver = r.Pageservers, r.NextPageserver
	return nil
}

// keepVolumes has the StatefulSets of a cluster that is being deleted leave their claims. The plan does
// so too, but the spec may have been changed and the cluster deleted before it could. keepVolumes
// reports whether the claims are safe: the controller of StatefulSets owns them until it has seen the
// change.
func (op *Operator) keepVolumes(ctx context.Context, c *api.NeonCluster) (safe bool, err error) {
	if !keeps(c) {
		return true, nil
	}
	safe = true
	for _, n := range c.Status.Nodes {
		if n.Kind != "StatefulSet" {
			continue
		}
		set, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, n.ObjectName)
		switch {
		case apierrors.IsNotFound(err) || err == nil && set.UID != n.UID:
			continue
		case err != nil:
			return false, err
		}
		if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy == nil ||
			policy.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
			const patch = `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}`
			if set, err = op.StatefulSets.In(c.Namespace).Patch(ctx, set.Name, types.MergePatchType, []byte(patch)); err != nil {
				return false, fmt.Errorf("keep the volume: %w", err)
			}
		}
		safe = safe && set.Status.ObservedGeneration >= set.Generation
	}
	return safe, nil
}
