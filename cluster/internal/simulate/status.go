package simulate

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations that determine the behaviour of a pod.
const (
	StartDelay = "simulate.pintle.dev/start-delay"
	RunFor     = "simulate.pintle.dev/run-for"
	ExitCode   = "simulate.pintle.dev/exit-code"
)

// plan is the behaviour of a pod.
type plan struct {
	pod        *pod
	startDelay time.Duration
	runFor     time.Duration
	ends       bool
	exitCode   int32
}

func planOf(o *pod) (p plan, err error) {
	p.pod = o
	if p.startDelay, err = duration(o, StartDelay); err != nil {
		return p, err
	}
	if p.runFor, err = duration(o, RunFor); err != nil {
		return p, err
	}
	code, failing := o.Annotations[ExitCode]
	if failing {
		n, err := strconv.ParseInt(code, 10, 32)
		if err != nil {
			return p, fmt.Errorf("parse annotation %s: %w", ExitCode, err)
		}
		p.exitCode = int32(n)
	}
	_, timed := o.Annotations[RunFor]
	p.ends = timed || failing || o.Spec.RestartPolicy != corev1.RestartPolicyAlways
	return p, nil
}

func duration(o *pod, annotation string) (time.Duration, error) {
	text, ok := o.Annotations[annotation]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", d)
	}
	if err != nil {
		return 0, fmt.Errorf("parse annotation %s: %w", annotation, err)
	}
	return d, nil
}

// status returns the status that the pod must have now, or nil if it already has that
// status. It also returns the time until the next look, zero if nothing happens before
// the pod changes.
func (p plan) status(now time.Time) (status *corev1.PodStatus, again time.Duration) {
	have := p.pod.Status
	if have.Phase == corev1.PodSucceeded || have.Phase == corev1.PodFailed {
		return nil, 0
	}
	start := now
	if have.StartTime != nil {
		start = have.StartTime.Time
	}
	if wait := start.Add(p.startDelay).Sub(now); wait > 0 {
		if have.StartTime != nil {
			return nil, wait
		}
		return p.pending(now), wait
	}
	first := corev1.ContainerStatus{}
	if len(have.ContainerStatuses) > 0 {
		first = have.ContainerStatuses[0]
	}
	switch {
	case first.State.Running != nil:
		if !p.ends {
			return p.readiness(first, now), 0
		}
		if wait := first.State.Running.StartedAt.Add(p.runFor).Sub(now); wait > 0 {
			return p.readiness(first, now), wait
		}
		return p.ended(first.State.Running.StartedAt.Time, first.RestartCount, now)
	case first.LastTerminationState.Terminated != nil:
		ended := first.LastTerminationState.Terminated.FinishedAt
		if wait := ended.Add(backOff(first.RestartCount)).Sub(now); wait > 0 {
			return nil, wait
		}
		return p.started(first.RestartCount+1, now)
	}
	return p.started(0, now)
}

// backOff returns the time that the kubelet waits before a restart.
func backOff(restarts int32) time.Duration {
	return min(5*time.Minute, 10*time.Second<<min(restarts, 5))
}

func (p plan) pending(now time.Time) *corev1.PodStatus {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	return p.build(corev1.PodPending, corev1.ContainerStatus{State: waiting}, false, now)
}

// started returns the status of containers that start now.
func (p plan) started(restarts int32, now time.Time) (*corev1.PodStatus, time.Duration) {
	if p.ends && p.runFor == 0 {
		return p.ended(now, restarts, now)
	}
	running := corev1.ContainerStatus{
		State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}},
		RestartCount: restarts,
	}
	if p.ends {
		return p.build(corev1.PodRunning, running, true, now), p.runFor
	}
	return p.build(corev1.PodRunning, running, true, now), 0
}

