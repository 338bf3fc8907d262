package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/policy"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// A stage is how far a cluster is on its way from programs without TLS to programs with TLS only. The
// programs of two neighbouring stages can talk to each other. So a cluster goes to the next stage when all
// programs have been restarted for the present one. See crossing.go for the addresses.
//
//	stage     broker and storage controller   safekeepers and pageservers
//	plain     serve no TLS                    serve no TLS
//	offering  serve both                      the same
//	joining   the same                        serve both, call those two with TLS
//	moving    serve TLS only, call with TLS   the same
//	closing   the same                        serve TLS only
//	secured   the same                        the same
//
// TLS is removed by the same stages, backwards.
type stage int

const (
	plain stage = iota
	offering
	joining
	moving
	closing
	secured
)

// changing reports that the stage is one between plain and secured.
func (s stage) changing() bool { return s > plain && s < secured }

// steps are the names of the stages in a cluster's status.
var steps = []string{"", "Offering", "Joining", "Moving", "Closing", "On"}

// stageOf returns the stage of a cluster.
func stageOf(c *api.NeonCluster) stage {
	switch s := c.Status.TLS; {
	case s != nil:
		return max(plain, stage(slices.Index(steps, s.Step)))
	case c.Spec.TLS != nil:
		return secured
	}
	return plain
}

// IssuerOf returns the issuer of a cluster's certificates, nil if they are of the cluster's own authority.
func IssuerOf(c *api.NeonCluster) *api.Issuer {
	switch {
	case c.Spec.TLS != nil:
		return c.Spec.TLS.Issuer
	case c.Status.TLS != nil:
		return c.Status.TLS.Issuer
	}
	return nil
}

// turnTo notes in the status of a cluster which way its TLS changes. If that is another way than before,
// the cluster goes back at once: its programs are of the two stages between which it turns.
func (op *Operator) turnTo(ctx context.Context, c *api.NeonCluster) error {
	wanted := c.Spec.TLS != nil
	if c.Status.TLS == nil {
		at, err := op.foundStage(ctx, c)
		switch {
		case err != nil:
			return err
		case at == plain && !wanted:
			return nil
		}
		c.Status.TLS = &api.TLSStatus{Step: steps[at], Removing: at == plain}
	}
	s := c.Status.TLS
	if wanted {
		s.Issuer = c.Spec.TLS.Issuer
	}
	if s.Removing == wanted {
		s.Removing = !wanted
		goOnTo(c)
	}
	return nil
}

// foundStage returns the stage of a cluster whose status has none: it is new, or its keys tell.
func (op *Operator) foundStage(ctx context.Context, c *api.NeonCluster) (stage, error) {
	keys, err := op.Secrets.In(c.Namespace).Cached().Get(ctx, KeysName(c.Name))
	switch {
	case apierrors.IsNotFound(err) && c.Spec.TLS != nil:
		return secured, nil
	case err != nil:
		return plain, unlessMissing(err)
	}
	switch keys.Annotations[tlsAnnotation] {
	case byTLS:
		return secured, nil
	case byEither:
		return moving, nil
	}
	return plain, nil
}

// goOnTo takes a cluster to the next stage of its way.
func goOnTo(c *api.NeonCluster) {
	s, next := c.Status.TLS, stageOf(c)+1
	if s.Removing {
		next -= 2
	}
	if next <= plain {
		c.Status.TLS = nil
		return
	}
	s.Step = steps[min(next, secured)]
}

// change is a stage that is not the last one, as a thing of the plan. It ends when all programs have been
// restarted, and nothing hinders the next one.
type change struct {
	cluster  kube.Key
	at       stage
	removing bool
	members  []int64       // the ids of safekeepers
	restarts func() string // says which program is not restarted yet, empty if all are

	waits string
	done  bool
}

func (c *change) busy() bool { return c.at.changing() }

// change describes the stage of a cluster's TLS, if it is one of a change.
func (op *Operator) change(
	p *plan.Plan, c *api.NeonCluster, controller, broker *plan.Node[appsv1.Deployment], keepers keeperNodes, servers serverNodes,
) *plan.Node[change] {
	state := &change{
		cluster: kube.KeyOf(c), at: stageOf(c), removing: c.Status.TLS != nil && c.Status.TLS.Removing, members: safekeeperIDs(c),
	}
	state.restarts = func() string {
		switch {
		case keepers.state == nil || keepers.state.busy() || servers.state == nil || servers.state.busy():
			return "the safekeepers and pageservers are restarted"
		case len(keepers.state.leaving) > 0:
			return fmt.Sprintf("safekeeper %d leaves", keepers.state.leaving[0])
		}
		var sets []*plan.Node[appsv1.StatefulSet]
		for _, id := range safekeeperIDs(c) {
			sets = append(sets, keepers.sets.Key(fmt.Sprint(id)))
		}
		for _, id := range pageserverIDs(c) {
			sets = append(sets, servers.sets.Key(fmt.Sprint(id)))
		}
		for _, n := range sets {
			if is := n.Last(); is == nil || !runs(is) {
				return "the safekeepers and pageservers are restarted"
			}
		}
		return ""
	}
	return plan.Step(p, "tls", op.changeThings, func(plan.Inputs) (*change, error) { return state, nil }).
		Needs(controller, broker, keepers.registered, servers.registered).
		ReadyWhen(func(c *change) ready.State {
			if c.waits == "" {
				return ready.State{Phase: ready.Ready}
			}
			return ready.State{Phase: ready.Waiting, Message: c.waits}
		}).When(func(plan.Inputs) bool { return state.busy() })
}

