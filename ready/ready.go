package ready

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Phase is the phase of a [State]: Ready, Waiting or Failed.
type Phase string

const (
	// Ready says that others can rely on the object.
	Ready Phase = "Ready"
	// Waiting says that the object is not ready and may become ready by itself.
	Waiting Phase = "Waiting"
	// Failed says that the object does not become ready by itself: its spec, or
	// something that it depends on, must change.
	Failed Phase = "Failed"
)

// State is the readiness of an object.
type State struct {
	Phase Phase
	// Message says why, in a few words: "1 of 3 replicas available". A ready
	// object may have an empty one.
	Message string
}

// Is reports whether an object is ready. Its counterparts are the functions of kube-rs's
// wait conditions, such as is_pod_running, is_job_completed and is_deployment_completed.
func Is[T any](o *T) bool { return Of(o).Phase == Ready }

// HasFailed reports whether an object has failed: it does not become ready by itself. Its
// counterpart is FailedStatus of cli-utils (kstatus).
func HasFailed[T any](o *T) bool { return Of(o).Phase == Failed }

// HasEnded reports whether an object is ready or has failed. It is the condition for the
// end of a Job, which may never be ready.
func HasEnded[T any](o *T) bool { return Of(o).Phase != Waiting }

// Of returns the state of an object, which must have Kubernetes metadata. The state of a nil
// object is Waiting. Its counterparts are status.Compute of cli-utils (kstatus), and the
// conditions of kube::runtime::wait in kube-rs.
func Of[T any](o *T) State {
	if o == nil {
		return waiting("does not exist")
	}
	if m, ok := any(o).(metav1.Object); ok && m.GetDeletionTimestamp() != nil {
		return waiting("is being deleted")
	}
	return byKind(o)
}

// byKind judges an object, given as a pointer, by the rule of its kind.
func byKind(o any) State {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return deployment(o)
	case *appsv1.StatefulSet:
		return statefulSet(o)
	case *appsv1.DaemonSet:
		return daemonSet(o)
	case *appsv1.ReplicaSet:
		return replicas(o.Generation, o.Status.ObservedGeneration, o.Spec.Replicas, o.Status.Replicas, o.Status.AvailableReplicas)
	case *corev1.ReplicationController:
		return replicas(o.Generation, o.Status.ObservedGeneration, o.Spec.Replicas, o.Status.Replicas, o.Status.AvailableReplicas)
	case *corev1.Pod:
		return pod(o)
	case *batchv1.Job:
		return job(o)
	case *corev1.Service:
		return service(o)
	case *corev1.PersistentVolumeClaim:
		return claim(o)
	case *corev1.PersistentVolume:
		return volume(o)
	case *corev1.Namespace:
		return namespace(o)
	case *corev1.ConfigMap, *corev1.Secret, *corev1.ServiceAccount:
		return ready() // without a status there is nothing to look for
	case *unstructured.Unstructured:
		return untyped(o)
	}
	if state, ok := typedWebhooks(o); ok {
		return state
	}
	return judge(conditionsOf(o))
}

func ready() State { return State{Phase: Ready} }

func waiting(format string, args ...any) State {
	return State{Waiting, fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) State {
	return State{Failed, fmt.Sprintf(format, args...)}
}

// unseen is the state of an object whose controller has not seen its spec.
func unseen() State { return waiting("its controller has not seen the latest spec") }
