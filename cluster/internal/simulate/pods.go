package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod has the fields of a pod that a node reads.
type pod struct {
	kube.Object
	Spec struct {
		NodeName       string                    `json:"nodeName"`
		HostNetwork    bool                      `json:"hostNetwork"`
		RestartPolicy  corev1.RestartPolicy      `json:"restartPolicy"`
		InitContainers []container               `json:"initContainers"`
		Containers     []container               `json:"containers"`
		ReadinessGates []corev1.PodReadinessGate `json:"readinessGates"`
	} `json:"spec"`
	Status corev1.PodStatus `json:"status"`
}

type container struct {
	Name          string                         `json:"name"`
	Image         string                         `json:"image"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
}

type pods struct {
	view      kube.View[pod]
	informer  *kube.Informer
	nodes     *nodes
	addresses addresses
	timers    timers
	locks     [workers]sync.Mutex // a pod is worked on by one goroutine at a time
	seed      maphash.Seed
	logger    *slog.Logger
}

func newPods(ctx context.Context, client *kube.Client, n *nodes, logger *slog.Logger) *pods {
	view := kube.ViewOf[pod](client, kube.KindOf[corev1.Pod]()).Fielded("spec.nodeName!=")
	return &pods{view: view, informer: view.Open(ctx), nodes: n, seed: maphash.MakeSeed(), logger: logger}
}

// takeAddresses marks the addresses of an earlier run as used.
func (p *pods) takeAddresses(ctx context.Context) error {
	for o, err := range p.view.Cached().All(ctx) {
		if err != nil {
			return err
		}
		p.addresses.take(o.Status.PodIP, o.UID)
	}
	return nil
}

func (p *pods) shard(key kube.Key) int {
	return int(maphash.Comparable(p.seed, key) % workers)
}

// work handles every pod of shard i whenever it changes.
func (p *pods) work(ctx context.Context, i int) {
	for c := range p.informer.Changes(ctx) {
		if c.Type == kube.Synced || p.shard(c.Key) != i {
			continue
		}
		o, err := kube.DecodeNow[pod](c)
		switch {
		case err != nil:
			p.logger.Warn("read pod", "error", err)
		case c.Type == kube.Deleted:
			p.timers.clear(o.UID)
			p.addresses.free(o.Status.PodIP, o.UID)
		default:
			p.handle(ctx, o)
		}
	}
}

// handle performs the steps that are due for a pod, and sets a timer for the next one.
func (p *pods) handle(ctx context.Context, o *pod) {
	if !p.nodes.isOurs(o.Spec.NodeName) {
		return
	}
	key := kube.KeyOf(o)
	lock := &p.locks[p.shard(key)]
	lock.Lock()
	defer lock.Unlock()
	again, err := p.step(ctx, o)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), ctx.Err() != nil:
		// The pod is gone or was recreated. Its next event tells which.
	default:
		p.logger.Warn("simulate pod", "pod", key, "error", err)
		again = time.Second
	}
	if again > 0 {
		p.timers.set(o.UID, again, func() {
			if o, err := kube.Get[pod](ctx, p.informer, key); err == nil {
				p.handle(ctx, o)
			}
		})
	}
}

// step brings a pod's status up to date and returns the time until the next step.
func (p *pods) step(ctx context.Context, o *pod) (again time.Duration, err error) {
	pods := p.view.In(o.Namespace)
	if o.DeletionTimestamp != nil {
		return 0, pods.Delete(ctx, o.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64),
			Preconditions:      &metav1.Preconditions{UID: &o.UID},
		})
	}
	plan, err := planOf(o)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	status, again := plan.status(now)
	if status == nil {
		return again, nil
	}
	if status.PodIP == "" && status.Phase == corev1.PodRunning {
		status.PodIP = nodeIP
		if !o.Spec.HostNetwork {
			if status.PodIP, err = p.addresses.give(o.UID); err != nil {
				return 0, err
			}
		}
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	// A strategic merge keeps the conditions of others, such as PodScheduled and those of
	// readiness gates. The uid causes a conflict if the pod was recreated.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.UID}, "status": status})
	if err != nil {
		return 0, fmt.Errorf("encode status: %w", err)
	}
	_, err = kube.Sub[metav1.PartialObjectMetadata](
		pods, "status",
	).Patch(ctx, o.Name, types.StrategicMergePatchType, patch)
	if err != nil && o.Status.PodIP == "" {
		p.addresses.free(status.PodIP, o.UID)
	}
	return again, err
}

// timers call functions for pods at later times.
type timers struct {
	mu      sync.Mutex
	byPod   map[types.UID]*time.Timer
	stopped bool
	running sync.WaitGroup
}

// set calls f after d, unless the pod's timer is set again or cleared before.
func (t *timers) set(pod types.UID, d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.byPod == nil {
		t.byPod = make(map[types.UID]*time.Timer)
	}
	if old := t.byPod[pod]; old != nil {
		old.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		t.mu.Lock()
		if t.stopped || t.byPod[pod] != timer {
			t.mu.Unlock()
			return
		}
		delete(t.byPod, pod)
		t.running.Add(1)
		t.mu.Unlock()
		defer t.running.Done()
		f()
	})
	t.byPod[pod] = timer
}

func (t *timers) clear(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if timer := t.byPod[pod]; timer != nil {
		timer.Stop()
		delete(t.byPod, pod)
	}
}

// stop ends all timers and waits for calls in progress.
func (t *timers) stop() {
	t.mu.Lock()
	t.stopped = true
	for _, timer := range t.byPod {
		timer.Stop()
	}
	t.mu.Unlock()
	t.running.Wait()
}
