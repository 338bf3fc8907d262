// Package cluster makes the storage of Neon from a NeonCluster: the keys by which the
// programs trust each other, an object store, the storage controller with its database, a
// broker, safekeepers and pageservers.
//
// plan.go has the order, and nodes.go that of the members, which are the safekeepers and the
// pageservers. pod.go makes pods, services and sets of a part, and guard.go says who may
// connect to them. The other files have one part each: store.go, controller.go, broker.go,
// safekeeper.go and pageserver.go. The plan's steps are in bucket.go, sqlprobe.go and members.go.
// credentials.go restarts programs for other credentials of the user. tls.go has the certificates of
// clusters with TLS, and issued.go those that cert-manager issues. change.go adds TLS to a cluster that runs
// and removes it, and crossing.go has the addresses of programs meanwhile.
//
// membership.go chooses the members and their zones, and retained.go keeps them for a cluster that
// takes their volumes over, as remembered.go does with the ids of tenants and timelines. turn.go restarts
// safekeepers and roll.go pageservers, one at a time.
// evacuate.go moves timelines off safekeepers that leave, volume.go finds those that have lost their
// timelines, and removal.go removes pageservers. ending.go ends the members of a cluster that is deleted.
package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/certmanager"
	"github.com/pintle-go/pintle/operators/neon/internal/inuse"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
	"github.com/pintle-go/pintle/operators/neon/internal/trust"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// Operator reconciles NeonClusters.
type Operator struct {
	Clusters     kube.Resource[api.NeonCluster]
	Secrets      kube.Resource[corev1.Secret]
	Services     kube.Resource[corev1.Service]
	StatefulSets kube.Resource[appsv1.StatefulSet]
	Deployments  kube.Resource[appsv1.Deployment]
	Projects     kube.Resource[api.NeonProject]
	Branches     kube.Resource[api.NeonBranch]
	Pods         kube.Resource[corev1.Pod]
	Policies     kube.Resource[networkingv1.NetworkPolicy]
	Budgets      kube.Resource[policyv1.PodDisruptionBudget]
	// Issued are the Certificates of cert-manager. Without it no cluster can have an issuer.
	Issued *kube.Resource[certmanager.Certificate]
	// Peers are those that the NetworkPolicies let in besides the cluster's own pods.
	Peers policy.Peers
	// Clients of the clusters' programs.
	Clients *Clients
	// Hooks is the URL at which storage controllers reach this operator.
	Hooks string
	// Dial connects to databases. Default: the network's own names.
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Monitor *plan.Monitor
	// EmptiedAfter is the time after which a timeline that a safekeeper lacks is a sign of an
	// emptied volume. Default: three minutes.
	EmptiedAfter time.Duration
	// Certificates has the times of the certificates of clusters with TLS.
	Certificates trust.Terms
	// RemovalLimit is the time after which a pageserver is removed by force. Default: a quarter
	// of an hour.
	RemovalLimit time.Duration

	searches   searches
	suspicions suspicions
	removals   removals
	byCluster  *kube.Index[api.NeonProject, kube.Key]

	issuedByCluster *kube.Index[corev1.Secret, kube.Key]

	controllerTarget *plan.Target
	bucketThings     *plan.Things[bucket]
	databaseThings   *plan.Things[controllerDatabase]
	safekeeperThings *plan.Things[registration]
	nodeThings       *plan.Things[node]
	evacuationThings *plan.Things[evacuation]
	turnThings       *plan.Things[turn]
	rollThings       *plan.Things[roll]
	changeThings     *plan.Things[change]
}

// Start completes the operator. It is called once, before the controller is made.
func (op *Operator) Start() {
	op.controllerTarget = &plan.Target{Name: "the storage controller", Concurrency: 16, Timeout: 40 * time.Second}
	op.bucketThings, op.databaseThings = op.buckets(), op.databases()
	op.safekeeperThings, op.nodeThings = op.registrations(), op.nodes()
	op.evacuationThings, op.turnThings, op.rollThings = op.evacuations(), op.turns(), op.rolls()
	op.changeThings = op.changes()
	op.byCluster, op.issuedByCluster = kube.IndexBy(op.Projects, clusterOf), kube.IndexBy(op.Secrets, issuedFor)
}

// clusterOf returns the cluster of a project.
func clusterOf(p *api.NeonProject) []kube.Key {
	return []kube.Key{{Namespace: p.Namespace, Name: p.Spec.Cluster}}
}

