// Package settled judges objects of the operator's own kinds.
package settled

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/ready"
)

// judge is [ready.Of], except that an object without the condition Ready is not ready: its
// controller has not looked at it yet. An object that has just been made would be ready otherwise.
func judge[T any](o *T, conditions []metav1.Condition) ready.State {
	s := ready.Of(o)
	if s.Phase == ready.Ready && !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == "Ready" }) {
		return ready.State{Phase: ready.Waiting, Message: "its controller has not looked at it"}
	}
	return s
}

// First judges an object for others that need it to be made: until they exist, it must be
// ready. Afterwards it need only be there. A part of the storage that fails, or the deletion
// of an object that is in use and so waits, must not stop those that exist.
func First[T any](exists bool, judge func(*T) ready.State) func(*T) ready.State {
	if !exists {
		return judge
	}
	return func(*T) ready.State { return ready.State{Phase: ready.Ready} }
}

// Served reports whether computes can run on a branch, whatever the state of its storage.
func Served(b *api.NeonBranch) bool {
	return !b.Spec.Archived && b.Status.TenantID != "" && b.Status.TimelineID != "" && len(b.Status.Safekeepers) > 0
}

// Cluster judges a NeonCluster.
func Cluster(c *api.NeonCluster) ready.State { return judge(c, c.Status.Conditions) }

// Project judges a NeonProject.
func Project(p *api.NeonProject) ready.State { return judge(p, p.Status.Conditions) }

// Branch judges a NeonBranch.
func Branch(b *api.NeonBranch) ready.State { return judge(b, b.Status.Conditions) }

// Role judges a NeonRole.
func Role(r *api.NeonRole) ready.State { return judge(r, r.Status.Conditions.Conditions) }

// Database judges a NeonBranchDatabase.
func Database(d *api.NeonBranchDatabase) ready.State { return judge(d, d.Status.Conditions.Conditions) }

// Endpoint judges a NeonEndpoint.
func Endpoint(e *api.NeonEndpoint) ready.State { return judge(e, e.Status.Conditions) }
