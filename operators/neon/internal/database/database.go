// Package database expands a NeonDatabase into the objects that it is made of.
package database

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/settled"
	"github.com/pintle-go/pintle/plan"
)

// Operator reconciles NeonDatabases.
type Operator struct {
	NeonDatabases kube.Resource[api.NeonDatabase]
	Clusters      kube.Resource[api.NeonCluster]
	Projects      kube.Resource[api.NeonProject]
	Branches      kube.Resource[api.NeonBranch]
	Roles         kube.Resource[api.NeonRole]
	Databases     kube.Resource[api.NeonBranchDatabase]
	Endpoints     kube.Resource[api.NeonEndpoint]
	Secrets       kube.Resource[corev1.Secret]
	Monitor       *plan.Monitor
	// StoreImage is the image of the object stores. Default: one that the operator was tested with.
	StoreImage string
}

// Controller returns the controller of NeonDatabases.
func (op *Operator) Controller() controller.Controller[api.NeonDatabase] {
	login := func(d *api.NeonDatabase) []kube.Key { return []kube.Key{loginKey(d)} }
	return controller.Controller[api.NeonDatabase]{
		For: op.NeonDatabases,
		Watches: []controller.Source{
			plan.Marked(op.NeonDatabases, op.Clusters), plan.Marked(op.NeonDatabases, op.Projects),
			plan.Marked(op.NeonDatabases, op.Branches), plan.Marked(op.NeonDatabases, op.Roles),
			plan.Marked(op.NeonDatabases, op.Databases), plan.Marked(op.NeonDatabases, op.Endpoints),
			plan.Marked(op.NeonDatabases, op.Secrets), controller.Referenced(op.Secrets, login),
		},
		Reconcile: func(ctx context.Context, d *api.NeonDatabase) (controller.Action, error) {
			return op.children(d).Run(ctx)
		},
		Cleanup: func(ctx context.Context, d *api.NeonDatabase) (controller.Action, error) {
			all := op.children(d)
			orphans, err := all.Orphans(ctx)
			if err == nil && !orphans {
				err = op.handDown(ctx, d, all)
			}
			if err != nil {
				return controller.Done, err
			}
			return all.Delete(ctx)
		},
	}
}

// mainBranch is the end of the name of the branch.
const mainBranch = "-main"

// application is the name of the role and of the database, in PostgreSQL.
const application = "app"

// loginKey returns the key of the Secret by which the role logs in, which the endpoint makes.
func loginKey(d *api.NeonDatabase) kube.Key {
	base := baseName(d)
	return kube.Key{Namespace: d.Namespace, Name: base + "-" + base + "-" + application}
}

