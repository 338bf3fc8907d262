package ready

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

func pod(p *corev1.Pod) State {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return ready()
	case corev1.PodFailed:
		return failed("the pod failed: %s", cmp.Or(p.Status.Message, p.Status.Reason, ended(p), "no reason is given"))
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ready()
		}
	}
	return waiting("%s", Reason(p))
}

// Reason says in a few words why a pod is not ready: the scheduler's reason, or the
// reason of the first container that waits, ended or is not ready.
func Reason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return withMessage(cmp.Or(c.Reason, "not scheduled"), c.Message)
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		if why := notReady(s, "it is still running"); why != "" {
			return "init container " + s.Name + ": " + why
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if why := notReady(s, "its readiness probe has not succeeded"); why != "" {
			return "container " + s.Name + ": " + why
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Type != corev1.PodReady && c.Type != corev1.ContainersReady {
			return withMessage(string(c.Type)+" is False", c.Message)
		}
	}
	return "the pod is " + string(cmp.Or(p.Status.Phase, corev1.PodPending)) + " and not ready"
}

// notReady says why a container keeps its pod from being ready, if it does. A
// container that runs and is not ready does so because of running.
func notReady(s corev1.ContainerStatus, running string) string {
	switch state := s.State; {
	case state.Waiting != nil:
		why := withMessage(cmp.Or(state.Waiting.Reason, "waiting"), state.Waiting.Message)
		if last := s.LastTerminationState.Terminated; last != nil {
			why += "; it last ended with " + termination(last)
		}
		return why
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return "ended with " + termination(state.Terminated)
	case state.Running != nil && !s.Ready && s.Started != nil && !*s.Started:
		return "it has not started: its startup probe has not succeeded"
	case state.Running != nil && !s.Ready:
		return running
	}
	return ""
}

// ended says which container of a failed pod has failed.
func ended(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return "container " + s.Name + " ended with " + termination(t)
		}
	}
	return ""
}

func termination(t *corev1.ContainerStateTerminated) string {
	return withMessage(cmp.Or(t.Reason, "Error")+" (exit code "+strconv.Itoa(int(t.ExitCode))+")", t.Message)
}

func withMessage(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
