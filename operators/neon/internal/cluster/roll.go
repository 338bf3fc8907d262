package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// The steps of a pageserver's restart. Which one is next follows from the pod and from the storage
// controller. The record in the cluster's status adds only since when it lasts.
const (
	draining   = "Draining"
	restarting = "Restarting"
	filling    = "Filling"
)

// roll restarts pageservers whose pods are older than their StatefulSets, as a thing of the
// plan. It hands the data of one to the others, deletes its pod, and hands data back. A
// pageserver without another one is just restarted.
type roll struct {
	cluster  kube.Key
	all      []int64 // the pageservers that stay
	outdated []int64
	limit    time.Duration // of a drain and of a fill
	now      *api.Roll
	waits    string
}

func (r *roll) busy() bool { return len(r.outdated) > 0 || r.now != nil }

// rollOf returns the state of the restarts of a cluster's pageservers.
func (op *Operator) rollOf(ctx context.Context, c *api.NeonCluster) (*roll, error) {
	r := &roll{
		cluster: kube.KeyOf(c), all: pageserverIDs(c),
		limit: time.Duration(c.Spec.Pageservers.DrainTimeoutSeconds) * time.Second,
	}
	if at := c.Status.PageserverRoll; at != nil && slices.Contains(r.all, at.ID) {
		copied := *at
		r.now = &copied
	}
	for _, id := range r.all {
		is, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, pageserverName(c.Name, id))
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		case isOutdated(is):
			r.outdated = append(r.outdated, id)
		}
	}
	return r, nil
}

// isOutdated reports that the pod of a StatefulSet is there and was made from another template.
func isOutdated(s *appsv1.StatefulSet) bool {
	return s.Status.ObservedGeneration >= s.Generation && s.Status.Replicas > 0 && s.Status.UpdatedReplicas < s.Status.Replicas
}

// rolls restarts pageservers.
func (op *Operator) rolls() *plan.Things[roll] {
	return &plan.Things[roll]{
		Kind:   "PageserverRoll",
		Target: op.controllerTarget,
		Name:   func(r *roll) string { return r.cluster.String() },
		Observe: func(_ context.Context, r plan.Ref) (*roll, error) {
			cluster, err := ParseKey(r.Name)
			return &roll{cluster: cluster, waits: "it is looked at"}, err
		},
		Create: func(context.Context, plan.Ref, *roll) (*roll, error) {
			return nil, fmt.Errorf("%w: there is a restart already", plan.ErrRefused)
		},
		Differs: func(_, want *roll) bool { return want.busy() },
		Update: func(ctx context.Context, _ plan.Ref, _, want *roll) (*roll, error) {
			is := *want // a step that begins gets a Roll of its own
			sc, err := op.Clients.Controller(ctx, want.cluster)
			if err == nil {
				err = op.goOn(ctx, sc, &is, metav1.Now())
			}
			if err != nil {
				is.waits = err.Error() // it is tried again
			}
			return &is, nil
		},
		Delete:     func(context.Context, plan.Ref) error { return nil },
		Idempotent: true,
		Adopt:      func(plan.Ref, *roll) bool { return true },
		Poll:       5 * time.Second,
	}
}

func rollReady(r *roll) ready.State {
	if r.waits == "" {
		return ready.State{Phase: ready.Ready}
	}
	return ready.State{Phase: ready.Waiting, Message: r.waits}
}

// enter begins a step.
func (r *roll) enter(id int64, step string, now metav1.Time) {
	r.now = &api.Roll{ID: id, Step: step, Since: now}
}

func (r *roll) wait(format string, args ...any) error {
	r.waits = fmt.Sprintf("pageserver %d: ", r.now.ID) + fmt.Sprintf(format, args...)
	return nil
}

// goOn does the next request of a restart.
func (op *Operator) goOn(ctx context.Context, sc *upstream.Controller, r *roll, now metav1.Time) error {
	r.waits = ""
	list, err := sc.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list pageservers: %w", err)
	}
	nodes := map[int64]upstream.Node{}
	for _, n := range list {
		nodes[n.ID] = n
	}
	if r.now == nil {
		id, waits := r.choose(nodes)
		if id == 0 {
			r.waits = waits
			return nil
		}
		r.enter(id, draining, now)
	}
	pod, old, err := op.podOf(ctx, r.cluster, r.now.ID)
	at := sight{pod: pod, now: now, late: now.Sub(r.now.Since.Time) >= r.limit, servers: len(nodes)}
	at.node, at.known = nodes[r.now.ID]
	switch {
	case err != nil:
		return err
	case pod == nil || pod.DeletionTimestamp != nil:
		if r.now.Step != restarting {
			r.enter(r.now.ID, restarting, now)
		}
		return r.wait("its pod is being replaced")
	case old:
		return op.empty(ctx, sc, r, at)
	}
	return refill(ctx, sc, r, at)
}

// sight is a pageserver as it is seen before the next request of its restart.
type sight struct {
	pod     *corev1.Pod
	node    upstream.Node
	known   bool // the storage controller knows it
	servers int  // that the storage controller knows
	now     metav1.Time
	late    bool // the step lasts longer than it may
}

// choose returns the pageserver to restart next, 0 if all must wait.
func (r *roll) choose(nodes map[int64]upstream.Node) (id int64, waits string) {
	// One that an operator which has ended began with is first, and then one that is down.
	for _, id := range r.outdated {
		if s := nodes[id].Scheduling; s == upstream.ScheduleDraining || s == upstream.SchedulePauseForRestart {
			return id, ""
		}
	}
	for _, id := range r.outdated {
		if n, known := nodes[id]; !known || n.Availability == upstream.NodeOffline {
			return id, ""
		}
	}
	for _, id := range r.all {
		n, known := nodes[id]
		switch {
		case !known:
			return 0, fmt.Sprintf("pageserver %d is not registered: no other one is restarted", id)
		case n.Availability != upstream.NodeActive:
			return 0, fmt.Sprintf("pageserver %d is %s: no other one is restarted", id, n.Availability)
		}
	}
	if len(r.outdated) == 0 {
		return 0, ""
	}
	return r.outdated[0], ""
}

