package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// compute is the program in an endpoint's pod, as a thing of the plan.
type compute struct {
	endpoint kube.Key
	text     []byte        // of the wanted configuration
	hash     string        // of its meaning
	restart  string        // of all that needs another pod
	pull     string        // the Secrets for pulling the image of another pod
	podReady bool          // as its StatefulSet has it, or had it when the compute was asked
	after    time.Time     // answers from before are of another compute
	limit    time.Duration // after which it is idle, 0 for never

	status upstream.ComputeStatus
	// applied is the hash of the configuration that the compute runs with and the time of its
	// start, empty if that is not known.
	applied string
	silence error     // why it does not answer
	seen    time.Time // when it was asked
	since   time.Time // since when it is known to have this status
	slow    time.Duration
	follow  time.Duration // after which a replica is looked at again, 0 if it is none
	lagging string        // why it does not follow its branch
	version int32         // that its project wants of PostgreSQL
	pod     *corev1.Pod   // unless it runs; nil if there is none
	made    string        // the part of its pod that needs a restart, empty if that is not known
}

// limits are the times that a compute may stay in a status.
type limits struct {
	// outdated is the time after which a compute that is still starting is restarted, if it was
	// started with a configuration that is not the wanted one any more. It may look for a
	// pageserver that has moved away, which it would go on with for minutes.
	outdated time.Duration
	// slow is the time after which the condition says that a start takes long. A compute with the
	// wanted configuration is not restarted: another start would have to wait for the same.
	slow time.Duration
	// failed is the time after which a compute that has failed is restarted. One that has failed
	// to start ends by itself before, after 30 s. One that has failed to take a configuration
	// would stay so.
	failed time.Duration
	// lag is the time by which a replica may be late, and followed is the time between two looks at
	// one that is not late.
	lag, followed time.Duration
}

func (op *Operator) wantedCompute(e *api.NeonEndpoint, configuration *corev1.Secret, set *appsv1.StatefulSet) *compute {
	_, stopped := op.moments.of(kube.KeyOf(e))
	want := &compute{
		endpoint: kube.KeyOf(e), text: configuration.Data[configFile], after: stopped,
		hash:    configuration.Annotations[place.HashAnnotation],
		restart: set.Spec.Template.Annotations[restartAnnotation], podReady: set.Status.ReadyReplicas > 0,
		limit: idleLimit(e), pull: set.Spec.Template.Annotations[pullAnnotation],
	}
	op.moments.pod(want.endpoint, want.podReady)
	return want
}

// computes asks and configures the computes of all endpoints.
func (op *Operator) computes() *plan.Things[compute] {
	return &plan.Things[compute]{
		Kind:    "Compute",
		Target:  &plan.Target{Name: "the compute", Concurrency: 32, Timeout: 30 * time.Second},
		Name:    func(c *compute) string { return c.endpoint.String() },
		Observe: op.observe,
		Create: func(context.Context, plan.Ref, *compute) (*compute, error) {
			return nil, fmt.Errorf("%w: a compute is only observed", plan.ErrRefused)
		},
		Differs: func(is, want *compute) bool {
			switch {
			case is.seen.Before(want.after), is.outdated(want):
				return true
			case is.podReady != want.podReady, is.limit != want.limit:
				return true // it is asked again: another compute may be there, or none
			case is.silence != nil:
				return false
			}
			return is.applied != want.hash+"@"+is.startTime()
		},
		Update: op.configure,
		// The pod ends with its StatefulSet.
		Delete:     func(context.Context, plan.Ref) error { return nil },
		Idempotent: true,
		Adopt:      func(plan.Ref, *compute) bool { return true },
		Poll:       time.Minute,
		Next:       (*compute).next,
	}
}

// next returns the time after which a compute must be asked again, 0 for the time after which all are.
func (c *compute) next() time.Duration {
	idle := c.untilIdle()
	if c.follow > 0 && (idle == 0 || c.follow < idle) {
		return c.follow
	}
	return idle
}