// Controller returns the controller of NeonClusters.
func (op *Operator) Controller() controller.Controller[api.NeonCluster] {
	c := controller.Controller[api.NeonCluster]{
		For: op.Clusters, Reconcile: op.reconcile, Cleanup: op.cleanup,
		Watches: []controller.Source{
			plan.Marked(op.Clusters, op.Secrets), plan.Marked(op.Clusters, op.Services),
			plan.Marked(op.Clusters, op.StatefulSets), plan.Marked(op.Clusters, op.Deployments),
			plan.Marked(op.Clusters, op.Policies), plan.Marked(op.Clusters, op.Budgets),
			controller.Referenced(op.Secrets, loginSecrets),
			controller.Mapped(op.Projects, func(_ context.Context, p *api.NeonProject) []kube.Key { return clusterOf(p) }),
		},
	}
	if op.Issued != nil {
		c.Watches = append(c.Watches, plan.Marked(op.Clusters, *op.Issued))
	}
	return c
}

func (op *Operator) reconcile(ctx context.Context, c *api.NeonCluster) (controller.Action, error) {
	if err := op.recall(ctx, c); err != nil {
		return controller.Done, err
	}
	if err := op.turnTo(ctx, c); err != nil {
		return controller.Done, err
	}
	p, security := op.children(ctx, c)
	was := progress(c)
	action, err := p.Run(ctx)
	if err == nil {
		err = op.forgetLeft(ctx, c)
	}
	if err != nil {
		return action, err
	}
	action = controller.Sooner(action, security.Due())
	if progress(c) != was { // the status says what the next run does
		action = controller.Sooner(action, controller.After(time.Second))
	}
	return action, nil
}

// cleanup deletes the storage, which its projects need until they are gone.
func (op *Operator) cleanup(ctx context.Context, c *api.NeonCluster) (controller.Action, error) {
	users, err := inuse.Names(op.byCluster.Get(ctx, kube.KeyOf(c)))
	if err != nil {
		return controller.Done, err
	}
	if len(users) > 0 {
		return inuse.Hold(ctx, op.Clusters, c, &c.Status.Conditions, "NeonProjects", users)
	}
	p, _ := op.children(ctx, c)
	orphans, err := p.Orphans(ctx)
	if err != nil {
		return controller.Done, err
	}
	if orphans {
		action, err := p.Delete(ctx)
		if err == nil && action == controller.Done {
			op.Clients.Forget(kube.KeyOf(c))
		}
		return action, err
	}
	stuck := op.settleVolumes(ctx, c, p)
	pods, err := op.endMembers(ctx, c, p, stuck)
	if err != nil {
		return controller.Done, err
	}
	if len(pods)+len(stuck) > 0 {
		_, err = inuse.Refuse(ctx, op.Clusters, c, &c.Status.Conditions, "Ending", endingText(pods, stuck))
		return controller.After(2 * time.Second), err
	}
	action, err := p.Delete(ctx)
	if err == nil && action == controller.Done {
		err = op.forgetIssued(ctx, c)
	}
	if err == nil && action == controller.Done {
		op.Clients.Forget(kube.KeyOf(c))
	}
	return action, err
}

