package intent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kubetest"
)

// applied is an object that a real server is asked to apply.
type applied struct {
	group, plural string
	object        metav1.Object
}

func someObjects() []applied {
	job := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{container},
		RestartPolicy: corev1.RestartPolicyNever}}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web",
		Port: networkingv1.ServiceBackendPort{Number: 80}}}
	return []applied{
		{"v1", "configmaps", &corev1.ConfigMap{Data: map[string]string{"a": ""},
			BinaryData: map[string][]byte{"b": {0xff}, "c": nil}}},
		{"v1", "secrets", &corev1.Secret{Data: map[string][]byte{"a": nil}, StringData: map[string]string{"b": "x"}}},
		{"v1", "services", &corev1.Service{Spec: corev1.ServiceSpec{Selector: labels,
			Ports: []corev1.ServicePort{{Port: 80}}}}},
		{"v1", "pods", &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "web:1", Env: []corev1.EnvVar{{Name: "A"}},
				Ports: []corev1.ContainerPort{{ContainerPort: 80}}}},
			Volumes: []corev1.Volume{{Name: "v",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			TerminationGracePeriodSeconds: ptr[int64](0),
		}}},
		{"v1", "persistentvolumeclaims", &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr(""),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{"storage": resource.MustParse("1024Mi")},
			},
		}}},
		{"v1", "serviceaccounts", &corev1.ServiceAccount{AutomountServiceAccountToken: ptr(false)}},
		{"v1", "limitranges", &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("0.5")},
		}}}}},
		{
			"v1", "resourcequotas",
			&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}},
		},
		{"apps/v1", "replicasets", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}},
		{"apps/v1", "deployments", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr[int32](0), Selector: selector,
			Template: template}}},
		{"apps/v1", "statefulsets", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
			Selector: selector, Template: template,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")},
					},
				}}},
		}}},
		{"apps/v1", "daemonsets", &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}},
		{"batch/v1", "jobs", &batchv1.Job{Spec: batchv1.JobSpec{Template: job, BackoffLimit: ptr[int32](0)}}},
		{"batch/v1", "cronjobs", &batchv1.CronJob{Spec: batchv1.CronJobSpec{
			Schedule:    "* * * * *",
			Suspend:     ptr(false),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}},
		}}},
		{"networking.k8s.io/v1", "networkpolicies", &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{{}},
		}}},
		{"networking.k8s.io/v1", "ingresses",
			&networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &backend}}},
		{"policy/v1", "poddisruptionbudgets", &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr(intstr.FromInt32(0)), Selector: selector,
		}}},
		{"rbac.authorization.k8s.io/v1", "roles", &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"},
			APIGroups: []string{""}, Resources: []string{"pods"}}}}},
		{
			"rbac.authorization.k8s.io/v1", "clusterroles",
			&rbacv1.ClusterRole{
				AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{*selector}},
			},
		},
		{"autoscaling/v2", "horizontalpodautoscalers",
			&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
					Name: "web"}, MaxReplicas: 3,
			}}},
		{"coordination.k8s.io/v1", "leases", &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr("x"), RenewTime: ptr(metav1.NewMicroTime(metav1.Unix(1, 0).Time)),
		}}},
		{"discovery.k8s.io/v1", "endpointslices", &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.1.1"}}}}},
		{"scheduling.k8s.io/v1", "priorityclasses", &schedulingv1.PriorityClass{Value: 0}},
		{"storage.k8s.io/v1", "storageclasses", &storagev1.StorageClass{Provisioner: "example.com/p"}},
		{"admissionregistration.k8s.io/v1", "validatingadmissionpolicies",
			&admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
						{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
							Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"pods"}},
						}},
					},
				},
				Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
			}}},
	}
}

