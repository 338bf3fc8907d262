package ready_test

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// widget has conditions of its own type, as some API packages do.
type widget struct {
	kube.Object
	Status *widgetStatus
}

type widgetStatus struct {
	ObservedGeneration int64
	Conditions         []widgetCondition
}

type widgetCondition struct {
	Type    string
	Status  corev1.ConditionStatus
	Reason  string
	Message string
}

// book has metav1.Conditions, as most API packages do.
type book struct {
	kube.Object
	Status struct {
		ObservedGeneration int64
		Conditions         []metav1.Condition
	}
}

func ptr[T any](v T) *T { return &v }

func at(generation int64) metav1.ObjectMeta { return metav1.ObjectMeta{Generation: generation} }

func deploymentOf(replicas *int32, s appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: at(2), Spec: appsv1.DeploymentSpec{Replicas: replicas}, Status: s}
}

func setOf(update appsv1.StatefulSetUpdateStrategy, s appsv1.StatefulSetStatus) *appsv1.StatefulSet {
	s.ObservedGeneration = 2
	return &appsv1.StatefulSet{
		ObjectMeta: at(2), Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(3)), UpdateStrategy: update}, Status: s,
	}
}

func daemonsOf(update appsv1.DaemonSetUpdateStrategyType, s appsv1.DaemonSetStatus) *appsv1.DaemonSet {
	s.ObservedGeneration = 2
	return &appsv1.DaemonSet{
		ObjectMeta: at(2),
		Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: update}},
		Status:     s,
	}
}

func podOf(phase corev1.PodPhase, s corev1.PodStatus) *corev1.Pod {
	s.Phase = phase
	return &corev1.Pod{Status: s}
}

func jobOf(conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{
		Spec:   batchv1.JobSpec{Completions: ptr(int32(2))},
		Status: batchv1.JobStatus{Succeeded: 1, Failed: 3, Conditions: conditions},
	}
}

func serviceOf(kind corev1.ServiceType, ip string, in ...corev1.LoadBalancerIngress) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, ClusterIP: ip}}
	s.Status.LoadBalancer.Ingress = in
	return s
}

func claimOf(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv1"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

func bookOf(observed int64, conditions ...metav1.Condition) *book {
	b := &book{Object: kube.Object{ObjectMeta: at(2)}}
	b.Status.ObservedGeneration, b.Status.Conditions = observed, conditions
	return b
}

func is(kind string, status metav1.ConditionStatus, observed int64) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: observed, Reason: "Because", Message: "it says so",
	}
}

func untyped(t *testing.T, apiVersion, kind string, o any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u
}

func waits(message string) ready.State { return ready.State{Phase: ready.Waiting, Message: message} }
func fails(message string) ready.State { return ready.State{Phase: ready.Failed, Message: message} }

const unseen = "its controller has not seen the latest spec"

