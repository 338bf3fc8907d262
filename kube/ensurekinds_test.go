package kube_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
)

// ensured ensures an object of a kind several times. Only the first time may write.
func ensured[T any](t *testing.T, name string, h kube.Resource[T], intent func() *T) {
	t.Run(name, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := kube.StoreOf(ctx, h)
		defer func() { cancel(); <-store.Done() }()
		must(t, store.Sync(soon(t)))
		var writes int
		stop := h.ReadOnly().Client().OnRequest(func(r kube.RequestInfo) {
			if r.Method == "PATCH" {
				writes++
			}
		})
		defer stop()
		for i := range 4 {
			before := writes
			if _, err := h.Ensure(soon(t), intent()); err != nil {
				t.Fatal(err)
			}
			if n := writes - before; n != 0 != (i == 0) {
				t.Errorf("Ensure %d of an unchanged object writes %d times", i, n)
			}
			time.Sleep(20 * time.Millisecond) // the watch shows the write, as a rule; both ways cost nothing
		}
	})
}

// In a settled state no kind of object costs a request.
func TestEnsureOfManyKindsSettles(t *testing.T) {
	s := start(t)
	ns, c := s.namespace, s.Client
	meta := metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a/b": "<&>"[:0] + "c"},
		Annotations: map[string]string{"q": "<\u2028\"\\>"}}
	owned := meta
	yes := true
	owned.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "b", Controller: &yes, BlockOwnerDeletion: &yes},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "p", UID: types.UID("a")},
	}
	one, port, zero := int32(1), intstr.FromString("http"), int32(0)
	quantities := corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Mi")}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64), AutomountServiceAccountToken: new(bool),
			Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists},
				{Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{
				{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{
					Name: "map",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}},
					},
				},
			},
			Containers: []corev1.Container{
				{
					Name:    "c",
					Image:   "i",
					Args:    []string{"", "-a", "-a"},
					Command: []string{"x"},
					Env:     []corev1.EnvVar{{Name: "A"}, {Name: "B", Value: "1"}},
					Ports: []corev1.ContainerPort{
						{ContainerPort: 80}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP, Name: "dns"},
					},
					Resources: corev1.ResourceRequirements{
						Limits: quantities, Requests: corev1.ResourceList{"cpu": resource.MustParse("0.5"),
							"memory": resource.MustParse("1e3")},
					},
					ReadinessProbe: &corev1.Probe{
						ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}},
					},
					SecurityContext: &corev1.SecurityContext{
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, RunAsUser: new(int64),
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "empty", MountPath: "/e"}, {Name: "map", MountPath: "/m", SubPath: "a"}},
				},
			},
		},
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	ensured(t, "ConfigMap", kube.For[corev1.ConfigMap](c).In(ns), func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: owned, Data: map[string]string{"a.b": "1", "c": ""},
			BinaryData: map[string][]byte{"d": {0, 255}, "e": {}}}
	})
	ensured(t, "Secret", kube.For[corev1.Secret](c).In(ns), func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: meta, Type: "example.com/x", Data: map[string][]byte{"a": []byte("b"), "e": {}}}
	})
	// The server keeps no stringData and no empty list.
	ensured(t, "Secret of strings", kube.For[corev1.Secret](c).In(ns), func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "strings"}, StringData: map[string]string{"a": "b"}}
	})
	policies := kube.For[unstructured.Unstructured](c, kube.KindOf[networkingv1.NetworkPolicy]()).In(ns)
	ensured(t, "NetworkPolicy with empty lists", policies, func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "empty"},
			"spec": map[string]any{
				"podSelector": map[string]any{}, "policyTypes": []any{"Ingress", "Egress"}, "ingress": []any{}, "egress": []any{},
			}}}
	})
	ensured(t, "empty maps", kube.For[corev1.ConfigMap](c).In(ns), func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "em", Labels: map[string]string{}},
			Data: map[string]string{}, Immutable: new(bool)}
	})
	ensured(t, "Deployment", kube.For[appsv1.Deployment](c).In(ns), func() *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: owned,
			Spec: appsv1.DeploymentSpec{Replicas: &zero, Selector: selector, Template: pod}}
	})
	ensured(t, "StatefulSet", kube.For[appsv1.StatefulSet](c).In(ns), func() *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: &one, Selector: selector, Template: pod, ServiceName: "x",
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "d"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{"storage": resource.MustParse("1.5Gi")},
					},
				}}},
		}}
	})
	ensured(t, "DaemonSet", kube.For[appsv1.DaemonSet](c).In(ns), func() *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: selector, Template: pod,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &intstr.IntOrString{IntVal: 1}},
			},
		}}
	})
	ensured(t, "CronJob", kube.For[batchv1.CronJob](c).In(ns), func() *batchv1.CronJob {
		template := pod
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "* * * * *", Suspend: &yes,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template, BackoffLimit: &zero}}}}
	})
	ensured(t, "Service", kube.For[corev1.Service](c).In(ns), func() *corev1.Service {
		return &corev1.Service{ObjectMeta: meta,
			Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"app": "x"},
				Ports: []corev1.ServicePort{{Name: "a", Port: 80, TargetPort: port},
					{Name: "b", Port: 80, Protocol: corev1.ProtocolUDP}}}}
	})
	ensured(t, "NetworkPolicy", kube.For[networkingv1.NetworkPolicy](c).In(ns), func() *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{{}}, Egress: []networkingv1.NetworkPolicyEgressRule{},
			PolicyTypes: []networkingv1.PolicyType{"Ingress", "Egress"}}}
	})
	ensured(t, "Ingress", kube.For[networkingv1.Ingress](c).In(ns), func() *networkingv1.Ingress {
		exact := networkingv1.PathTypeExact
		return &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
			{
				Host: "a.b",
				IngressRuleValue: networkingv1.IngressRuleValue{
					HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
						{Path: "/", PathType: &exact,
							Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "x",
								Port: networkingv1.ServiceBackendPort{Number: 80}}}},
					}},
				},
			},
		}}}
	})
	ensured(t, "PodDisruptionBudget", kube.For[policyv1.PodDisruptionBudget](c).In(ns),
		func() *policyv1.PodDisruptionBudget {
			return &policyv1.PodDisruptionBudget{ObjectMeta: meta,
				Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &intstr.IntOrString{}, Selector: &metav1.LabelSelector{}}}
		})
	ensured(t, "HorizontalPodAutoscaler", kube.For[autoscalingv2.HorizontalPodAutoscaler](c).In(ns),
		func() *autoscalingv2.HorizontalPodAutoscaler {
			value := resource.MustParse("0.1")
			return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta,
				Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3,
					ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "x", APIVersion: "apps/v1"},
					Metrics: []autoscalingv2.MetricSpec{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu",
						Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: &value}}}}}}
		})
	ensured(t, "Role", kube.For[rbacv1.Role](c).In(ns), func() *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""},
			Resources: []string{"pods"}, Verbs: []string{"get", "get"}}}}
	})
	ensured(t, "empty Role", kube.For[rbacv1.Role](c).In(ns), func() *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
	})
	ensured(t, "RoleBinding", kube.For[rbacv1.RoleBinding](c).In(ns), func() *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "x"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "x", Namespace: ns}}}
	})
	ensured(t, "ResourceQuota", kube.For[corev1.ResourceQuota](c).In(ns), func() *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{Hard: quantities}}
	})
	ensured(t, "Lease", kube.For[coordinationv1.Lease](c).In(ns), func() *coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Date(2020, 1, 2, 3, 4, 5, 123456789, time.FixedZone("x", 3600)))
		return &coordinationv1.Lease{ObjectMeta: meta,
			Spec: coordinationv1.LeaseSpec{RenewTime: &at, HolderIdentity: new(string)}}
	})
	ensured(t, "EndpointSlice", kube.For[discoveryv1.EndpointSlice](c).In(ns), func() *discoveryv1.EndpointSlice {
		name := "a"
		return &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4",
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
			Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &one}}}
	})
	ensured(t, "PersistentVolumeClaim", kube.For[corev1.PersistentVolumeClaim](c).In(ns),
		func() *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(string),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1G")}}}}
		})
	ensured(t, "Pod", kube.For[corev1.Pod](c).In(ns), func() *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta, Spec: pod.Spec}
		return p
	})
}
