package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// writer is the right of one endpoint to write to a timeline, as a thing of the plan. Two
// computes that write to a timeline break each other, even if the second only tries to start. A
// Lease of the timeline's name says which endpoint may: it is made and taken over only as it was
// seen, so that one of several endpoints gets it, whichever replica of the operator asks. Its
// holder keeps it while it is suspended, and gives it back when none of its pods is left.
//
// The Lease has no duration. A lost node keeps its pod in the API server until somebody says
// that it is gone, and so its endpoint keeps the Lease.
type writer struct {
	endpoint kube.Key
	uid      types.UID
	branch   string
	timeline string

	lost  bool     // the store of Leases has another holder of the wanted timeline, or none
	held  []string // timelines
	waits string   // why the wanted one may not be written to
}

// Labels of computes, and of the Leases of writers.
const (
	timelineLabel = "neon.pintle.dev/timeline"
	modeLabel     = "neon.pintle.dev/mode"
	endpointLabel = "neon.pintle.dev/endpoint"
	// branchAnnotation of a Lease names the branch of its timeline.
	branchAnnotation = "neon.pintle.dev/branch"
)

// writerPrefix is that of the Leases' names.
const writerPrefix = "neon-writer-"

// writerSelector selects the Leases of writers.
const writerSelector = timelineLabel + "," + endpointLabel

// identity is the holder of a Lease. An endpoint of the same name that is made later is another
// holder.
func identity(endpoint string, uid types.UID) string { return endpoint + "/" + string(uid) }

// writers handles the rights of all endpoints.
func (op *Operator) writers() *plan.Things[writer] {
	return &plan.Things[writer]{
		Kind:    "Writer",
		Name:    func(w *writer) string { return w.endpoint.String() },
		Observe: op.observeWriter,
		Create: func(context.Context, plan.Ref, *writer) (*writer, error) {
			return nil, fmt.Errorf("%w: a writer is only observed", plan.ErrRefused)
		},
		Differs: func(is, want *writer) bool {
			return want.lost || is.waits != "" || !slices.Equal(is.held, []string{want.timeline})
		},
		Update:     op.claim,
		Delete:     op.giveUp,
		Idempotent: true,
		Adopt:      func(plan.Ref, *writer) bool { return true },
		Poll:       10 * time.Minute,
	}
}