// empty hands the data of a pageserver to the others, and deletes its pod when that is done, or
// cannot be done in time.
func (op *Operator) empty(ctx context.Context, sc *upstream.Controller, r *roll, at sight) error {
	if r.now.Step != draining {
		r.enter(r.now.ID, draining, at.now) // its template has changed again
		at.late = r.limit == 0
	}
	n := at.node
	switch {
	case !at.known, n.Availability == upstream.NodeOffline, at.servers < 2, n.Scheduling == upstream.SchedulePauseForRestart:
		return op.restart(ctx, r, at)
	case at.late:
		if err := cancelOperation(ctx, sc, n); err != nil {
			return err
		}
		return op.restart(ctx, r, at)
	case n.Availability != upstream.NodeActive:
		return r.wait("it is %s, and is restarted when it is Active", n.Availability)
	case n.Scheduling == upstream.ScheduleDraining:
		return r.wait("it hands its data to others")
	case n.Scheduling == upstream.ScheduleFilling:
		return r.wait("it is being filled")
	}
	// A drain that has failed, or that somebody has cancelled, is begun again.
	if err := sc.DrainNode(ctx, n.ID); err != nil && upstream.Status(err) != http.StatusConflict {
		return r.wait("it is restarted without a drain after %s: %v", r.limit, err)
	}
	return r.wait("it hands its data to others")
}

// cancelOperation ends the drain or fill of a pageserver, if there is one.
func cancelOperation(ctx context.Context, sc *upstream.Controller, n upstream.Node) error {
	var err error
	switch n.Scheduling {
	case upstream.ScheduleDraining:
		err = sc.CancelDrain(ctx, n.ID)
	case upstream.ScheduleFilling:
		err = sc.CancelFill(ctx, n.ID)
	}
	if s := upstream.Status(err); s == http.StatusPreconditionFailed || s == http.StatusNotFound {
		return nil // it is over
	}
	return err
}

// restart deletes the pod of a pageserver.
func (op *Operator) restart(ctx context.Context, r *roll, at sight) error {
	err := op.Pods.In(at.pod.Namespace).Delete(ctx, at.pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &at.pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", at.pod.Name, err)
	}
	r.enter(r.now.ID, restarting, at.now)
	return r.wait("its pod is being replaced")
}

// refill waits for a pageserver that was restarted, and hands data back to it.
func refill(ctx context.Context, sc *upstream.Controller, r *roll, at sight) error {
	if r.now.Step == draining {
		r.enter(r.now.ID, restarting, at.now) // somebody has restarted it
		at.late = false
	}
	n := at.node
	switch {
	case !at.known:
		return r.wait("it has not registered itself")
	case n.Availability != upstream.NodeActive:
		return r.wait("it is %s", n.Availability)
	case !ready.Is(at.pod):
		return r.wait("its pod is not ready")
	case n.Scheduling == upstream.SchedulePauseForRestart:
		if err := sc.ConfigureNode(ctx, n.ID, upstream.ScheduleActive); err != nil {
			return err
		}
		return r.wait("it is used again")
	case n.Scheduling == upstream.ScheduleFilling && !at.late:
		if r.now.Step == restarting {
			r.enter(n.ID, filling, at.now)
		}
		return r.wait("it takes data back")
	case n.Scheduling == upstream.ScheduleFilling:
		if err := cancelOperation(ctx, sc, n); err != nil {
			return err
		}
	case r.now.Step == restarting && r.limit > 0:
		under, err := fill(ctx, sc, n.ID)
		switch {
		case under:
			r.enter(n.ID, filling, at.now)
			return r.wait("it takes data back")
		case upstream.Retryable(err) && !at.late:
			return r.wait("it does not take data back yet: %v", err)
		}
	}
	r.now, r.waits = nil, ""
	if len(r.outdated) > 0 {
		r.waits = "the next one is about to be restarted"
	}
	return nil
}

// fill begins to hand data to a pageserver. It reports whether that is under way.
func fill(ctx context.Context, sc *upstream.Controller, id int64) (under bool, err error) {
	err = sc.FillNode(ctx, id)
	switch upstream.Status(err) {
	case http.StatusPreconditionFailed, http.StatusNotFound:
		return false, nil // there is no other one, or it is busy
	case http.StatusConflict:
		return true, nil
	}
	return err == nil, err
}

// podOf returns the pod of a pageserver, nil if there is none, and whether it was made from
// another template than that of its StatefulSet.
func (op *Operator) podOf(ctx context.Context, cluster kube.Key, id int64) (pod *corev1.Pod, old bool, err error) {
	name := pageserverName(cluster.Name, id)
	set, err := op.StatefulSets.In(cluster.Namespace).Cached().Get(ctx, name)
	if err != nil {
		return nil, false, fmt.Errorf("get StatefulSet of pageserver %d: %w", id, err)
	}
	pod, err = op.Pods.In(cluster.Namespace).Get(ctx, name+"-0")
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get pod of pageserver %d: %w", id, err)
	case set.Status.ObservedGeneration < set.Generation:
		return nil, false, fmt.Errorf("the StatefulSet of pageserver %d is about to be seen", id)
	}
	revision := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	return pod, revision != set.Status.UpdateRevision, nil
}