func TestOf(t *testing.T) {
	good := ready.State{Phase: ready.Ready}
	rolling := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	partition := appsv1.StatefulSetUpdateStrategy{
		Type:          appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr(int32(1))},
	}
	pulling := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
	}}
	crashing := corev1.ContainerStatus{
		Name:  "web",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no config"},
		},
	}
	running := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	starting := running
	starting.Started = ptr(false)
	deleted := deploymentOf(ptr(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 2})
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}

	for name, c := range map[string]struct{ got, want ready.State }{
		"nil":     {ready.Of[corev1.Pod](nil), waits("does not exist")},
		"deleted": {ready.Of(deleted), waits("is being deleted")},

		"deployment unseen": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{ObservedGeneration: 1, AvailableReplicas: 1, UpdatedReplicas: 1})), waits(unseen)},
		"deployment": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
		})), good},
		"deployment of none": {ready.Of(deploymentOf(ptr(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 2})), good},
		"deployment updates": {ready.Of(deploymentOf(ptr(int32(2)), appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2,
		})), waits("1 of 2 replicas updated")},
		"deployment may not": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{
			ObservedGeneration: 2,
			Conditions:         []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota"}},
		})), waits("0 of 1 replicas updated: quota")},
		"deployment has old ones": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3,
		})), waits("2 old replicas are left")},
		"deployment scales down": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3,
		})), waits("2 replicas are left to remove")},
		"deployment starts": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1,
		})), waits("0 of 1 replicas available")},
		"deployment is late": {ready.Of(deploymentOf(nil, appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "timed out",
			}},
		})), fails("0 of 1 replicas available: timed out")},

		"set": {ready.Of(setOf(rolling, appsv1.StatefulSetStatus{
			ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 3, CurrentRevision: "b", UpdateRevision: "b",
		})), good},
		"set starts": {ready.Of(setOf(rolling, appsv1.StatefulSetStatus{ReadyReplicas: 2})), waits("2 of 3 replicas ready")},
		"set waits": {ready.Of(setOf(rolling, appsv1.StatefulSetStatus{
			ReadyReplicas: 3, UpdatedReplicas: 3, AvailableReplicas: 1,
		})), waits("1 of 3 replicas available")},
		"set whose rollout is taken back": {ready.Of(setOf(rolling, appsv1.StatefulSetStatus{
			ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 2, CurrentRevision: "a", UpdateRevision: "a",
		})), waits("2 of 3 replicas updated")},
		"set scales down": {ready.Of(setOf(rolling, appsv1.StatefulSetStatus{
			Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5,
		})), waits("2 replicas are left to remove")},
		"set updates": {ready.Of(setOf(rolling, appsv1.StatefulSetStatus{
			ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b",
		})), waits("1 of 3 replicas updated")},
		"set with partition": {ready.Of(setOf(partition, appsv1.StatefulSetStatus{
			ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 2, CurrentRevision: "a", UpdateRevision: "b",
		})), good},
		"set updates its partition": {ready.Of(setOf(partition, appsv1.StatefulSetStatus{
			ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b",
		})), waits("1 of 2 replicas updated")},
		"set on delete": {ready.Of(setOf(
			appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			appsv1.StatefulSetStatus{ReadyReplicas: 3, AvailableReplicas: 3, CurrentRevision: "a", UpdateRevision: "b"},
		)), good},

		"daemons": {ready.Of(daemonsOf("", appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2})), good},
		"daemons update": {ready.Of(daemonsOf("", appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberAvailable: 2,
		})), waits("1 of 2 pods updated")},
		"daemons on delete": {ready.Of(daemonsOf(appsv1.OnDeleteDaemonSetStrategyType, appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, NumberAvailable: 2,
		})), good},
		"daemons start": {ready.Of(daemonsOf("", appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 1,
		})), waits("1 of 2 pods available")},
		"replicas": {ready.Of(&appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{AvailableReplicas: 1}}), good},
		"too few":  {ready.Of(&corev1.ReplicationController{}), waits("0 of 1 replicas available")},

		"pod": {ready.Of(podOf(corev1.PodRunning, corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		})), good},
		"pod that has done its work": {ready.Of(podOf(corev1.PodSucceeded, corev1.PodStatus{})), good},
		"pod nowhere": {ready.Of(podOf(corev1.PodPending, corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no nodes"}},
		})), waits("Unschedulable: no nodes")},
		"pod without an image": {
			ready.Of(podOf(corev1.PodPending, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{pulling}})),
			waits("container web: ImagePullBackOff: no such image"),
		},
		"pod crashes": {
			ready.Of(podOf(corev1.PodRunning, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{crashing}})),
			waits("container web: CrashLoopBackOff; it last ended with Error (exit code 2): no config"),
		},
		"pod starts": {
			ready.Of(podOf(corev1.PodRunning, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{starting}})),
			waits("container web: it has not started: its startup probe has not succeeded"),
		},
		"pod is not ready": {
			ready.Of(podOf(corev1.PodRunning, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}})),
			waits("container web: its readiness probe has not succeeded"),
		},
		"pod prepares": {
			ready.Of(podOf(corev1.PodPending, corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{running}})),
			waits("init container web: it is still running"),
		},
		"pod waits for a gate": {ready.Of(podOf(corev1.PodRunning, corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: "example.com/gate", Status: corev1.ConditionFalse, Message: "not yet"}},
		})), waits("example.com/gate is False: not yet")},
		"pod says nothing": {ready.Of(new(corev1.Pod)), waits("the pod is Pending and not ready")},
		"pod failed": {ready.Of(podOf(corev1.PodFailed, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}},
		}}})), fails("the pod failed: container web ended with OOMKilled (exit code 137)")},

		"job":       {ready.Of(jobOf()), waits("1 of 2 completed, 3 failed")},
		"job ends":  {ready.Of(jobOf(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})), good},
		"job waits": {ready.Of(jobOf(batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue})), waits("the job is suspended")},
		"job goes on": {
			ready.Of(jobOf(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionFalse, Message: "x"})),
			waits("1 of 2 completed, 3 failed"),
		},
		"job fails": {
			ready.Of(jobOf(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: "too often"})),
			fails("the job failed: too often"),
		},
		"cron job": {ready.Of(new(batchv1.CronJob)), good},

		"service":                 {ready.Of(serviceOf(corev1.ServiceTypeClusterIP, "None")), good},
		"service without address": {ready.Of(serviceOf(corev1.ServiceTypeClusterIP, "")), waits("it has no cluster IP")},
		"service elsewhere":       {ready.Of(serviceOf(corev1.ServiceTypeExternalName, "")), good},
		"balancer":                {ready.Of(serviceOf(corev1.ServiceTypeLoadBalancer, "10.0.0.1")), waits("the load balancer has no address")},
		"balancer with name": {
			ready.Of(serviceOf(corev1.ServiceTypeLoadBalancer, "10.0.0.1", corev1.LoadBalancerIngress{Hostname: "x"})), good,
		},
		"claim":            {ready.Of(claimOf(corev1.ClaimBound)), good},
		"claim waits":      {ready.Of(claimOf(corev1.ClaimPending)), waits("the claim is not bound")},
		"claim is lost":    {ready.Of(claimOf(corev1.ClaimLost)), fails("the claim has lost its volume pv1")},
		"volume":           {ready.Of(&corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}), good},
		"namespace":        {ready.Of(&corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}), good},
		"namespace leaves": {ready.Of(&corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}), waits("the namespace is not active")},
		"config map":       {ready.Of(new(corev1.ConfigMap)), good},

		"webhook": {ready.Of(&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{
			Name: "a", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{}, CABundle: []byte("x")},
		}}}), good},
		"webhook without bundle": {ready.Of(&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "a", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{}},
		}}}), waits("webhook a has no CA bundle")},
		"webhook elsewhere": {ready.Of(&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "a", ClientConfig: admissionv1.WebhookClientConfig{URL: ptr("https://example.com")},
		}}}), good},

		"own kind":             {ready.Of(bookOf(2, is("Ready", metav1.ConditionTrue, 2))), good},
		"own kind says no":     {ready.Of(bookOf(2, is("Ready", metav1.ConditionFalse, 2))), waits("Ready is False: it says so")},
		"own kind is behind":   {ready.Of(bookOf(1, is("Ready", metav1.ConditionTrue, 1))), waits(unseen)},
		"condition is behind":  {ready.Of(bookOf(0, is("Ready", metav1.ConditionTrue, 1))), waits(unseen)},
		"generation not told":  {ready.Of(bookOf(0, is("Ready", metav1.ConditionTrue, 0))), good},
		"available":            {ready.Of(bookOf(2, is("Available", metav1.ConditionTrue, 2))), good},
		"ready goes first":     {ready.Of(bookOf(2, is("Available", metav1.ConditionTrue, 2), is("Ready", metav1.ConditionUnknown, 2))), waits("Ready is Unknown: it says so")},
		"other conditions":     {ready.Of(bookOf(2, is("Synced", metav1.ConditionFalse, 2))), good},
		"fresh own kind":       {ready.Of(bookOf(0)), good},
		"definition":           {ready.Of(bookOf(0, is("NamesAccepted", metav1.ConditionTrue, 0), is("Established", metav1.ConditionTrue, 0))), good},
		"definition comes":     {ready.Of(bookOf(0, is("Established", metav1.ConditionFalse, 0))), waits("Established is False: it says so")},
		"names are taken":      {ready.Of(bookOf(0, is("NamesAccepted", metav1.ConditionFalse, 0))), fails("NamesAccepted is False: it says so")},
		"no status":            {ready.Of(new(widget)), good},
		"conditions of a kind": {ready.Of(&widget{Status: &widgetStatus{Conditions: []widgetCondition{{"Ready", "False", "Busy", ""}}}}), waits("Ready is False: Busy")},
		"metadata alone":       {ready.Of(new(metav1.PartialObjectMetadata)), good},

		"untyped deployment": {
			ready.Of(untyped(t, "apps/v1", "Deployment", deploymentOf(nil, appsv1.DeploymentStatus{ObservedGeneration: 2}))),
			waits("0 of 1 replicas updated"),
		},
		"untyped webhook without bundle": {
			ready.Of(untyped(t, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration",
				&admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{{
					Name: "a", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{}},
				}}})),
			waits("webhook a has no CA bundle"),
		},
		"untyped kind": {
			ready.Of(&unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"generation": int64(3)},
				"status": map[string]any{"observedGeneration": int64(3), "conditions": []any{
					"nonsense", map[string]any{"type": "Ready", "status": "False", "message": "no"},
				}},
			}}), waits("Ready is False: no"),
		},
		"untyped nonsense": {
			ready.Of(&unstructured.Unstructured{Object: map[string]any{"status": "fine", "metadata": 1}}), good,
		},
		"untyped pod of nonsense": {
			ready.Of(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "status": map[string]any{"phase": "Active"}}}), good,
		},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, c.got, c.want)
		}
	}
}