// untilIdle returns the time after which a compute is idle if nobody uses it until then, 0 for never.
func (c *compute) untilIdle() time.Duration {
	if c.limit == 0 || c.status.Status != upstream.ComputeRunning {
		return 0
	}
	return max(c.lastActive().Add(c.limit).Sub(c.seen), 5*time.Second)
}

// observe asks a compute for its status.
func (op *Operator) observe(ctx context.Context, r plan.Ref) (*compute, error) {
	key, err := cluster.ParseKey(r.Name)
	if err != nil {
		return nil, err
	}
	e, err := op.Endpoints.In(key.Namespace).Cached().Get(ctx, key.Name)
	if err != nil {
		return nil, err
	}
	_, p, err := op.placeOf(ctx, e)
	if err != nil {
		return nil, err
	}
	is := &compute{
		endpoint: key, seen: time.Now(), slow: op.limits.slow, version: p.Spec.PostgresVersion,
		podReady: op.moments.podReady(key), limit: idleLimit(e),
	}
	client, err := op.clientAt(ctx, e, p, hostName(e))
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if is.status, is.silence = client.Status(limited); is.silence == nil {
		is.applied = op.applied(e, is)
	}
	runs := is.silence == nil && is.status.Status == upstream.ComputeRunning
	is.since, is.made = op.moments.entered(key, is.startTime()+" "+is.status.Status, is.seen)
	looks := !runs || is.made == ""
	if looks {
		is.pod, err = op.pod(ctx, e)
	}
	switch {
	case !runs || err != nil:
		return is, err
	case looks && (is.pod == nil || is.pod.DeletionTimestamp != nil):
		return op.ending(is), nil
	case looks:
		is.made = is.pod.Annotations[restartAnnotation]
		op.moments.made(key, is.made)
	}
	if e.Spec.Type == api.ReadOnly {
		is.follow = op.limits.followed
		is.lagging = op.lagging(ctx, e, is.startTime(), is.seen)
	}
	return is, nil
}

// ending returns what is to be said of a compute that answers, and whose pod is ending or gone. The next
// compute begins after that.
func (op *Operator) ending(is *compute) *compute {
	op.moments.leave(is.endpoint)
	now := *is
	now.status, now.applied, now.silence = upstream.ComputeStatus{}, "", errEnding
	return &now
}

// pod returns the pod of an endpoint, nil if there is none.
func (op *Operator) pod(ctx context.Context, e *api.NeonEndpoint) (*corev1.Pod, error) {
	p, err := op.Pods.In(e.Namespace).Get(ctx, podName(e))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return p, err
}

// applied returns the configuration that is known to be applied: that of the endpoint's status,
// if the compute has not been restarted since.
func (op *Operator) applied(e *api.NeonEndpoint, is *compute) string {
	hash, start, ok := cutLast(e.Status.Applied, '@')
	if !ok || start != is.startTime() {
		return ""
	}
	return hash + "@" + start
}

// outdated reports that a compute runs in a pod that must be replaced. The pod of one that runs is not
// looked at again: it stays as it was made. Other Secrets for pulling the image replace only a pod that has
// no image yet.
func (c *compute) outdated(want *compute) bool {
	switch {
	case c.pod == nil:
		return c.made != "" && c.made != want.restart
	case c.pod.DeletionTimestamp != nil:
		return false
	case c.pod.Annotations[restartAnnotation] != want.restart:
		return true
	}
	return lacksImage(c.pod) && c.pod.Annotations[pullAnnotation] != want.pull
}

// startedWith reports that a compute's pod was made with a configuration. A change that needs no
// restart leaves a pod alone, which has read the file of then.
func (c *compute) startedWith(hash string) bool {
	return c.pod == nil || c.pod.Annotations[place.HashAnnotation] == hash
}

