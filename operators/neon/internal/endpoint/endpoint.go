// Package endpoint runs the computes of NeonEndpoints, and makes the passwords of NeonRoles.
//
// endpoint.go has the order of an endpoint's children. writer.go decides which endpoint writes to a
// timeline. configuration.go renders the wanted state of a compute, pod.go and resources.go run it,
// and tls.go has its certificate. compute.go asks and reconfigures it, lag.go compares it with the
// storage, idle.go suspends it, wake.go resumes it for clients, and connection.go makes the Secrets by
// which they log in. role.go has the roles.
package endpoint

import (
	"context"
	"net"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
	"github.com/pintle-go/pintle/operators/neon/internal/settled"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// Operator reconciles NeonEndpoints, and the roles and databases that they serve.
type Operator struct {
	Endpoints    kube.Resource[api.NeonEndpoint]
	Branches     kube.Resource[api.NeonBranch]
	Projects     kube.Resource[api.NeonProject]
	Clusters     kube.Resource[api.NeonCluster]
	Roles        kube.Resource[api.NeonRole]
	Databases    kube.Resource[api.NeonBranchDatabase]
	Secrets      kube.Resource[corev1.Secret]
	Services     kube.Resource[corev1.Service]
	StatefulSets kube.Resource[appsv1.StatefulSet]
	Pods         kube.Resource[corev1.Pod]
	// Leases say which endpoint writes to a timeline.
	Leases   kube.Resource[coordinationv1.Lease]
	Policies kube.Resource[networkingv1.NetworkPolicy]
	Peers    policy.Peers // those that the NetworkPolicies let in
	Clients  *cluster.Clients
	Monitor  *plan.Monitor
	// Issued are the Certificates of cert-manager. Without it no cluster can have an issuer.
	Issued *kube.Resource[certmanager.Certificate]
	// Certificates has the times of the certificates of clusters with TLS.
	Certificates trust.Terms
	// Dial connects to computes. Default: the network's own names.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy resumes endpoints for clients. Without one, the Secrets lead to the computes.
	Proxy *Proxy

	byBranch    *kube.Index[api.NeonEndpoint, kube.Key]
	roles       *kube.Index[api.NeonRole, kube.Key]
	databases   *kube.Index[api.NeonBranchDatabase, kube.Key]
	computeKind *plan.Things[compute]
	writerKind  *plan.Things[writer]
	// passwords has the roles by their own Secrets.
	passwords *kube.Index[api.NeonRole, kube.Key]

	moments moments
	limits  limits
}

// Start completes the operator. It is called once, before the controllers are made.
func (op *Operator) Start() {
	op.byBranch = kube.IndexBy(op.Endpoints, branchOf)
	op.roles = kube.IndexBy(op.Roles, func(r *api.NeonRole) []kube.Key {
		return []kube.Key{{Namespace: r.Namespace, Name: r.Spec.Branch}}
	})
	op.databases = kube.IndexBy(op.Databases, func(d *api.NeonBranchDatabase) []kube.Key {
		return []kube.Key{{Namespace: d.Namespace, Name: d.Spec.Branch}}
	})
	op.passwords = kube.IndexBy(op.Roles, func(r *api.NeonRole) []kube.Key {
		return []kube.Key{{Namespace: r.Namespace, Name: r.Status.Secret}}
	})
	op.computeKind, op.writerKind = op.computes(), op.writers()
	op.limits = limits{
		outdated: 20 * time.Second, slow: 5 * time.Minute, failed: time.Minute, lag: 30 * time.Second, followed: time.Minute,
	}
}

// branchOf returns the branch of an endpoint.
func branchOf(e *api.NeonEndpoint) []kube.Key {
	return []kube.Key{{Namespace: e.Namespace, Name: e.Spec.Branch}}
}

// Owned returns the kinds of an endpoint's children.
func (op *Operator) Owned() []kube.AnyHandle {
	all := []kube.AnyHandle{op.Secrets, op.Services, op.StatefulSets, op.Policies}
	if op.Issued != nil {
		all = append(all, *op.Issued)
	}
	return all
}

// Controller returns the controller of NeonEndpoints.
func (op *Operator) Controller() controller.Controller[api.NeonEndpoint] {
	return controller.Controller[api.NeonEndpoint]{
		For: op.Endpoints, Owns: op.Owned(), Reconcile: op.reconcile, Cleanup: op.cleanup,
		Watches: []controller.Source{
			controller.Referenced(op.Branches, branchOf),
			controller.Mapped(op.Roles, func(ctx context.Context, r *api.NeonRole) []kube.Key {
				return op.serving(ctx, kube.Key{Namespace: r.Namespace, Name: r.Spec.Branch})
			}),
			// Another password changes the Secret of a role, and not the role.
			controller.Mapped(op.Secrets, op.ofPassword),
			controller.Mapped(op.Databases, func(ctx context.Context, d *api.NeonBranchDatabase) []kube.Key {
				return op.serving(ctx, kube.Key{Namespace: d.Namespace, Name: d.Spec.Branch})
			}),
			controller.Mapped(op.Projects, op.ofProject),
			// The images, the issuer, and whether there are policies.
			controller.Mapped(op.Clusters, func(ctx context.Context, c *api.NeonCluster) []kube.Key {
				return op.onCluster(ctx, kube.KeyOf(c))
			}, controller.FieldsChanged("spec")),
			// The keys of a cluster say that its programs serve TLS.
			controller.Mapped(op.Secrets, op.ofKeys, controller.FieldsChanged("metadata.annotations")),
			controller.Mapped(op.Leases.Labeled(writerSelector), op.ofWriter),
			// Some settings of a branch's readers follow from those of its writer.
			controller.Mapped(op.Endpoints, func(ctx context.Context, e *api.NeonEndpoint) []kube.Key {
				if e.Spec.Type != api.ReadWrite {
					return nil
				}
				return op.serving(ctx, kube.Key{Namespace: e.Namespace, Name: e.Spec.Branch})
			}, controller.FieldsChanged("spec")),
		},
	}
}

// serving returns the endpoints of a branch.
func (op *Operator) serving(ctx context.Context, branch kube.Key) (keys []kube.Key) {
	for e, err := range op.byBranch.Get(ctx, branch) {
		if err != nil {
			return keys // the index's error ends the reconcile as well
		}
		keys = append(keys, kube.KeyOf(e))
	}
	return keys
}

// ofPassword returns the endpoints that serve the role whose password is in a Secret.
func (op *Operator) ofPassword(ctx context.Context, s *corev1.Secret) (keys []kube.Key) {
	for r, err := range op.passwords.Get(ctx, kube.KeyOf(s)) {
		if err != nil {
			return keys // the index's error ends the reconcile as well
		}
		keys = append(keys, op.serving(ctx, kube.Key{Namespace: r.Namespace, Name: r.Spec.Branch})...)
	}
	return keys
}

// ofProject returns the endpoints of a project, whose data moves from pageserver to
// pageserver.
func (op *Operator) ofProject(ctx context.Context, p *api.NeonProject) (keys []kube.Key) {
	for e, err := range op.Endpoints.In(p.Namespace).Cached().All(ctx) {
		if err != nil {
			return keys
		}
		b, err := op.Branches.In(e.Namespace).Cached().Get(ctx, e.Spec.Branch)
		if err == nil && b.Spec.Project == p.Name {
			keys = append(keys, kube.KeyOf(e))
		}
	}
	return keys
}

// ofKeys returns the endpoints of the cluster whose keys are in a Secret.
func (op *Operator) ofKeys(ctx context.Context, s *corev1.Secret) []kube.Key {
	name := cluster.OfKeys(s)
	if name == "" {
		return nil
	}
	return op.onCluster(ctx, kube.Key{Namespace: s.Namespace, Name: name})
}

// onCluster returns the endpoints of all projects on a cluster.
func (op *Operator) onCluster(ctx context.Context, cluster kube.Key) (keys []kube.Key) {
	for p, err := range op.Projects.In(cluster.Namespace).Cached().All(ctx) {
		if err != nil {
			return keys
		}
		if p.Spec.Cluster == cluster.Name {
			keys = append(keys, op.ofProject(ctx, p)...)
		}
	}
	return keys
}

func (op *Operator) reconcile(ctx context.Context, e *api.NeonEndpoint) (controller.Action, error) {
	now := time.Now()
	resume(e)
	all, secure, err := op.children(ctx, e, now)
	if err != nil {
		return controller.Done, err
	}
	action, err := all.Run(ctx)
	return controller.Sooner(action, secure.due()), err
}

func (op *Operator) cleanup(ctx context.Context, e *api.NeonEndpoint) (controller.Action, error) {
	all, _, err := op.children(ctx, e, time.Now())
	if err != nil {
		return controller.Done, err
	}
	orphans, err := all.Orphans(ctx)
	if err != nil {
		return controller.Done, err
	}
	action, err := all.Delete(ctx)
	if err == nil && action == controller.Done && op.Issued != nil && !orphans {
		err = cluster.ForgetIssued(ctx, op.Secrets.In(e.Namespace), computeName(e))
	}
	if err == nil && action == controller.Done {
		op.moments.forget(kube.KeyOf(e))
	}
	return action, err
}

// children describes an endpoint's compute, and the Secrets by which clients log in.
func (op *Operator) children(ctx context.Context, e *api.NeonEndpoint, now time.Time) (*plan.Plan, *security, error) {
	secure, err := op.security(ctx, e, now)
	if err != nil {
		return nil, nil, err
	}
	all := plan.New(op.Endpoints, e, &e.Status.Status)
	all.Monitor = op.Monitor
	runs := !e.Spec.Suspended && e.Status.IdleSince.IsZero()
	if !runs {
		op.moments.stop(kube.KeyOf(e), now)
	}

	// A compute that has run goes on while the storage is in trouble, and hears of its moves.
	branch := plan.Lookup(all, "branch", op.Branches, kube.Key{Name: e.Spec.Branch}).
		ReadyWhen(func(b *api.NeonBranch) ready.State {
			return settled.First(e.Status.Applied != "" && settled.Served(b), settled.Branch)(b)
		})
	address := plan.Object(all, "service", op.Services, func(plan.Inputs) (*corev1.Service, error) {
		return service(e), nil
	})
	names := plan.Object(all, "compute-service", op.Services, func(plan.Inputs) (*corev1.Service, error) {
		return governing(e), nil
	})
	plan.Object(all, "policy", op.Policies, func(plan.Inputs) (*networkingv1.NetworkPolicy, error) {
		return op.policy(e), nil
	}).Needs(branch).When(func(plan.Inputs) bool { return !op.open(ctx, e) })
	configuration := plan.Object(all, "configuration", op.Secrets, func(in plan.Inputs) (*corev1.Secret, error) {
		return op.configuration(ctx, e, branch.From(in), secure)
	}).Needs(branch)
	if e.Spec.Type == api.ReadWrite {
		configuration.Needs(plan.Step(all, "writer", op.writerKind, func(in plan.Inputs) (*writer, error) {
			timeline := branch.From(in).Status.TimelineID
			want := &writer{endpoint: kube.KeyOf(e), uid: e.UID, branch: e.Spec.Branch, timeline: timeline}
			var err error
			want.lost, err = op.lost(ctx, want)
			return want, err
		}).Needs(branch).ReadyWhen(writerReady).Within(time.Minute))
	}
	certificate := op.certificate(ctx, all, e, secure)
	set := plan.Object(all, "compute", op.StatefulSets, func(in plan.Inputs) (*appsv1.StatefulSet, error) {
		from, err := op.image(ctx, e, branch.From(in))
		if err != nil {
			return nil, err
		}
		want, err := op.belongs(ctx, e, statefulSet(e, branch.From(in), from, configuration.From(in), secure, runs))
		if err != nil {
			return nil, err
		}
		return want, op.mayStart(ctx, e, want)
	}).Needs(branch, configuration, address, names).ReadyWhen(placed).Within(3 * time.Minute).UntilGone()
	if certificate != nil {
		set.Needs(certificate)
	}
	running := plan.Step(all, "running", op.computeKind, func(in plan.Inputs) (*compute, error) {
		return op.wantedCompute(e, configuration.From(in), set.From(in)), nil
	}).Needs(configuration, set).ReadyWhen(func(c *compute) ready.State {
		return computeReady(c, set.Last() != nil && set.Last().Status.ReadyReplicas > 0)
	}).Within(3 * time.Minute).When(func(plan.Inputs) bool { return runs })

	roles, err := op.rolesOf(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	for _, role := range roles {
		plan.Object(all, "connection/"+role.Name, op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
			return op.connection(ctx, e, role)
		}).Needs(address)
	}
	all.Report = func() {
		e.Status.ObservedGeneration = e.Generation
		at, _ := op.logins(e, "")
		e.Status.Host = at.host
		op.report(e, set.Last(), running.Last(), runs, now)
	}
	return all, secure, nil
}
