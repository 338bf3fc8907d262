package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/inuse"
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
		err = fmt.Errorf("read annotation %s of Secret %s, which must be as it was: %w", membersAnnotation, keys.Name, err)
		_, failed := inuse.Refuse(ctx, op.Clusters, c, &c.Status.Conditions, "WrongMembers", err.Error())
		return errors.Join(err, failed)
	}
	s.Safekeepers, s.NextSafekeeper = r.Safekeepers, r.NextSafekeeper
	s.Pageservers, s.NextPageserver = r.Pageservers, r.NextPageserver
	return nil
}

// ending returns what becomes of the volumes of members that leave, as the deletion policy says.
func ending(c *api.NeonCluster) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if keeps(c) {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// errUnseen is the reason of a StatefulSet that was changed just now.
var errUnseen = errors.New("the controller of StatefulSets has not seen yet what becomes of the volume")

// settleVolumes has StatefulSets that are about to be deleted own their claims, or leave them, as the deletion
// policy says. Before, none owns its claim: the StatefulSet of a safekeeper that somebody deletes would come
// back with an empty volume, under the id of one that has voted. settleVolumes returns why that is not so yet, by
// the names of StatefulSets. These must stay: the controller of StatefulSets must have seen the change.
func (op *Operator) settleVolumes(ctx context.Context, c *api.NeonCluster, p *plan.Plan) map[string]error {
	want, unsettled := ending(c), map[string]error{}
	for _, n := range c.Status.Nodes {
		if _, left := ofSet(c, n.ObjectName); n.Kind != "StatefulSet" || c.DeletionTimestamp == nil && !left {
			continue
		}
		set, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, n.ObjectName)
		if err == nil && !p.Owns(set) {
			continue
		}
		if err == nil && ownership(set) != want {
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":%q}}}`,
				set.UID, want)
			set, err = op.StatefulSets.In(c.Namespace).Patch(ctx, set.Name, types.MergePatchType, patch)
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			unsettled[n.ObjectName] = fmt.Errorf("settle what becomes of the volume: %w", err)
		case set.Status.ObservedGeneration < set.Generation:
			unsettled[n.ObjectName] = errUnseen
		}
	}
	return unsettled
}

// ownership returns what becomes of the claims of a StatefulSet when it is deleted.
func ownership(s *appsv1.StatefulSet) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy := s.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		return policy.WhenDeleted
	}
	return ""
}

// kept returns the ids of members that have left, and whose StatefulSets stay until their volumes are settled.
func kept(c *api.NeonCluster, members []api.Member, set func(string, int64) string, unsettled map[string]error) (ids []int64) {
	for _, m := range members {
		if unsettled[set(c.Name, m.ID)] != nil {
			ids = append(ids, m.ID)
		}
	}
	return ids
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
