// Package project makes tenants of the storage from NeonProjects.
package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/inuse"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/operators/neon/internal/settled"
	"github.com/pintle-go/pintle/plan"
)

// Operator reconciles NeonProjects.
type Operator struct {
	Projects kube.Resource[api.NeonProject]
	Clusters kube.Resource[api.NeonCluster]
	Branches kube.Resource[api.NeonBranch]
	Clients  *cluster.Clients
	Monitor  *plan.Monitor

	byTenant   *kube.Index[api.NeonProject, kube.Key]
	ofProject  *kube.Index[api.NeonBranch, kube.Key]
	tenantKind *plan.Things[tenant]
}

// Start completes the operator. It is called once, before the controller is made.
func (op *Operator) Start() {
	op.byTenant = kube.IndexBy(op.Projects, func(p *api.NeonProject) []kube.Key {
		return []kube.Key{{Namespace: p.Namespace, Name: TenantID(p)}}
	})
	op.ofProject = kube.IndexBy(op.Branches, func(b *api.NeonBranch) []kube.Key {
		return []kube.Key{{Namespace: b.Namespace, Name: b.Spec.Project}}
	})
	op.tenantKind = op.tenants()
}

// clusterOf returns the cluster of a project.
func clusterOf(p *api.NeonProject) []kube.Key {
	return []kube.Key{{Namespace: p.Namespace, Name: p.Spec.Cluster}}
}

// Controller returns the controller of NeonProjects.
func (op *Operator) Controller() controller.Controller[api.NeonProject] {
	return controller.Controller[api.NeonProject]{
		For: op.Projects, Reconcile: op.reconcile, Cleanup: op.cleanup,
		Watches: []controller.Source{
			controller.Referenced(op.Clusters, clusterOf),
			controller.Mapped(op.Branches, func(_ context.Context, b *api.NeonBranch) []kube.Key {
				return []kube.Key{{Namespace: b.Namespace, Name: b.Spec.Project}}
			}),
		},
	}
}

func (op *Operator) reconcile(ctx context.Context, p *api.NeonProject) (controller.Action, error) {
	known, err := op.identify(ctx, p)
	if err != nil {
		return controller.Done, err
	}
	return op.children(ctx, p, known).Run(ctx)
}

// identify gives a project the tenant that one of its name has had, or has the cluster remember its tenant. It
// reports whether the cluster has keys, which say so: before, no tenant is made.
func (op *Operator) identify(ctx context.Context, p *api.NeonProject) (known bool, err error) {
	key := kube.Key{Namespace: p.Namespace, Name: p.Spec.Cluster}
	had, err := op.Clients.Recall(ctx, key, cluster.TenantOf, p.Name)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case made(p):
	case p.Spec.TenantID == "":
		p.Status.TenantID = cmp.Or(had, ID(p.UID))
	case had != "":
		return true, nil // the project may not get the tenant of its spec, and then had is still what its name had
	}
	return true, op.Clients.Remember(ctx, key, cluster.TenantOf, p.Name, TenantID(p))
}

func (op *Operator) cleanup(ctx context.Context, p *api.NeonProject) (controller.Action, error) {
	users, err := inuse.Names(op.ofProject.Get(ctx, kube.KeyOf(p)))
	if err != nil {
		return controller.Done, err
	}
	if len(users) == 0 {
		// The cache may not know of the last. A branch that is made later finds this deletion.
		users, err = op.liveBranches(ctx, p)
	}
	if err != nil {
		return controller.Done, err
	}
	if len(users) > 0 {
		// Its branches go on, and must hear of moves.
		if told, ok := place.ToldShards(p); ok && told.At.After(p.DeletionTimestamp.Time) {
			take(p, told)
		}
		return inuse.Hold(ctx, op.Projects, p, &p.Status.Conditions, "NeonBranches", users)
	}
	had := made(p) || slices.ContainsFunc(p.Status.Nodes, func(n plan.NodeStatus) bool { return n.Kind == op.tenantKind.Kind })
	all := op.children(ctx, p, true)
	orphans, err := all.Orphans(ctx)
	if err != nil {
		return controller.Done, err
	}
	action, err := all.Delete(ctx)
	if err == nil && action == controller.Done && p.Spec.DeletionPolicy == api.Delete && had && !orphans {
		err = op.Clients.Unremember(ctx, kube.Key{Namespace: p.Namespace, Name: p.Spec.Cluster}, cluster.TenantOf, p.Name, TenantID(p))
	}
	return action, err
}

