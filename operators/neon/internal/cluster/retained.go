package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
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

// settleVolumes has StatefulSets that are about to be deleted own their claims, or leave them, as the deletion
// policy says. Before, none owns its claim: the StatefulSet of a safekeeper that somebody deletes would come
// back with an empty volume, under the id of one that has voted. settleVolumes reports whether all is so: the
// controller of StatefulSets must have seen the change.
func (op *Operator) settleVolumes(ctx context.Context, c *api.NeonCluster, p *plan.Plan) (settled bool, err error) {
	want := appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	if keeps(c) {
		want = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	patch := fmt.Appendf(nil, `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":%q}}}`, want)
	settled = true
	for _, n := range c.Status.Nodes {
		if _, left := ofSet(c, n.ObjectName); n.Kind != "StatefulSet" || c.DeletionTimestamp == nil && !left {
			continue
		}
		set, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, n.ObjectName)
		switch {
		case apierrors.IsNotFound(err) || err == nil && !p.Owns(set):
			continue
		case err != nil:
			return false, err
		}
		if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy == nil || policy.WhenDeleted != want {
			if set, err = op.StatefulSets.In(c.Namespace).Patch(ctx, set.Name, types.MergePatchType, patch); err != nil {
				return false, fmt.Errorf("settle what becomes of the volume: %w", err)
			}
		}
		settled = settled && set.Status.ObservedGeneration >= set.Generation
	}
	return settled, nil
}

// ofSet reports whether a StatefulSet is that of a safekeeper or pageserver of a cluster, and whether the plan
// has that member no more.
func ofSet(c *api.NeonCluster, set string) (member, left bool) {
	for _, m := range c.Status.Safekeepers {
		if set == safekeeperName(c.Name, m.ID) {
			return true, m.Evacuated
		}
	}
	for _, m := range c.Status.Pageservers {
		if set == pageserverName(c.Name, m.ID) {
			return true, !stays(m)
		}
	}
	return false, false
}