// lost reports whether the store of Leases has another holder of the wanted timeline, or none. It is
// read in each reconcile, which sends no request: somebody may have changed the Lease by hand.
func (op *Operator) lost(ctx context.Context, w *writer) (bool, error) {
	key := kube.Key{Namespace: w.endpoint.Namespace, Name: writerPrefix + w.timeline}
	l, err := op.Leases.Labeled(writerSelector).In(key.Namespace).Cached().Get(ctx, key.Name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && holder(l) != identity(w.endpoint.Name, w.uid), err
}

func writerReady(w *writer) ready.State {
	if w.waits != "" {
		return ready.State{Phase: ready.Waiting, Message: w.waits}
	}
	return ready.State{Phase: ready.Ready}
}

// observeWriter looks which timelines an endpoint may write to.
func (op *Operator) observeWriter(ctx context.Context, r plan.Ref) (*writer, error) {
	key, err := cluster.ParseKey(r.Name)
	if err != nil {
		return nil, err
	}
	is := &writer{endpoint: key, uid: r.Owner}
	for l, err := range op.Leases.In(key.Namespace).Labeled(endpointLabel + "=" + key.Name).List(ctx) {
		if err != nil {
			return nil, err
		}
		if holder(l) == identity(key.Name, r.Owner) {
			is.held = append(is.held, l.Labels[timelineLabel])
		}
	}
	slices.Sort(is.held)
	return is, nil
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// claim brings an endpoint to its timeline. It leaves any other one first: an endpoint that waits
// for another's timeline keeps none, so that two can change places.
func (op *Operator) claim(ctx context.Context, _ plan.Ref, is, want *writer) (*writer, error) {
	now := *want
	now.held, now.waits = slices.Clone(is.held), ""
	for _, timeline := range is.held {
		if timeline == want.timeline {
			continue
		}
		why, err := op.leave(ctx, want, timeline)
		if err != nil {
			return nil, err
		}
		if why != "" {
			now.waits = why
			return &now, nil
		}
		now.held = slices.DeleteFunc(now.held, func(t string) bool { return t == timeline })
	}
	why, err := op.acquire(ctx, want)
	if err != nil {
		return nil, err
	}
	if why == "" {
		now.held = []string{want.timeline}
		why, err = op.others(ctx, want)
	}
	now.waits = why
	return &now, err
}

// leave ends the compute of an endpoint on a timeline, and then gives the timeline back. Until then
// it returns the reason why it waits.
func (op *Operator) leave(ctx context.Context, w *writer, timeline string) (waits string, err error) {
	sets := op.StatefulSets.In(w.endpoint.Namespace)
	name := computeName(&api.NeonEndpoint{Object: kube.Object{ObjectMeta: metav1.ObjectMeta{Name: w.endpoint.Name}}})
	ending := "its compute on timeline " + timeline + " is ending"
	set, err := sets.Get(ctx, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	if err == nil && set.Labels[timelineLabel] == timeline {
		switch {
		case set.Spec.Replicas == nil || *set.Spec.Replicas > 0:
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":0}}`, set.UID)
			if _, err := sets.Patch(ctx, name, types.MergePatchType, patch); err != nil {
				return "", fmt.Errorf("end the compute on timeline %s: %w", timeline, err)
			}
			return ending, nil
		case set.Status.ObservedGeneration < set.Generation:
			return ending, nil
		}
	}
	pods, err := op.primaries(ctx, w.endpoint.Namespace, timeline, func(p *corev1.Pod) bool { return mine(p, w) })
	if err != nil || len(pods) > 0 {
		return ending, err
	}
	return "", op.release(ctx, w, timeline)
}

// release gives a timeline back.
func (op *Operator) release(ctx context.Context, w *writer, timeline string) error {
	leases := op.Leases.In(w.endpoint.Namespace)
	l, err := leases.Get(ctx, writerPrefix+timeline)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case holder(l) != identity(w.endpoint.Name, w.uid):
		return nil
	}
	err = leases.Delete(ctx, l.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("give timeline %s back: %w", timeline, err)
	}
	return nil
}

// acquire takes the Lease of a timeline, unless an endpoint has it that is there. Then it says so.
func (op *Operator) acquire(ctx context.Context, want *writer) (waits string, err error) {
	leases, me := op.Leases.In(want.endpoint.Namespace), identity(want.endpoint.Name, want.uid)
	l, err := leases.Get(ctx, writerPrefix+want.timeline)
	if apierrors.IsNotFound(err) {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: writerPrefix + want.timeline}}
		take(l, want)
		_, err = leases.Create(ctx, l)
		if apierrors.IsAlreadyExists(err) {
			return "another endpoint has just begun to write to branch " + want.branch, nil
		}
		return "", err
	}
	if err != nil || holder(l) == me {
		return "", err
	}
	name, uid, _ := strings.Cut(holder(l), "/")
	other, err := op.Endpoints.In(want.endpoint.Namespace).Get(ctx, name)
	switch {
	case err == nil && string(other.UID) == uid:
		return writes(name, l.Annotations[branchAnnotation], want.branch), nil
	case err != nil && !apierrors.IsNotFound(err):
		return "", err
	}
	// The holder is gone without giving the timeline back: somebody has removed its finalizer.
	if why, err := op.others(ctx, want); err != nil || why != "" {
		return why, err
	}
	seen := holder(l)
	_, err = leases.Modify(ctx, l.Name, func(l *coordinationv1.Lease) error {
		if holder(l) != seen {
			return errTaken
		}
		take(l, want)
		return nil
	})
	if errors.Is(err, errTaken) {
		return "another endpoint has just begun to write to branch " + want.branch, nil
	}
	return "", err
}

var errTaken = errors.New("another endpoint has the timeline")

func writes(endpoint, branch, wanted string) string {
	if branch != wanted {
		wanted = branch + ", which has the same timeline as branch " + wanted
	}
	return fmt.Sprintf("NeonEndpoint %s writes to branch %s: a branch has one endpoint of type ReadWrite. "+
		"Delete one of the two, or move one to another branch", endpoint, wanted)
}

