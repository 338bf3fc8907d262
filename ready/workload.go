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
	case s.AvailableReplicas < want:
		return waiting("%d of %d replicas available", s.AvailableReplicas, want)
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
	if s.AvailableReplicas < want {
		return waiting("%d of %d replicas available", s.AvailableReplicas, want)
	}
	strategy := set.Spec.UpdateStrategy
	switch {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return ready() // the pods are replaced when somebody deletes them
	case strategy.RollingUpdate != nil && strategy.RollingUpdate.Partition != nil && *strategy.RollingUpdate.Partition > 0:
		if update := want - *strategy.RollingUpdate.Partition; s.UpdatedReplicas < update {
			return waiting("%d of %d replicas updated", s.UpdatedReplicas, update)
		}
		return ready()
	case s.UpdateRevision != s.CurrentRevision:
		return waiting("%d of %d replicas updated", s.UpdatedReplicas, want)
	}
	return ready()
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
func replicas(generation, observed int64, asked *int32, available int32) State {
	want := wanted(asked)
	switch {
	case observed < generation:
		return unseen()
	case available < want:
		return waiting("%d of %d replicas available", available, want)
	}
	return ready()
}

func job(j *batchv1.Job) State {
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
			return waiting("the job is suspended")
		}
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