// configure brings a compute to the wanted configuration: by its call for that if the compute runs,
// or by another pod.
func (op *Operator) configure(ctx context.Context, r plan.Ref, is, want *compute) (*compute, error) {
	e, err := op.Endpoints.In(want.endpoint.Namespace).Cached().Get(ctx, want.endpoint.Name)
	if err != nil {
		return nil, err
	}
	age := is.seen.Sub(is.since)
	switch s := is.status.Status; {
	case is.outdated(want):
		if now, err := op.replace(ctx, e, is, want); err != nil || now != nil {
			return now, err
		}
		op.moments.leave(is.endpoint) // it is in another pod than it was
		return op.observe(ctx, r)
	case is.silence != nil:
		return is, nil //nolint:nilerr // it is what was seen of the compute
	case is.applied == want.hash+"@"+is.startTime():
		return is, nil // it was asked only
	case s == upstream.ComputeRunning || s == upstream.ComputeEmpty:
		return op.reconfigure(ctx, e, r, is, want)
	case s == upstream.ComputeFailed && age >= op.limits.failed,
		s != upstream.ComputeFailed && !is.startedWith(want.hash) && age >= op.limits.outdated:
		return op.restart(ctx, is)
	}
	return is, nil
}

// reconfigure sends a compute that runs the wanted configuration, unless it needs another pod.
func (op *Operator) reconfigure(ctx context.Context, e *api.NeonEndpoint, r plan.Ref, is, want *compute) (*compute, error) {
	if now, err := op.replace(ctx, e, is, want); err != nil || now != nil {
		return now, err
	}
	_, p, err := op.placeOf(ctx, e)
	if err != nil {
		return nil, err
	}
	client, err := op.clientAt(ctx, e, p, hostName(e))
	if err != nil {
		return nil, err
	}
	if err := client.Configure(ctx, json.RawMessage(want.text)); err != nil {
		return nil, fmt.Errorf("configure compute: %w", err)
	}
	after, err := op.observe(ctx, r)
	if err == nil && after.silence == nil && after.startTime() == is.startTime() {
		after.applied = want.hash + "@" + after.startTime()
	}
	return after, err
}

// replace restarts a compute whose pod must be replaced. It returns nothing for one whose pod is as wanted.
func (op *Operator) replace(ctx context.Context, e *api.NeonEndpoint, is, want *compute) (*compute, error) {
	pod, err := op.pod(ctx, e)
	if err != nil {
		return nil, err
	}
	now := *is
	now.pod = pod
	switch {
	case now.pod == nil || now.pod.DeletionTimestamp != nil:
		return op.ending(is), nil
	case now.outdated(want):
		return op.restart(ctx, &now)
	}
	return nil, nil
}