// reportChange begins the next stage when one is over. The status is stored before the programs change.
func reportChange(c *api.NeonCluster, n *plan.Node[change]) {
	if is := n.Last(); is != nil && is.done && c.Status.TLS != nil && is.at == stageOf(c) {
		goOnTo(c)
	}
}

// changes looks whether stages are over.
func (op *Operator) changes() *plan.Things[change] {
	return &plan.Things[change]{
		Kind:   "TLSChange",
		Target: op.controllerTarget,
		Name:   func(c *change) string { return c.cluster.String() },
		Observe: func(_ context.Context, r plan.Ref) (*change, error) {
			cluster, err := ParseKey(r.Name)
			return &change{cluster: cluster, waits: "it is looked at"}, err
		},
		Create: func(context.Context, plan.Ref, *change) (*change, error) {
			return nil, fmt.Errorf("%w: there is a change already", plan.ErrRefused)
		},
		Differs: func(_, want *change) bool { return want.busy() },
		Update: func(ctx context.Context, _ plan.Ref, _, want *change) (*change, error) {
			is := *want
			switch waits, err := op.hinders(ctx, want); {
			case err != nil:
				is.waits = err.Error() // it is tried again
			case waits != "":
				is.waits = waits
			default:
				is.done, is.waits = true, "the step "+steps[want.at]+" is over"
			}
			return &is, nil
		},
		Delete:     func(context.Context, plan.Ref) error { return nil },
		Idempotent: true,
		Adopt:      func(plan.Ref, *change) bool { return true },
		Poll:       5 * time.Second,
	}
}

// hinders says why the next stage of a change cannot begin, empty if it can.
func (op *Operator) hinders(ctx context.Context, c *change) (string, error) {
	if waits := c.restarts(); waits != "" {
		return waits, nil
	}
	// Upstream's storage controller ends at its start if it shall call those with TLS that have no port for it.
	sc, err := op.Clients.Controller(ctx, c.cluster)
	if err != nil {
		return "", err
	}
	nodes, err := sc.Nodes(ctx)
	if err != nil {
		return "", fmt.Errorf("list pageservers: %w", err)
	}
	want := securePort(c.at, PageserverHTTPPort)
	for _, n := range nodes {
		if (n.HTTPSPort == nil) != (want == nil) || want != nil && *n.HTTPSPort != *want {
			return fmt.Sprintf("pageserver %d is about to register its port with TLS", n.ID), nil
		}
	}
	switch {
	case c.removing:
		return op.demands(ctx, c.cluster)
	case c.at == joining:
		return "", op.registerFormer(ctx, sc, c.members)
	}
	return "", nil
}

// registerFormer gives a port with TLS to safekeepers that have left, too. The storage controller cannot forget
// them.
func (op *Operator) registerFormer(ctx context.Context, sc *upstream.Controller, members []int64) error {
	all, err := sc.Registrations(ctx)
	if err != nil {
		return fmt.Errorf("list safekeepers: %w", err)
	}
	port := SafekeeperHTTPPort
	for _, r := range all {
		if r.HTTPSPort != nil {
			continue
		}
		if slices.Contains(members, r.ID) {
			return fmt.Errorf("safekeeper %d is registered without a port with TLS", r.ID)
		}
		r.HTTPSPort = &port
		if err := sc.Register(ctx, r); err != nil {
			return fmt.Errorf("register safekeeper %d, which has left: %w", r.ID, err)
		}
	}
	return nil
}

// demands says which compute has a certificate of the cluster, empty if none has.
func (op *Operator) demands(ctx context.Context, cluster kube.Key) (string, error) {
	computes := op.Pods.In(cluster.Namespace).Labeled(componentLabel + "=compute," + policy.ClusterLabel + "=" + cluster.Name)
	for pod, err := range computes.List(ctx) {
		if err != nil {
			return "", fmt.Errorf("list computes: %w", err)
		}
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "tls" }) {
			return fmt.Sprintf("compute %s is about to be restarted without TLS", pod.Name), nil
		}
	}
	return "", nil
}
