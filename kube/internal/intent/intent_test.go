package intent

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func encode(t testing.TB, v any, opt Options) string {
	t.Helper()
	e, err := For(reflect.TypeOf(v))
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Object(nil, v, opt)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func ptr[T any](v T) *T { return &v }

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default"}
}

var (
	labels    = map[string]string{"app": "web"}
	container = corev1.Container{Name: "web", Image: "web:1"}
	template  = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
	}
	selector = &metav1.LabelSelector{MatchLabels: labels}
)

const (
	metaJSON     = `"metadata":{"name":"web","namespace":"default"}`
	templateJSON = `"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`
	selectorJSON = `"selector":{"matchLabels":{"app":"web"}}`
)

func TestObject(t *testing.T) {
	tests := map[string]struct {
		object any
		opt    Options
		want   string
	}{
		"Deployment": {
			object: &appsv1.Deployment{ObjectMeta: named("web"), Spec: appsv1.DeploymentSpec{
				Replicas: ptr[int32](0), Selector: selector, Template: template,
			}},
			opt: Options{APIVersion: "apps/v1", Kind: "Deployment"},
			want: `{"apiVersion":"apps/v1","kind":"Deployment",` + metaJSON +
				`,"spec":{"replicas":0,` + selectorJSON + `,` + templateJSON + `}}`,
		},
		"Deployment with a status is its spec": {
			object: &appsv1.Deployment{ObjectMeta: named("web"), Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
			opt:    Options{APIVersion: "apps/v1", Kind: "Deployment"},
			want:   `{"apiVersion":"apps/v1","kind":"Deployment",` + metaJSON + `}`,
		},
		"Service": {
			object: &corev1.Service{ObjectMeta: named("web"), Spec: corev1.ServiceSpec{
				Selector: labels,
				Ports:    []corev1.ServicePort{{Port: 80}, {Name: "alt", Port: 81, TargetPort: intstr.FromString("alt")}},
			}},
			opt: Options{APIVersion: "v1", Kind: "Service"},
			want: `{"apiVersion":"v1","kind":"Service",` + metaJSON +
				`,"spec":{"ports":[{"port":80},{"name":"alt","port":81,"targetPort":"alt"}],"selector":{"app":"web"}}}`,
		},
		"Pod": {
			object: &corev1.Pod{ObjectMeta: named("web"), Spec: corev1.PodSpec{
				Volumes: []corev1.Volume{
					{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: "none"},
				},
				Containers: []corev1.Container{{
					Name: "web",
					Env: []corev1.EnvVar{{Name: "EMPTY"}, {Name: "CPU", ValueFrom: &corev1.EnvVarSource{
						ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"},
					}}},
					Ports: []corev1.ContainerPort{{ContainerPort: 80}},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1024Mi"),
						"cpu": resource.MustParse("0")}},
					LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(0)},
					}},
					SecurityContext: &corev1.SecurityContext{RunAsNonRoot: ptr(false)},
				}},
				TerminationGracePeriodSeconds: ptr[int64](0),
				NodeSelector:                  map[string]string{},
				SecurityContext:               &corev1.PodSecurityContext{},
			}},
			opt: Options{APIVersion: "v1", Kind: "Pod"},
			want: `{"apiVersion":"v1","kind":"Pod",` + metaJSON + `,"spec":{` +
				`"volumes":[{"name":"scratch","emptyDir":{}},{"name":"none"}],` +
				`"containers":[{"name":"web","ports":[{"containerPort":80}],` +
				`"env":[{"name":"EMPTY"},{"name":"CPU","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}],` +
				`"resources":{"limits":{"cpu":"0","memory":"1Gi"}},` +
				`"livenessProbe":{"httpGet":{"path":"/","port":0}},` +
				`"securityContext":{"runAsNonRoot":false}}],` +
				`"terminationGracePeriodSeconds":0,"securityContext":{}}}`,
		},
		"NetworkPolicy": {
			object: &networkingv1.NetworkPolicy{ObjectMeta: named("web"), Spec: networkingv1.NetworkPolicySpec{
				Ingress: []networkingv1.NetworkPolicyIngressRule{{}},
				Egress:  []networkingv1.NetworkPolicyEgressRule{},
			}},
			opt: Options{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
			want: `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy",` + metaJSON +
				`,"spec":{"podSelector":{},"ingress":[{}]}}`,
		},
		"StatefulSet": {
			object: &appsv1.StatefulSet{ObjectMeta: named("web"), Spec: appsv1.StatefulSetSpec{
				Selector: selector, Template: template, ServiceName: "",
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
			}},
			opt: Options{APIVersion: "apps/v1", Kind: "StatefulSet"},
			want: `{"apiVersion":"apps/v1","kind":"StatefulSet",` + metaJSON + `,"spec":{` + selectorJSON + `,` + templateJSON +
				`,"volumeClaimTemplates":[{"metadata":{"name":"data"}}],"serviceName":""}}`,
		},
		"PersistentVolumeClaim": {
			object: &corev1.PersistentVolumeClaim{ObjectMeta: named("web"), Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: ptr(""),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
				},
			}},
			opt: Options{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			want: `{"apiVersion":"v1","kind":"PersistentVolumeClaim",` + metaJSON +
				`,"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":""}}`,
		},
		"Job": {
			object: &batchv1.Job{ObjectMeta: named("web"),
				Spec: batchv1.JobSpec{Template: template, BackoffLimit: ptr[int32](0)}},
			opt:  Options{APIVersion: "batch/v1", Kind: "Job"},
			want: `{"apiVersion":"batch/v1","kind":"Job",` + metaJSON + `,"spec":{"backoffLimit":0,` + templateJSON + `}}`,
		},
		"CronJob": {
			object: &batchv1.CronJob{ObjectMeta: named("web"), Spec: batchv1.CronJobSpec{
				Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
			}},
			opt: Options{APIVersion: "batch/v1", Kind: "CronJob"},
			want: `{"apiVersion":"batch/v1","kind":"CronJob",` + metaJSON +
				`,"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{` + templateJSON + `}}}}`,
		},
		"Secret": {
			object: &corev1.Secret{ObjectMeta: named("web"), Data: map[string][]byte{"b": {0xff}, "a": nil}},
			opt:    Options{APIVersion: "v1", Kind: "Secret"},
			want:   `{"apiVersion":"v1","kind":"Secret",` + metaJSON + `,"data":{"a":"","b":"/w=="}}`,
		},
		"Role without rules": {
			object: &rbacv1.Role{ObjectMeta: named("web")},
			opt:    Options{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			want:   `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",` + metaJSON + `}`,
		},
		"Role with no rules": {
			object: &rbacv1.Role{ObjectMeta: named("web"), Rules: []rbacv1.PolicyRule{}},
			opt:    Options{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			want:   `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",` + metaJSON + `,"rules":[]}`,
		},
		"by value": {
			object: corev1.ConfigMap{ObjectMeta: named("web"), Data: map[string]string{"b": "<&>", "a": ""}},
			opt:    Options{APIVersion: "v1", Kind: "ConfigMap"},
			want:   `{"apiVersion":"v1","kind":"ConfigMap",` + metaJSON + `,"data":{"a":"","b":"<&>"}}`,
		},
		"TypeMeta is replaced": {
			object: &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v2", Kind: "Other"}, ObjectMeta: named("web")},
			opt:    Options{APIVersion: "v1", Kind: "ConfigMap"},
			want:   `{"apiVersion":"v1","kind":"ConfigMap",` + metaJSON + `}`,
		},
		"status": {
			object: &appsv1.DaemonSet{ObjectMeta: full(), Spec: appsv1.DaemonSetSpec{MinReadySeconds: 3}},
			opt:    Options{APIVersion: "apps/v1", Kind: "DaemonSet", Part: Status},
			want: `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"web","namespace":"default","uid":"u1"},` +
				`"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}}`,
		},
		"empty status": {
			object: &corev1.Pod{ObjectMeta: named("web")},
			opt:    Options{APIVersion: "v1", Kind: "Pod", Part: Status},
			want:   `{"apiVersion":"v1","kind":"Pod",` + metaJSON + `,"status":{}}`,
		},
		"metadata": {
			object: &corev1.ConfigMap{ObjectMeta: full()},
			opt:    Options{APIVersion: "v1", Kind: "ConfigMap"},
			want: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","generateName":"web-","namespace":"default","uid":"u1",` +
				`"labels":{"app":"web"},"annotations":{"a":"b"},` +
				`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u2"}]}}`,
		},
		"unstructured": {
			object: &unstructured.Unstructured{Object: unstructuredContent()},
			opt:    Options{APIVersion: "example.com/v1", Kind: "Echo"},
			want: `{"apiVersion":"example.com/v1","kind":"Echo","metadata":{"labels":{"app":"web"},"name":"web","namespace":"default","uid":"u1"},` +
				`"spec":{"big":9007199254740993,"empty":{},"nothing":null,"template":{"metadata":{"creationTimestamp":null}}}}`,
		},
		"unstructured status": {
			object: &unstructured.Unstructured{Object: unstructuredContent()},
			opt:    Options{APIVersion: "example.com/v1", Kind: "Echo", Part: Status},
			want: `{"apiVersion":"example.com/v1","kind":"Echo","metadata":{"name":"web","namespace":"default","uid":"u1"},` +
				`"status":{"ready":0}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := encode(t, tt.object, tt.opt); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// full is metadata with everything set.
func full() metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: "web", GenerateName: "web-", Namespace: "default", UID: "u1", ResourceVersion: "7", Generation: 2,
		CreationTimestamp: metav1.Unix(1, 0), DeletionTimestamp: ptr(metav1.Unix(2,
			0)), DeletionGracePeriodSeconds: ptr[int64](0),
		Labels: labels, Annotations: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u2"}},
		Finalizers:      []string{"example.com/f"},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{}`)}},
	}
	m.SetSelfLink("/x")
	return m
}