// restart deletes the pod of a compute. The StatefulSet makes another one when it is gone, as
// its template has it then.
func (op *Operator) restart(ctx context.Context, is *compute) (*compute, error) {
	p := is.pod
	if p == nil || p.DeletionTimestamp != nil {
		return is, nil
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
	err := op.Pods.In(p.Namespace).Delete(ctx, p.Name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return nil, fmt.Errorf("restart compute: %w", err)
	}
	op.moments.leave(is.endpoint)
	return &compute{
		endpoint: is.endpoint, seen: is.seen, since: is.since, podReady: is.podReady, limit: is.limit,
		silence: errRestarted,
	}, nil
}

// errRestarted is the silence of a compute whose pod was just deleted, and errEnding of one that answers
// although its pod was deleted.
var (
	errRestarted = errors.New("it is being restarted")
	errEnding    = errors.New("its pod is ending")
)

// hostName is that of an endpoint's compute, ready or not.
func hostName(e *api.NeonEndpoint) string {
	return fmt.Sprintf("%s.%s.svc", computeName(e), e.Namespace)
}

// clientAt returns the client of the compute of a project's endpoint, at a host or an address.
func (op *Operator) clientAt(
	ctx context.Context, e *api.NeonEndpoint, p *api.NeonProject, host string,
) (*upstream.Compute, error) {
	key, err := op.Clients.Key(ctx, kube.Key{Namespace: e.Namespace, Name: p.Spec.Cluster})
	if err != nil {
		return nil, err
	}
	return upstream.NewCompute(upstream.Config{
		URL:  "http://" + net.JoinHostPort(host, strconv.Itoa(httpPort)),
		HTTP: op.Clients.HTTP, Sign: key.Sign,
	}, e.Name), nil
}

// placeOf returns the branch and the project of an endpoint.
func (op *Operator) placeOf(ctx context.Context, e *api.NeonEndpoint) (*api.NeonBranch, *api.NeonProject, error) {
	b, err := op.Branches.In(e.Namespace).Cached().Get(ctx, e.Spec.Branch)
	if err != nil {
		return nil, nil, err
	}
	p, err := op.Projects.In(e.Namespace).Cached().Get(ctx, b.Spec.Project)
	return b, p, err
}

func (c *compute) startTime() string { return c.status.StartTime.UTC().Format(time.RFC3339Nano) }

// lastActive returns the time since when a compute is idle. Sessions that were short go unseen
// by a compute, so that its start counts too.
func (c *compute) lastActive() time.Time {
	if c.status.LastActive != nil && c.status.LastActive.After(c.status.StartTime) {
		return *c.status.LastActive
	}
	return c.status.StartTime
}

// lacksImage reports that a pod cannot start because its image cannot be had.
func lacksImage(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		if s.State.Waiting == nil {
			return false
		}
		switch s.State.Waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			return true
		}
		return false
	})
}

// pullAdvice is a remedy for an image that cannot be had.
func pullAdvice(p *corev1.Pod) string {
	if !lacksImage(p) {
		return ""
	}
	return ": correct spec.computeImages or spec.imagePullSecrets of the NeonCluster, " +
		"or make the image available to the node"
}

// failAdvice says where to look if a compute has failed. Another version of PostgreSQL than that of
// the data says so in the log only.
func (c *compute) failAdvice() string {
	if c.pod == nil || len(c.pod.Spec.Containers) == 0 {
		return ""
	}
	return fmt.Sprintf(". Look at the log of pod %s. Its image, %s, must be one of PostgreSQL %d",
		c.pod.Name, c.pod.Spec.Containers[0].Image, c.version)
}

// computeReady judges a compute. podReady says whether its Service leads clients to it.
func computeReady(c *compute, podReady bool) ready.State {
	wait := func(message string) ready.State { return ready.State{Phase: ready.Waiting, Message: message} }
	status := c.status.Status
	switch {
	case errors.Is(c.silence, errRestarted), errors.Is(c.silence, errEnding):
		return wait(c.silence.Error())
	case c.silence != nil && c.pod == nil:
		return wait("it has no pod")
	case c.silence != nil && !ready.Is(c.pod):
		return wait("pod " + c.pod.Name + ": " + ready.Reason(c.pod) + pullAdvice(c.pod))
	case c.silence != nil:
		return wait("it does not answer: " + c.silence.Error())
	case c.status.Error != nil && *c.status.Error != "":
		return wait("it is " + status + ": " + *c.status.Error + c.failAdvice())
	case status != upstream.ComputeRunning && c.seen.Sub(c.since) >= c.slow && c.slow > 0:
		return wait(fmt.Sprintf("it is %s for longer than %s: look at the log of its pod, and whether its "+
			"pageservers and most of its safekeepers are ready", status, c.slow))
	case status != upstream.ComputeRunning:
		return wait("it is " + status)
	case c.applied == "":
		return wait("its configuration is not applied")
	case !podReady:
		return wait("its pod is not ready")
	case c.lagging != "":
		return wait(c.lagging)
	}
	return ready.State{Phase: ready.Ready}
}
