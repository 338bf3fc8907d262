package thirdparty

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/ready"
)

// rolledOut says what kubectl rollout status says of a workload: that its rollout is over, or that it
// has failed.
func rolledOut(t *rapid.T, kind string, o any) (over, failed bool) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := polymorphichelpers.StatusViewerFor(schema.GroupKind{Group: "apps", Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	_, over, err = viewer.Status(&unstructured.Unstructured{Object: content}, 0)
	return over && err == nil, err != nil
}

// replicas are numbers of pods, as a controller counts them at one moment.
type replicas struct {
	want                           int32
	all, updated, ready, available int32
	generation, observed           int64
}

func drawReplicas(t *rapid.T) replicas {
	upTo := func(most int32, what string) int32 { return rapid.Int32Range(0, most).Draw(t, what) }
	r := replicas{want: upTo(4, "replicas wanted"), all: upTo(5, "replicas")}
	r.updated, r.ready = upTo(r.all, "updated"), upTo(r.all, "ready")
	r.available = upTo(r.ready, "available")
	r.generation, r.observed = rapid.Int64Range(1, 2).Draw(t, "generation"), rapid.Int64Range(0, 2).Draw(t, "observed")
	return r
}

// agrees compares the state of a workload with what kubectl says of it. Package ready may wait for
// more: that no pod is left to remove, and that all are available.
func agrees(t *rapid.T, state ready.State, over, failed, more bool) {
	switch {
	case state.Phase == ready.Ready && !over:
		t.Errorf("it is ready, and kubectl waits for its rollout")
	case over && !more && state.Phase != ready.Ready:
		t.Errorf("kubectl says that its rollout is over, and it is %v", state)
	case failed != (state.Phase == ready.Failed):
		t.Errorf("kubectl says that its rollout has failed: %t; it is %v", failed, state)
	}
}

// A workload is ready when kubectl rollout status ends, in every state that its controller may report.
func TestReadyAsKubectlSays(t *testing.T) {
	t.Run("Deployment", rapid.MakeCheck(func(t *rapid.T) {
		r := drawReplicas(t)
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: r.generation}, Spec: appsv1.DeploymentSpec{Replicas: &r.want},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: r.observed, Replicas: r.all, UpdatedReplicas: r.updated,
				ReadyReplicas: r.ready, AvailableReplicas: r.available,
			},
		}
		if rapid.Bool().Draw(t, "late") {
			d.Status.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: "False", Reason: "ProgressDeadlineExceeded"},
			}
		}
		over, failed := rolledOut(t, "Deployment", d)
		agrees(t, ready.Of(d), over, failed, r.all > r.want)
	}))
	t.Run("StatefulSet", rapid.MakeCheck(func(t *rapid.T) {
		r := drawReplicas(t)
		partition := rapid.Int32Range(0, 5).Draw(t, "partition")
		revisions := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 2, 2).Draw(t, "revisions")
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Generation: r.generation},
			Spec: appsv1.StatefulSetSpec{
				Replicas: &r.want,
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
					Type:          appsv1.RollingUpdateStatefulSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
				},
			},
			Status: appsv1.StatefulSetStatus{
				ObservedGeneration: r.observed, Replicas: r.all, UpdatedReplicas: r.updated,
				ReadyReplicas: r.ready, AvailableReplicas: r.available,
				CurrentRevision: revisions[0], UpdateRevision: revisions[1],
			},
		}
		over, failed := rolledOut(t, "StatefulSet", set)
		agrees(t, ready.Of(set), over, failed, r.all > r.want || r.available < r.want)
	}))
	t.Run("DaemonSet", rapid.MakeCheck(func(t *rapid.T) {
		r := drawReplicas(t)
		set := &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Generation: r.generation},
			Spec: appsv1.DaemonSetSpec{
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType},
			},
			Status: appsv1.DaemonSetStatus{
				ObservedGeneration: r.observed, DesiredNumberScheduled: r.want, CurrentNumberScheduled: r.all,
				UpdatedNumberScheduled: r.updated, NumberReady: r.ready, NumberAvailable: r.available,
			},
		}
		over, failed := rolledOut(t, "DaemonSet", set)
		agrees(t, ready.Of(set), over, failed, false)
	}))
}