func unstructuredContent() map[string]any {
	return map[string]any{
		"apiVersion": "example.com/v2", "kind": "Other",
		"metadata": map[string]any{
			"name": "web", "namespace": "default", "uid": "u1", "labels": map[string]any{"app": "web"},
			"managedFields": []any{}, "resourceVersion": "7", "generation": int64(2), "creationTimestamp": nil,
			"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": int64(0), "selfLink": "/x",
			"finalizers": []any{"example.com/f"},
		},
		"spec": map[string]any{
			"nothing": nil, "empty": map[string]any{}, "big": int64(9007199254740993),
			"template": map[string]any{"metadata": map[string]any{"creationTimestamp": nil}},
		},
		"status": map[string]any{"ready": int64(0)},
	}
}

// Object appends to the buffer. An error leaves the buffer alone.
func TestObjectAppends(t *testing.T) {
	e, err := For(reflect.TypeFor[corev1.ConfigMap]())
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{APIVersion: "v1", Kind: "ConfigMap"}
	dst := append(make([]byte, 0, 512), "before "...)
	dst, err = e.Object(dst, &corev1.ConfigMap{}, opt)
	if want := `before {"apiVersion":"v1","kind":"ConfigMap"}`; err != nil || string(dst) != want {
		t.Fatalf("got %s, %v, want %s", dst, err, want)
	}
	dst, err = e.Object(dst[:7], &corev1.ConfigMap{Data: map[string]string{"a": "\xff"}}, opt)
	if err == nil || string(dst) != "before " {
		t.Fatalf("got %q, %v, want the buffer and an error", dst, err)
	}
}