// ended returns the status of containers that end now, for good or until they are
// restarted.
func (p plan) ended(started time.Time, restarts int32, now time.Time) (*corev1.PodStatus, time.Duration) {
	end := &corev1.ContainerStateTerminated{
		ExitCode: p.exitCode, Reason: "Completed", StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(now),
	}
	phase := corev1.PodSucceeded
	if p.exitCode != 0 {
		phase, end.Reason = corev1.PodFailed, "Error"
	}
	policy := p.pod.Spec.RestartPolicy
	if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && p.exitCode == 0 {
		state := corev1.ContainerState{Terminated: end}
		return p.build(phase, corev1.ContainerStatus{State: state, RestartCount: restarts}, false, now), 0
	}
	return p.build(corev1.PodRunning, corev1.ContainerStatus{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: end},
		RestartCount:         restarts,
	}, false, now), backOff(restarts)
}

// readiness returns the status of containers that continue to run, if a readiness gate
// has changed whether the pod is ready.
// changed whether the pod is ready.
func (p plan) readiness(first corev1.ContainerStatus, now time.Time) *corev1.PodStatus {
	if p.condition(corev1.PodReady) == conditionStatus(p.gatesOpen()) {
		return nil
	}
	return p.build(corev1.PodRunning, first, true, now)
}

func (p plan) gatesOpen() bool {
	for _, gate := range p.pod.Spec.ReadinessGates {
		if p.condition(gate.ConditionType) != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

func (p plan) condition(kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func conditionStatus(ok bool) corev1.ConditionStatus {
	if ok {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// build returns a whole status, in which every container is like the given one.
func (p plan) build(phase corev1.PodPhase, like corev1.ContainerStatus, running bool, now time.Time) *corev1.PodStatus {
	o := p.pod
	started := like.State.Waiting == nil || like.LastTerminationState.Terminated != nil
	status := &corev1.PodStatus{
		Phase:              phase,
		ObservedGeneration: o.Generation,
		HostIP:             nodeIP,
		HostIPs:            []corev1.HostIP{{IP: nodeIP}},
		PodIP:              o.Status.PodIP,
		PodIPs:             o.Status.PodIPs,
		StartTime:          o.Status.StartTime,
		QOSClass:           o.Status.QOSClass,
	}
	if status.StartTime == nil {
		t := metav1.NewTime(now)
		status.StartTime = &t
	}
	for _, c := range o.Spec.InitContainers {
		s := corev1.ContainerStatus{State: like.State, RestartCount: like.RestartCount}
		if sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways; started && !sidecar {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: *status.StartTime, FinishedAt: *status.StartTime,
			}}
			s.RestartCount = 0
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, named(s, c, running || started))
	}
	for _, c := range o.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, named(like, c, running))
	}
	set := func(kind corev1.PodConditionType, ok bool, reason string) {
		c := corev1.PodCondition{
			Type: kind, Status: conditionStatus(ok), ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(now),
		}
		if !ok {
			c.Reason = reason
		}
		for _, have := range o.Status.Conditions {
			if have.Type == kind && have.Status == c.Status {
				c.LastTransitionTime = have.LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
	reason := "ContainersNotReady"
	if phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}
	set(corev1.PodReadyToStartContainers, started, "")
	set(corev1.PodInitialized, started, "ContainersNotInitialized")
	set(corev1.ContainersReady, running, reason)
	if running && !p.gatesOpen() {
		reason = "ReadinessGatesNotReady"
	}
	set(corev1.PodReady, running && p.gatesOpen(), reason)
	return status
}

func named(s corev1.ContainerStatus, c container, ready bool) corev1.ContainerStatus {
	s.Name, s.Image, s.ImageID = c.Name, c.Image, "simulated://"+c.Image
	s.Ready = ready
	started := s.State.Running != nil
	s.Started = &started
	if s.State.Waiting == nil || s.LastTerminationState.Terminated != nil {
		s.ContainerID = fmt.Sprintf("simulated://%s/%d", c.Name, s.RestartCount)
	}
	return s
}
