package ready

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// wanted returns a number of replicas. The default is 1, as in the API.
func wanted(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func deployment(d *appsv1.Deployment) State {
	want, s := wanted(d.Spec.Replicas), d.Status
	if s.ObservedGeneration < d.Generation {
		return unseen()
	}
	for _, c := range s.Conditions {
		// kubectl rollout status treats this reason as the end.
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			return failed("%d of %d replicas available: %s", s.AvailableReplicas, want, c.Message)
		}
	}
	switch {
	case s.UpdatedReplicas < want:
		return waiting("%d of %d replicas updated%s", s.UpdatedReplicas, want, refused(s.Conditions))
	case s.Replicas > s.UpdatedReplicas:
		return waiting("%d old replicas are left", s.Replicas-s.UpdatedReplicas)
	}
	return counted(want, s.Replicas, s.AvailableReplicas)
}

// counted is the rule for a number of pods: so many, no more of them, are available.
func counted(want, are, available int32) State {
	switch {
	case are > want:
		return waiting("%d replicas are left to remove", are-want)
	case available < want:
		return waiting("%d of %d replicas available", available, want)
	}
	return ready()
}

// refused returns the reason why pods cannot be created, such as a quota, or "".
func refused(conditions []appsv1.DeploymentCondition) string {
	for _, c := range conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return ": " + c.Message
		}
	}
	return ""
}

func statefulSet(set *appsv1.StatefulSet) State {
	want, s := wanted(set.Spec.Replicas), set.Status
	if s.ObservedGeneration < set.Generation {
		return unseen()
	}
	if s.ReadyReplicas < want {
		return waiting("%d of %d replicas ready", s.ReadyReplicas, want)
	}
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType { // then somebody deletes the old pods
		update := want
		if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
			update -= *r.Partition
		}
		// The revisions do not count: they are equal when a rollout is taken back, and pods of
		// the other template still run.
		if s.UpdatedReplicas < update {
			return waiting("%d of %d replicas updated", s.UpdatedReplicas, update)
		}
	}
	return counted(want, s.Replicas, s.AvailableReplicas)
}

func daemonSet(set *appsv1.DaemonSet) State {
	s := set.Status
	switch {
	case s.ObservedGeneration < set.Generation:
		return unseen()
	case set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return waiting("%d of %d pods updated", s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return waiting("%d of %d pods available", s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return ready()
}

// replicas is the rule for a kind that keeps a number of pods and never updates one.
func replicas(generation, observed int64, asked *int32, are, available int32) State {
	if observed < generation {
		return unseen()
	}
	return counted(wanted(asked), are, available)
}

func job(j *batchv1.Job) State {
	suspended := false
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return ready()
		case batchv1.JobFailed:
			return failed("the job failed: %s", cmp.Or(c.Message, c.Reason))
		case batchv1.JobSuspended:
			suspended = true // it may end all the same, with the pods that it had
		}
	}
	if suspended {
		return waiting("the job is suspended")
	}
	want := int32(1)
	if j.Spec.Completions != nil {
		want = *j.Spec.Completions
	}
	if j.Status.Failed > 0 {
		return waiting("%d of %d completed, %d failed", j.Status.Succeeded, want, j.Status.Failed)
	}
	return waiting("%d of %d completed", j.Status.Succeeded, want)
}