// take makes an endpoint the holder of a Lease.
func take(l *coordinationv1.Lease, w *writer) {
	me, now := identity(w.endpoint.Name, w.uid), metav1.NowMicro()
	l.Labels = map[string]string{timelineLabel: w.timeline, endpointLabel: w.endpoint.Name}
	l.Annotations = map[string]string{branchAnnotation: w.branch}
	l.Spec.HolderIdentity, l.Spec.AcquireTime = &me, &now
}

// others says which compute of another endpoint still may write to a timeline.
func (op *Operator) others(ctx context.Context, w *writer) (waits string, err error) {
	ns := w.endpoint.Namespace
	for s, err := range op.StatefulSets.In(ns).Labeled(primaryOf(w.timeline)).List(ctx) {
		if err != nil {
			return "", err
		}
		if metav1.IsControlledBy(s, &metav1.ObjectMeta{UID: w.uid}) {
			continue
		}
		if s.Spec.Replicas == nil || *s.Spec.Replicas > 0 {
			return fmt.Sprintf("StatefulSet %s writes to branch %s", s.Name, w.branch), nil
		}
	}
	pods, err := op.primaries(ctx, ns, w.timeline, func(p *corev1.Pod) bool { return !mine(p, w) })
	if err != nil || len(pods) == 0 {
		return "", err
	}
	return fmt.Sprintf("pod %s still may write to branch %s", pods[0], w.branch), nil
}

// primaryOf selects the computes that write to a timeline.
func primaryOf(timeline string) string {
	return timelineLabel + "=" + timeline + "," + modeLabel + "=Primary"
}

// mine reports that a pod is of the writer's endpoint. A pod of this name is never there twice.
func mine(p *corev1.Pod, w *writer) bool {
	return p.Labels["app.kubernetes.io/instance"] == w.endpoint.Name
}

// primaries returns the names of pods that write to a timeline. A pod that has ended does not.
func (op *Operator) primaries(
	ctx context.Context, ns, timeline string, which func(*corev1.Pod) bool,
) (names []string, err error) {
	for p, err := range op.Pods.In(ns).Labeled(primaryOf(timeline)).List(ctx) {
		if err != nil {
			return nil, err
		}
		if which(p) && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// mayStart returns an error if a compute that writes is about to be started, and the API server
// says that another endpoint writes to its timeline. The plan has looked before, but may have done
// so minutes ago.
func (op *Operator) mayStart(ctx context.Context, e *api.NeonEndpoint, set *appsv1.StatefulSet) error {
	timeline := set.Labels[timelineLabel]
	if e.Spec.Type != api.ReadWrite || *set.Spec.Replicas == 0 {
		return nil
	}
	is, err := op.StatefulSets.In(set.Namespace).Cached().Get(ctx, set.Name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err == nil && is.Labels[timelineLabel] == timeline && is.Spec.Replicas != nil && *is.Spec.Replicas > 0:
		return nil
	}
	l, err := op.Leases.In(e.Namespace).Get(ctx, writerPrefix+timeline)
	switch {
	case err != nil:
		return fmt.Errorf("look for the writer of timeline %s: %w", timeline, err)
	case holder(l) != identity(e.Name, e.UID):
		return fmt.Errorf("timeline %s has another writer: %s", timeline, holder(l))
	}
	return nil
}

// giveUp gives all timelines of an endpoint back that is being deleted. Its compute was ended before.
func (op *Operator) giveUp(ctx context.Context, r plan.Ref) error {
	is, err := op.observeWriter(ctx, r)
	if err != nil {
		return err
	}
	for _, timeline := range is.held {
		why, err := op.leave(ctx, is, timeline)
		if err != nil {
			return err
		}
		if why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// ofWriter returns the endpoints that may wait for a timeline.
func (op *Operator) ofWriter(ctx context.Context, l *coordinationv1.Lease) (keys []kube.Key) {
	for b, err := range op.Branches.In(l.Namespace).Cached().All(ctx) {
		if err == nil && b.Status.TimelineID == l.Labels[timelineLabel] {
			keys = append(keys, op.serving(ctx, kube.KeyOf(b))...)
		}
	}
	return keys
}