func TestConditions(t *testing.T) {
	done := jobOf(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
	broken := jobOf(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue})
	suspended := func(end batchv1.JobConditionType) *batchv1.Job {
		return jobOf(
			batchv1.JobCondition{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue},
			batchv1.JobCondition{Type: end, Status: corev1.ConditionTrue},
		)
	}
	for name, c := range map[string]struct {
		job                  *batchv1.Job
		ready, failed, ended bool
	}{
		"runs": {jobOf(), false, false, false}, "complete": {done, true, false, true}, "failed": {broken, false, true, true},
		"complete after it was suspended": {suspended(batchv1.JobComplete), true, false, true},
		"failed after it was suspended":   {suspended(batchv1.JobFailed), false, true, true},
	} {
		if ready.Is(c.job) != c.ready || ready.HasFailed(c.job) != c.failed || ready.HasEnded(c.job) != c.ended {
			t.Errorf(
				"%s: Is %t, HasFailed %t, HasEnded %t", name, ready.Is(c.job), ready.HasFailed(c.job), ready.HasEnded(c.job),
			)
		}
	}
}

// shelf has conditions of an embedded struct, which may be nil.
type shelf struct {
	kube.Object
	Status struct{ *shelfConditions }
}

type shelfConditions struct{ Conditions []metav1.Condition }

