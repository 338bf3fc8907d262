package branch

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/project"
)

var errNoKeys = errors.New("look for the id of its timeline: the keys of the NeonCluster and the tenant are not there yet")

// identify gives a branch the timeline that one of its name has had in the tenant, or has the cluster remember its
// timeline. It reports whether that is done: before, no timeline is made. A branch with a lifetime gets a
// timeline of its own, and is not remembered.
func (op *Operator) identify(ctx context.Context, b *api.NeonBranch) (known bool, err error) {
	p, err := op.projectFor(ctx, b)
	if err != nil || p == nil || !made(b) && len(p.Status.Shards) == 0 { // the tenant may become another one
		return false, err
	}
	key := kube.Key{Namespace: b.Namespace, Name: p.Spec.Cluster}
	had, err := op.Clients.Recall(ctx, key, cluster.TimelineOf, rememberedAs(b))
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	had, same := strings.CutPrefix(had, p.Status.TenantID+"/")
	switch {
	case made(b):
		if b.Spec.TTLSeconds > 0 && had != current(b) {
			return true, nil
		}
	case b.Spec.TTLSeconds > 0, b.Spec.TimelineID != "" && had != "":
		return true, nil // what the name had stays what it had
	case b.Spec.TimelineID != "":
	case same && had != current(b):
		b.Status.TimelineID, b.Status.Reset = had, b.Spec.Reset
	case !same && recalled(b, current(b)):
		b.Status.TimelineID = firstID(b) // somebody has removed the annotation
	}
	return true, op.Clients.Remember(ctx, key, cluster.TimelineOf, rememberedAs(b), p.Status.TenantID+"/"+current(b))
}

// rememberedAs returns the name by which the cluster remembers the timeline of a branch.
func rememberedAs(b *api.NeonBranch) string { return b.Spec.Project + "." + b.Name }

// forget has the cluster of a branch forget the timeline that was deleted.
func (op *Operator) forget(ctx context.Context, b *api.NeonBranch) error {
	p, err := op.projectFor(ctx, b)
	if err != nil || p == nil {
		return err
	}
	key := kube.Key{Namespace: b.Namespace, Name: p.Spec.Cluster}
	return op.Clients.Unremember(ctx, key, cluster.TimelineOf, rememberedAs(b), p.Status.TenantID+"/"+current(b))
}

// projectFor returns the project of a branch, nil while it is not there.
func (op *Operator) projectFor(ctx context.Context, b *api.NeonBranch) (*api.NeonProject, error) {
	p, err := op.Projects.In(b.Namespace).Cached().Get(ctx, b.Spec.Project)
	if apierrors.IsNotFound(err) || errors.Is(err, kube.ErrNotServed) {
		return nil, nil
	}
	return p, err
}

// recalled reports whether a timeline that was not made for a branch is the one that a branch of its name had.
func recalled(b *api.NeonBranch, id string) bool {
	return !made(b) && id == b.Status.TimelineID && id != b.Spec.TimelineID && id != project.ID(b.UID) &&
		id != derived(b, b.Status.Reset)
}