// A real server accepts the sent body. Then the field manager owns the fields that were
// meant, and no others.
func TestServerOwnsWhatWasMeant(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	config := cluster.Config()
	// The server refuses pods while their namespace has no service account.
	apply(t, config, applied{"v1", "serviceaccounts",
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}}, Spec, "")
	for _, a := range someObjects() {
		t.Run(a.plural, func(t *testing.T) {
			a.object.SetName("web-" + namespace)
			if !slices.Contains(clusterScoped, a.plural) {
				a.object.SetNamespace(namespace)
			}
			a.object.SetAnnotations(map[string]string{"example.com/note": ""})
			sent, owned := apply(t, config, a, Spec, "dryRun=All")
			checkOwned(t, sent, owned)
		})
	}
	t.Run("status", func(t *testing.T) {
		meta := metav1.ObjectMeta{Name: "web", Namespace: namespace}
		set := &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
		apply(t, config, applied{"apps/v1", "daemonsets", set}, Spec, "")
		sent, owned := apply(t, config, applied{"apps/v1", "daemonsets", set}, Status, "dryRun=All")
		checkOwned(t, sent, owned)
		if !owned["status.numberReady"] || owned["spec"] {
			t.Errorf("owned: %v", slices.Sorted(maps.Keys(owned)))
		}
	})
	t.Run("unstructured", func(t *testing.T) {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"},
			"metadata": map[string]any{"name": "u", "namespace": namespace, "creationTimestamp": nil,
				"finalizers": []any{"example.com/f"}},
		}}
		sent, owned := apply(t, config, applied{"v1", "configmaps", object}, Spec, "dryRun=All")
		checkOwned(t, sent, owned)
		if want := map[string]bool{"data": true, "data.a": true}; !reflect.DeepEqual(owned, want) {
			t.Errorf("owned: %v", owned)
		}
	})
}

var clusterScoped = []string{"clusterroles", "priorityclasses", "storageclasses", "validatingadmissionpolicies"}

// apply applies an object. It returns the sent body and the fields that are owned then.
func apply(t *testing.T, config *rest.Config, a applied, part Part, query string) (sent []byte, owned map[string]bool) {
	t.Helper()
	kind := reflect.TypeOf(a.object).Elem().Name()
	if u, ok := a.object.(*unstructured.Unstructured); ok {
		kind = u.GetKind()
	}
	sent = []byte(encode(t, a.object, Options{APIVersion: a.group, Kind: kind, Part: part}))
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	path := "/apis/" + a.group
	if a.group == "v1" {
		path = "/api/v1"
	}
	if namespace := a.object.GetNamespace(); namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + a.plural + "/" + a.object.GetName()
	if part == Status {
		path += "/status"
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
		config.Host+path+"?fieldManager=meant&force=true&fieldValidation=Strict&"+query, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/apply-patch+yaml")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 300 {
		t.Fatalf("apply %s: %s\n%s", sent, resp.Status, body)
	}
	var answer metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	subresource := ""
	if part == Status {
		subresource = "status"
	}
	owned = map[string]bool{}
	for _, entry := range answer.ManagedFields {
		if entry.Manager == "meant" && entry.Subresource == subresource {
			var fields map[string]any
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
				t.Fatal(err)
			}
			ownedPaths("", fields, owned)
		}
	}
	return sent, owned
}

// ownedPaths collects the paths of a managedFields entry; items of lists are [].
func ownedPaths(at string, fields map[string]any, into map[string]bool) {
	for key, below := range fields {
		name, isField := strings.CutPrefix(key, "f:")
		path := at + "[]"
		switch {
		case key == ".":
			continue
		case isField:
			path = strings.TrimPrefix(at+"."+name, ".")
			into[path] = true
		}
		ownedPaths(path, below.(map[string]any), into)
	}
}

// checkOwned compares the paths in a body with the paths that the body's field manager
// owns. For atomic lists and objects, the server records no fields inside them.
func checkOwned(t *testing.T, sent []byte, owned map[string]bool) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(sent, &body); err != nil {
		t.Fatal(err)
	}
	delete(body, "apiVersion")
	delete(body, "kind")
	meta := body["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "uid"} {
		delete(meta, name)
	}
	all, leaves := map[string]bool{}, map[string]bool{}
	bodyPaths("", body, all, leaves)
	for path := range owned {
		if !all[path] {
			t.Errorf("%s is owned and was not sent in %s", path, sent)
		}
	}
	for path := range leaves {
		if path == "metadata" {
			continue
		}
		covered := owned[path]
		for outer := range owned {
			covered = covered || strings.HasPrefix(path, outer+".") || strings.HasPrefix(path, outer+"[]")
		}
		if !covered {
			t.Errorf("%s was sent and is not owned: %v", path, slices.Sorted(maps.Keys(owned)))
		}
	}
}

func bodyPaths(at string, v any, all, leaves map[string]bool) {
	if at != "" {
		all[at] = true
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			bodyPaths(strings.TrimPrefix(fmt.Sprint(at, ".", name), "."), value, all, leaves)
		}
	case []any:
		for _, value := range v {
			bodyPaths(at+"[]", value, all, leaves)
		}
	default:
		leaves[at] = true
	}
}