// liveBranches asks the API server for the branches of a project.
func (op *Operator) liveBranches(ctx context.Context, p *api.NeonProject) (names []string, err error) {
	for b, err := range op.Branches.In(p.Namespace).List(ctx) {
		if errors.Is(err, kube.ErrNotServed) {
			return nil, nil // with the definition of the kind all are gone
		}
		if err != nil {
			return nil, fmt.Errorf("look for branches: %w", err)
		}
		if b.Spec.Project == p.Name {
			names = append(names, b.Name)
		}
	}
	return names, nil
}

// children describes the tenant of a project. known says that its id is the one that it stays with.
func (op *Operator) children(ctx context.Context, p *api.NeonProject, known bool) *plan.Plan {
	p.Status.TenantID = TenantID(p)
	key := kube.Key{Namespace: p.Namespace, Name: p.Spec.Cluster}
	all := plan.New(op.Projects, p, &p.Status.Status)
	all.Marks, all.Monitor = true, op.Monitor // a step alone does not tell that it is orphaned
	exists := len(p.Status.Shards) > 0
	storage := plan.Lookup(all, "cluster", op.Clusters, key).ReadyWhen(settled.First(exists, settled.Cluster))
	data := plan.Step(all, "tenant", op.tenantKind, func(in plan.Inputs) (*tenant, error) {
		if !known && !exists {
			return nil, errNoKeys
		}
		want := wanted(p, key, storage.From(in))
		return want, op.admit(ctx, p, want)
	}).Needs(storage).ReadyWhen(tenantReady).UntilGone()
	if p.Spec.DeletionPolicy == api.Retain {
		data.Retain()
	}
	all.Report = func() {
		p.Status.ObservedGeneration = p.Generation
		if t := data.Last(); t != nil {
			report(p, t)
			p.Status.Settings = settings(p, t)
		}
	}
	return all
}

var errNoKeys = errors.New("look for the id of its tenant: the NeonCluster has no keys yet")

// report shows in a project's status where its data is: as the storage controller said when it
// was asked, or when it called a hook, by the later of both.
func report(p *api.NeonProject, t *tenant) {
	if told, ok := place.ToldShards(p); ok && told.At.After(t.seen) {
		take(p, told)
		return
	}
	if places := t.places(); places != nil {
		p.Status.Shards, p.Status.StripeSize = places, 0
		if len(places) > 1 {
			p.Status.StripeSize = int32(t.is.StripeSize) // #nosec G115 -- a few thousand pages
		}
	}
}

// take shows places of which a hook was told.
func take(p *api.NeonProject, told place.Shards) {
	p.Status.Shards, p.Status.StripeSize = nil, told.StripeSize
	for _, id := range told.Nodes {
		p.Status.Shards = append(p.Status.Shards, api.Shard{Pageserver: id})
	}
}

// TenantID returns the id of a project's tenant: that of the spec, that of a project of its name before, or the
// project's own uid, which no other project ever has.
func TenantID(p *api.NeonProject) string {
	return cmp.Or(p.Spec.TenantID, p.Status.TenantID, ID(p.UID))
}

// ID returns a uid as an id of the storage: 32 hexadecimal digits.
func ID(uid types.UID) string { return strings.ReplaceAll(string(uid), "-", "") }