// children describes the children of a cluster.
func (op *Operator) children(ctx context.Context, c *api.NeonCluster) (*plan.Plan, *Certifier) {
	p := plan.New(op.Clusters, c, &c.Status.Status)
	// Projects need the children until they are gone, also if the cluster is deleted in the foreground.
	p.Marks, p.Monitor = true, op.Monitor
	p.Knows(op.bucketThings, op.databaseThings, op.safekeeperThings, op.nodeThings)
	p.Knows(op.evacuationThings, op.turnThings, op.rollThings, op.changeThings)
	refused := settleMembers(c, metav1.Now())
	var unsettled map[string]error
	if c.DeletionTimestamp == nil && !p.IsPaused() {
		unsettled = op.settleVolumes(ctx, c, p)
	}

	op.guard(p, c)
	keys := plan.Object(p, "keys", op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
		return op.once(ctx, c, aboutKeys(c), newKeys)
	})
	if keeps(c) {
		keys.Retain()
	}
	given := &logins{op: op, cluster: c}
	bucket := op.objectStore(ctx, p, c, given)
	if bucket != nil && op.isNew(ctx, c) { // other keys than those of data that is there would make it useless
		keys.Needs(bucket)
	}
	database := op.controllerDatabase(ctx, p, c, given)

	secure := op.security(ctx, c)
	authority := op.authority(p, c, secure)
	meta := about(c, "controller")
	tokens := plan.Object(p, "controller-tokens", op.Secrets, func(in plan.Inputs) (*corev1.Secret, error) {
		key, err := ParseKeys(keys.From(in))
		if err != nil {
			return nil, err
		}
		return &corev1.Secret{ObjectMeta: meta, Data: controllerTokens(key)}, nil
	}).Needs(keys)
	b := broker(c)
	storage := storageController(c, HookURL(op.Hooks, c), databaseURL(c))
	storage.authority = secure.newest()
	certificate := op.certificate(ctx, p, secure, authority, meta)
	op.crossings(p, c, storage, b)
	plan.Object(p, "controller-service", op.Services, func(plan.Inputs) (*corev1.Service, error) {
		return storage.service(false), nil
	})
	running := plan.Object(p, "controller", op.Deployments, func(plan.Inputs) (*appsv1.Deployment, error) {
		var err error
		storage.credentials, err = given.ofController(ctx)
		return storage.deployment(), err
	}).Needs(existing(tokens, database, certificate)...).Within(5 * time.Minute)

	plan.Object(p, "broker-service", op.Services, func(plan.Inputs) (*corev1.Service, error) {
		return b.service(false), nil
	})
	brokering := plan.Object(p, "broker", op.Deployments, func(plan.Inputs) (*appsv1.Deployment, error) {
		return b.deployment(), nil
	}).Needs(existing(op.certificate(ctx, p, secure, authority, b.about))...).Within(5 * time.Minute)

	all := basis{keys, bucket, brokering, running, secure, authority, given, unsettled}
	keepers := op.safekeepers(ctx, p, c, all)
	servers := op.pageservers(ctx, p, c, all)
	changing := op.change(p, c, running, brokering, keepers, servers)
	p.Report = func() {
		report(c, keepers, servers, refused)
		reportChange(c, changing)
	}
	return p, secure
}

// keeps reports that the volumes and keys of a cluster outlive it.
func keeps(c *api.NeonCluster) bool { return c.Spec.DeletionPolicy == api.Retain }

// existing returns the needs that are not nil.
func existing(needs ...plan.Need) []plan.Need {
	return slices.DeleteFunc(needs, func(n plan.Need) bool { return n == nil })
}

// basis has all that the members of a cluster need.
type basis struct {
	keys                    *plan.Node[corev1.Secret]
	bucket, broker, running plan.Need
	security                *Certifier
	authority               *plan.Node[corev1.Secret]
	logins                  *logins
	// unsettled are the StatefulSets of members that have left, and why they stay: see settleVolumes.
	unsettled map[string]error
}

// settling has the StatefulSet of a member that has left wait, and say why, until what becomes of its volume is
// settled.
func (b basis) settling(set string, n *plan.Node[appsv1.StatefulSet]) {
	if why := b.unsettled[set]; why != nil {
		n.ReadyWhen(func(*appsv1.StatefulSet) ready.State { return ready.State{Phase: ready.Waiting, Message: why.Error()} })
	}
}

// settled returns a StatefulSet with the ownership of its claims that it has at the end, if the member has left.
func (b basis) settled(c *api.NeonCluster, set *appsv1.StatefulSet) *appsv1.StatefulSet {
	if b.unsettled[set.Name] != nil {
		set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = ending(c)
	}
	return set
}

// memberAuthority names the newest authority that members trust. It is empty for those that call nobody
// with TLS.
func (b basis) memberAuthority(c *api.NeonCluster) string {
	if stageOf(c) < joining {
		return ""
	}
	return b.security.newest()
}