// children describes the objects of a NeonDatabase. See baseName for their names.
func (op *Operator) children(d *api.NeonDatabase) *plan.Plan {
	all := plan.New(op.NeonDatabases, d, &d.Status.Status)
	// The garbage collector would delete the cluster before it has its last policy.
	all.Marks, all.Monitor = true, op.Monitor
	base := baseName(d)
	meta := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: d.Namespace, Name: base + suffix,
			Labels: map[string]string{"app.kubernetes.io/name": "neon", "app.kubernetes.io/part-of": d.Name},
		}
	}
	storage := plan.Object(all, "cluster", op.Clusters, func(plan.Inputs) (*api.NeonCluster, error) {
		return &api.NeonCluster{Object: kube.Object{ObjectMeta: meta("")}, Spec: op.cluster(d)}, nil
	}).ReadyWhen(settled.Cluster).UntilGone().Within(15 * time.Minute)
	data := plan.Object(all, "project", op.Projects, func(in plan.Inputs) (*api.NeonProject, error) {
		p := &api.NeonProject{Object: kube.Object{ObjectMeta: meta("")}}
		version, err := strconv.ParseInt(d.Spec.PostgresVersion, 10, 32)
		if err != nil {
			return nil, err
		}
		p.Spec.Cluster, p.Spec.PostgresVersion = storage.From(in).Name, int32(version)
		p.Spec.Shards, p.Spec.HistoryRetention, p.Spec.DeletionPolicy = 1, "7 days", d.Spec.DeletionPolicy
		return p, nil
	}).Needs(storage).ReadyWhen(settled.Project).UntilGone()
	branch := plan.Object(all, "branch", op.Branches, func(in plan.Inputs) (*api.NeonBranch, error) {
		b := &api.NeonBranch{Object: kube.Object{ObjectMeta: meta(mainBranch)}}
		b.Spec.Project, b.Spec.DeletionPolicy = data.From(in).Name, d.Spec.DeletionPolicy
		return b, nil
	}).Needs(data).ReadyWhen(settled.Branch).UntilGone()
	role := plan.Object(all, "role", op.Roles, func(in plan.Inputs) (*api.NeonRole, error) {
		r := &api.NeonRole{Object: kube.Object{ObjectMeta: meta("-" + application)}}
		r.Spec.Branch, r.Spec.Name = branch.From(in).Name, application
		return r, nil
	}).Needs(branch).ReadyWhen(settled.Role)
	content := plan.Object(all, "database", op.Databases, func(in plan.Inputs) (*api.NeonBranchDatabase, error) {
		b := &api.NeonBranchDatabase{Object: kube.Object{ObjectMeta: meta("-" + application)}}
		b.Spec.Branch, b.Spec.Name, b.Spec.Owner = branch.From(in).Name, application, role.From(in).Name
		return b, nil
	}).Needs(branch, role).ReadyWhen(settled.Database)
	endpoint := plan.Object(all, "endpoint", op.Endpoints, func(in plan.Inputs) (*api.NeonEndpoint, error) {
		e := &api.NeonEndpoint{Object: kube.Object{ObjectMeta: meta("")}}
		e.Spec.Branch, e.Spec.Type = branch.From(in).Name, api.ReadWrite
		e.Spec.Suspended, e.Spec.SuspendAfterSeconds = d.Spec.Suspended, d.Spec.SuspendAfterSeconds
		return e, nil
	}).Needs(branch, role, content).ReadyWhen(settled.Endpoint).UntilGone()
	login := plan.Lookup(all, "login", op.Secrets, loginKey(d)).Needs(endpoint)
	connection := meta("-connection")
	connection.Name = d.Name + "-connection" // as its users know it
	plan.Object(all, "connection", op.Secrets, func(in plan.Inputs) (*corev1.Secret, error) {
		return &corev1.Secret{
			ObjectMeta: connection, Type: corev1.SecretTypeBasicAuth, Data: login.From(in).Data,
		}, nil
	}).Needs(login)
	all.Report = func() {
		if e := endpoint.Last(); e != nil {
			d.Status.Host = e.Status.Host
		}
	}
	return all
}

// cluster returns the smallest cluster that keeps its promises: three safekeepers, so that
// one may fail, and one pageserver, whose data is in the object store.
func (op *Operator) cluster(d *api.NeonDatabase) api.ClusterSpec {
	volume := api.Volume{Storage: resource.MustParse("1Gi")}
	spec := api.ClusterSpec{
		Image:              d.Spec.NeonImageRef,
		ComputeImages:      map[string]string{d.Spec.PostgresVersion: d.Spec.ComputeImageRef},
		ObjectStore:        api.ObjectStore{Managed: &api.Managed{Image: op.StoreImage, Volume: volume}},
		ControllerDatabase: api.ControllerDatabase{Managed: &volume},
		Safekeepers:        api.Safekeepers{Count: 3, Volume: volume},
		Pageservers:        api.Pageservers{Count: 1, DrainTimeoutSeconds: 300, Volume: volume},
		NetworkPolicies:    d.Spec.NetworkPolicies,
		TLS:                d.Spec.TLS,
		DeletionPolicy:     d.Spec.DeletionPolicy,
	}
	return spec
}