func TestEmbeddedStatus(t *testing.T) {
	s := new(shelf)
	if state := ready.Of(s); state.Phase != ready.Ready {
		t.Errorf("without conditions it is %v", state)
	}
	s.Status.shelfConditions = &shelfConditions{[]metav1.Condition{is("Ready", metav1.ConditionFalse, 0)}}
	if state := ready.Of(s); state.Phase != ready.Waiting {
		t.Errorf("it is %v", state)
	}
}

// deployView is a view of Deployment: its Go type is not the kind's own.
type deployView struct {
	kube.Object
	Status struct{ Conditions []metav1.Condition }
}

func (deployView) GVK() kube.GVK { return kube.GVK{Group: "apps", Version: "v1", Kind: "Deployment"} }

// apiService is an APIService as a program may describe it.
type apiService struct {
	kube.Object
	Spec struct {
		Service *struct{ Name string }
	}
	Status struct{ Conditions []metav1.Condition }
}

func (apiService) GVK() kube.GVK {
	return kube.GVK{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
}

// The server empties the status of an object that is created. So an object as the answer to
// its creation shows it is not ready, if a controller has to say that it is.
func TestFreshObjects(t *testing.T) {
	unset := func(condition string) ready.State { return waits("its condition " + condition + " is not set") }
	about := at(1)
	about.Name = "fresh"
	backed, local := new(apiService), new(apiService)
	backed.Spec.Service = &struct{ Name string }{"server"}
	view, definition := new(deployView), new(crd.Definition)
	view.Generation, definition.Generation = 1, 1
	of := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	definitions := of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	named := &book{Object: kube.Object{TypeMeta: definitions}}
	bare := func(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "fresh", "generation": int64(1)}, "spec": spec,
		}}
	}
	service := map[string]any{"service": map[string]any{"name": "server"}}
	const group = "apiregistration.k8s.io/v1"
	for name, c := range map[string]struct{ got, want ready.State }{
		"definition":             {ready.Of(definition), unset("Established")},
		"definition by TypeMeta": {ready.Of(named), unset("Established")},
		"metadata alone":         {ready.Of(&metav1.PartialObjectMetadata{TypeMeta: definitions}), ready.State{Phase: ready.Ready}},
		"APIService":             {ready.Of(backed), unset("Available")},
		"local APIService":       {ready.Of(local), ready.State{Phase: ready.Ready}},
		"Deployment":             {ready.Of(&appsv1.Deployment{ObjectMeta: about}), waits(unseen)},
		"view of a Deployment":   {ready.Of(view), unset("Available")},
		"StatefulSet":            {ready.Of(&appsv1.StatefulSet{ObjectMeta: about}), waits(unseen)},
		"DaemonSet":              {ready.Of(&appsv1.DaemonSet{ObjectMeta: about}), waits(unseen)},
		"ReplicaSet":             {ready.Of(&appsv1.ReplicaSet{ObjectMeta: about}), waits(unseen)},
		"Job":                    {ready.Of(&batchv1.Job{ObjectMeta: about}), waits("0 of 1 completed")},
		"Pod":                    {ready.Of(&corev1.Pod{ObjectMeta: about}), waits("the pod is Pending and not ready")},
		"Node":                   {ready.Of(&corev1.Node{TypeMeta: of("v1", "Node")}), unset("Ready")},
		"ServiceCIDR":            {ready.Of(&networkingv1.ServiceCIDR{TypeMeta: of("networking.k8s.io/v1", "ServiceCIDR")}), unset("Ready")},
		"claim":                  {ready.Of(&corev1.PersistentVolumeClaim{ObjectMeta: about}), waits("the claim is not bound")},
		"volume":                 {ready.Of(&corev1.PersistentVolume{ObjectMeta: about}), waits("the volume is not available")},
		"Namespace":              {ready.Of(&corev1.Namespace{ObjectMeta: about}), waits("the namespace is not active")},
		"balancer":               {ready.Of(serviceOf(corev1.ServiceTypeLoadBalancer, "10.0.0.1")), waits("the load balancer has no address")},
		"untyped definition":     {ready.Of(bare("apiextensions.k8s.io/v1", "CustomResourceDefinition", nil)), unset("Established")},
		"untyped APIService":     {ready.Of(bare(group, "APIService", service)), unset("Available")},
		"untyped local one":      {ready.Of(bare(group, "APIService", nil)), ready.State{Phase: ready.Ready}},
		"untyped Deployment":     {ready.Of(bare("apps/v1", "Deployment", nil)), waits(unseen)},
		"untyped StatefulSet":    {ready.Of(bare("apps/v1", "StatefulSet", nil)), waits(unseen)},
		"untyped DaemonSet":      {ready.Of(bare("apps/v1", "DaemonSet", nil)), waits(unseen)},
		"untyped Job":            {ready.Of(bare("batch/v1", "Job", nil)), waits("0 of 1 completed")},
		"untyped Node":           {ready.Of(bare("v1", "Node", nil)), unset("Ready")},
		"untyped claim":          {ready.Of(bare("v1", "PersistentVolumeClaim", nil)), waits("the claim is not bound")},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, c.got, c.want)
		}
	}
}