// objectStore describes the object store, and returns the node that is ready when objects can
// be written and read.
func (op *Operator) objectStore(ctx context.Context, p *plan.Plan, c *api.NeonCluster, given *logins) plan.Need {
	s3 := c.Spec.ObjectStore.S3
	if c.Spec.ObjectStore.Azure != nil || c.Spec.ObjectStore.GCS != nil || s3 != nil && s3.SecretName == "" {
		return nil // the operator's own pod may have no rights there
	}
	want := &bucket{cluster: kube.KeyOf(c)}
	b := plan.Step(p, "bucket", op.bucketThings, func(plan.Inputs) (*bucket, error) {
		login, err := given.digest(ctx, storeLogin(c))
		want.at = storeAt(c, login)
		return want, err
	}).ReadyWhen(func(is *bucket) ready.State {
		return tried(is.at, want.at, is.failure)
	}).Within(2 * time.Minute)
	if c.Spec.ObjectStore.Managed == nil {
		return b
	}
	s := store(c)
	access := plan.Object(p, "store-access", op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
		return op.once(ctx, c, s.about, func() map[string][]byte {
			return map[string][]byte{accessKey: []byte(rand.Text()), secretKey: []byte(rand.Text())}
		})
	})
	plan.Object(p, "store-service", op.Services, func(plan.Inputs) (*corev1.Service, error) {
		return s.service(false), nil
	})
	running := plan.Object(p, "store", op.StatefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) {
		return s.statefulSet(c.Spec.ObjectStore.Managed.Volume, appsv1.RollingUpdateStatefulSetStrategyType), nil
	}).Needs(access).Within(5 * time.Minute)
	if keeps(c) {
		access.Retain()
	}
	return b.Needs(running)
}

// controllerDatabase describes the storage controller's database, and returns the node that
// is ready when it answers.
func (op *Operator) controllerDatabase(
	ctx context.Context, p *plan.Plan, c *api.NeonCluster, given *logins,
) plan.Need {
	want := &controllerDatabase{cluster: kube.KeyOf(c)}
	answers := plan.Step(p, "database-answers", op.databaseThings, func(plan.Inputs) (_ *controllerDatabase, err error) {
		want.login, err = given.digest(ctx, databaseLogin(c))
		return want, err
	}).ReadyWhen(func(is *controllerDatabase) ready.State {
		return tried(is.login, want.login, is.failure)
	}).Within(2 * time.Minute)
	if c.Spec.ControllerDatabase.Managed == nil {
		return answers
	}
	d := database(c)
	access := plan.Object(p, "database-access", op.Secrets, func(plan.Inputs) (*corev1.Secret, error) {
		return op.once(ctx, c, d.about, func() map[string][]byte { return databaseAccess(c, rand.Text()) })
	})
	plan.Object(p, "database-service", op.Services, func(plan.Inputs) (*corev1.Service, error) {
		return d.service(false), nil
	})
	running := plan.Object(p, "database", op.StatefulSets, func(plan.Inputs) (*appsv1.StatefulSet, error) {
		v := c.Spec.ControllerDatabase.Managed
		return d.statefulSet(*v, appsv1.RollingUpdateStatefulSetStrategyType), nil
	}).Needs(access).Within(5 * time.Minute)
	if keeps(c) {
		access.Retain()
	}
	return answers.Needs(running)
}

// lostSecret returns an error if a cluster has had a Secret. The programs know its content, and no other.
func lostSecret(c *api.NeonCluster, name string) error {
	if !slices.ContainsFunc(c.Status.Nodes, func(n plan.NodeStatus) bool {
		return n.Kind == "Secret" && n.ObjectName == name && n.UID != ""
	}) {
		return nil
	}
	return fmt.Errorf("Secret %s is gone, and the cluster's programs know its content only: "+
		"make it again from a copy", name)
}

// once returns a Secret as it is, or with content that is made here if the cluster never had it.
func (op *Operator) once(
	ctx context.Context, c *api.NeonCluster, meta metav1.ObjectMeta, content func() map[string][]byte,
) (*corev1.Secret, error) {
	immutable := true
	secret := &corev1.Secret{ObjectMeta: meta, Immutable: &immutable}
	switch is, err := op.Secrets.In(secret.Namespace).Cached().Get(ctx, secret.Name); {
	case apierrors.IsNotFound(err):
		if err := lostSecret(c, meta.Name); err != nil {
			return nil, err
		}
		secret.Data = content()
	case err != nil:
		return nil, err
	default:
		secret.Data = is.Data
	}
	return secret, nil
}

// aboutKeys returns the metadata of the keys. They say whether the programs serve TLS, and which
// members there are.
func aboutKeys(c *api.NeonCluster) metav1.ObjectMeta {
	m := named(c, KeysName(c.Name))
	m.Annotations = map[string]string{membersAnnotation: members(&c.Status)}
	switch at := stageOf(c); {
	case at == secured:
		m.Annotations[tlsAnnotation] = byTLS
	case at >= moving:
		m.Annotations[tlsAnnotation] = byEither
	}
	return m
}

// named returns the metadata of a child that belongs to no component.
func named(c *api.NeonCluster, name string) metav1.ObjectMeta {
	m := about(c, "cluster")
	m.Name = name
	return m
}
