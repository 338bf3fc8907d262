package crd_test

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// World is a kind that is made of Kubernetes' own types.
type World struct {
	kube.Object
	Spec WorldSpec `json:"spec,omitzero"`
}

func (World) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "World"} }

type WorldSpec struct {
	Pod           corev1.PodSpec                            `json:"pod,omitzero"`
	Template      corev1.PodTemplateSpec                    `json:"template,omitzero"`
	PodStatus     corev1.PodStatus                          `json:"podStatus,omitzero"`
	Service       corev1.ServiceSpec                        `json:"service,omitzero"`
	ServiceStatus corev1.ServiceStatus                      `json:"serviceStatus,omitzero"`
	ConfigMap     *corev1.ConfigMap                         `json:"configMap,omitempty"`
	Secret        *corev1.Secret                            `json:"secret,omitempty"`
	Account       *corev1.ServiceAccount                    `json:"account,omitempty"`
	Claim         corev1.PersistentVolumeClaim              `json:"claim,omitzero"`
	Volume        corev1.PersistentVolumeSpec               `json:"volume,omitzero"`
	Node          corev1.NodeSpec                           `json:"node,omitzero"`
	NodeStatus    corev1.NodeStatus                         `json:"nodeStatus,omitzero"`
	Deployment    appsv1.DeploymentSpec                     `json:"deployment,omitzero"`
	DeployStatus  appsv1.DeploymentStatus                   `json:"deployStatus,omitzero"`
	StatefulSet   appsv1.StatefulSetSpec                    `json:"statefulSet,omitzero"`
	DaemonSet     appsv1.DaemonSetSpec                      `json:"daemonSet,omitzero"`
	ReplicaSet    appsv1.ReplicaSetSpec                     `json:"replicaSet,omitzero"`
	Job           batchv1.JobSpec                           `json:"job,omitzero"`
	JobStatus     batchv1.JobStatus                         `json:"jobStatus,omitzero"`
	CronJob       batchv1.CronJobSpec                       `json:"cronJob,omitzero"`
	Ingress       networkingv1.IngressSpec                  `json:"ingress,omitzero"`
	IngressStatus networkingv1.IngressStatus                `json:"ingressStatus,omitzero"`
	NetworkPolicy networkingv1.NetworkPolicySpec            `json:"networkPolicy,omitzero"`
	Autoscaler    autoscalingv2.HorizontalPodAutoscalerSpec `json:"autoscaler,omitzero"`
	Disruption    policyv1.PodDisruptionBudgetSpec          `json:"disruption,omitzero"`
	Role          rbacv1.Role                               `json:"role,omitzero"`
	StorageClass  storagev1.StorageClass                    `json:"storageClass,omitzero"`
}

// openAPI holds the server's OpenAPI documents of its own types.
type openAPI struct {
	Components struct {
		Schemas map[string]*native
	}
}

type native struct {
	Ref                  string `json:"$ref"`
	AllOf                []*native
	Type, Format         string
	Properties           map[string]*native
	Items                *native
	AdditionalProperties any
	Required             []string
	ListType             string   `json:"x-kubernetes-list-type"`
	MapType              string   `json:"x-kubernetes-map-type"`
	ListMapKeys          []string `json:"x-kubernetes-list-map-keys"`
	Default              any
}

func (o *openAPI) resolve(n *native) *native {
	for n != nil {
		switch {
		case n.Ref != "":
			n = o.Components.Schemas[n.Ref[strings.LastIndex(n.Ref, "/")+1:]]
		case len(n.AllOf) == 1:
			n = n.AllOf[0]
		default:
			return n
		}
	}
	return nil
}

// Every field of Kubernetes' workload types has the type that the server itself gives it.
// Lists and maps are sets, maps with the same keys, or atomic, as in the server.
func TestWorkloadTypes(t *testing.T) {
	s := start(t)
	root := of[World](t, s.group(), crd.Options{}).Version("v1").Schema.OpenAPIV3Schema
	compared := 0
	for group, path := range map[string]string{"core": "api/v1", "apps": "apis/apps/v1", "batch": "apis/batch/v1",
		"networking":  "apis/networking.k8s.io/v1",
		"autoscaling": "apis/autoscaling/v2", "policy": "apis/policy/v1", "rbac": "apis/rbac.authorization.k8s.io/v1",
		"storage": "apis/storage.k8s.io/v1"} {
		var api openAPI
		s.get(t, "/openapi/v3/"+path, "application/json", &api)
		for f := range reflect.TypeFor[WorldSpec]().Fields() {
			typ := f.Type
			if typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			parts := strings.Split(typ.PkgPath(), "/")
			if parts[2] != group {
				continue
			}
			version := parts[3]
			for name, n := range api.Components.Schemas {
				if strings.HasSuffix(name, "api."+group+"."+version+"."+typ.Name()) {
					name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
					c := nativeComparison{t: t, api: &api}
					c.compare(root.Properties["spec"].Properties[name], n, f.Name)
					compared += c.fields
				}
			}
		}
	}
	t.Logf("%d fields compared", compared)
	if compared < 3000 {
		t.Errorf("only %d fields were compared", compared)
	}
}

type nativeComparison struct {
	t      *testing.T
	api    *openAPI
	fields int
}

func (c *nativeComparison) compare(ours *crd.Schema, theirs *native, path string) {
	c.fields++
	ref, mapType := theirs.Ref, theirs.MapType
	if len(theirs.AllOf) == 1 {
		ref = theirs.AllOf[0].Ref
	}
	theirs = c.api.resolve(theirs)
	switch {
	case strings.HasSuffix(ref, "meta.v1.ObjectMeta"), strings.HasSuffix(ref, "RawExtension"):
		return
	case strings.HasSuffix(ref, "IntOrString"), strings.HasSuffix(ref, "Quantity"):
		if !ours.IntOrString {
			c.t.Errorf("%s: not int-or-string", path)
		}
		return
	}
	if ours.Type != theirs.Type {
		c.t.Errorf("%s: type %q, the server's is %q", path, ours.Type, theirs.Type)
		return
	}
	switch ours.Type {
	case "array":
		if path == "Account.secrets" && ours.ListType == "" {
			// Its key is neither required nor has it a default: no custom resource can
			// have such a map.
			theirs = &native{Items: theirs.Items}
		}
		sorted := func(keys []string) []string { return slices.Sorted(slices.Values(keys)) }
		if cmp.Or(ours.ListType, "atomic") != cmp.Or(theirs.ListType, "atomic") ||
			!slices.Equal(sorted(ours.ListMapKeys), sorted(theirs.ListMapKeys)) {
			c.t.Errorf("%s: list type %q by %v, the server's is %q by %v", path, ours.ListType, ours.ListMapKeys,
				theirs.ListType, theirs.ListMapKeys)
		}
		c.compare(ours.Items, theirs.Items, path+"[]")
	case "object":
		if cmp.Or(ours.MapType, "granular") != cmp.Or(theirs.MapType, mapType, "granular") {
			c.t.Errorf("%s: map type %q, the server's is %q", path, ours.MapType, cmp.Or(theirs.MapType, mapType))
		}
		for _, name := range slices.Sorted(maps.Keys(theirs.Properties)) {
			if ours.Properties[name] == nil {
				c.t.Errorf("%s.%s is missing", path, name)
				continue
			}
			c.compare(ours.Properties[name], theirs.Properties[name], path+"."+name)
		}
		for name, p := range ours.Properties {
			if theirs.Properties[name] == nil {
				c.t.Errorf("%s.%s is not the server's", path, name)
			}
			if got, want := slices.Contains(ours.Required, name), slices.Contains(theirs.Required, name); got != want &&
				p.Default == nil {
				c.t.Errorf("%s.%s: required %v, the server's %v", path, name, got, want)
			}
		}
	}
}

// The server accepts a kind that is made of its own types, and objects of this kind.
func TestWorkloads(t *testing.T) {
	s := start(t)
	s.install(t, of[World](t, s.group(), crd.Options{}))
	worlds := kube.For[World](s.client,
		kube.Kind{GVK: kube.GVK{Group: s.group(), Version: "v1", Kind: "World"}}).In(s.namespace)
	w := &World{}
	w.Name = "a"
	port := corev1.ContainerPort{ContainerPort: 53, Protocol: corev1.ProtocolUDP}
	w.Spec.Template.Labels = map[string]string{"a": "b"}
	w.Spec.Template.Annotations = map[string]string{"c": "d"}
	w.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a", Image: "i", Ports: []corev1.ContainerPort{port, {ContainerPort: 53}},
			Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}},
		NodeSelector:     map[string]string{"x": "y"},
	}
	applied, err := worlds.Apply(soon(t), w)
	if err != nil {
		t.Fatal(err)
	}
	got := applied.Spec.Template
	if got.Labels["a"] != "b" || got.Annotations["c"] != "d" || len(got.Spec.Containers[0].Ports) != 2 ||
		got.Spec.Containers[0].Ports[1].Protocol != corev1.ProtocolTCP {
		t.Errorf("applied: %+v", got)
	}
	w.Spec.Template.Spec.Containers = append(w.Spec.Template.Spec.Containers, corev1.Container{Name: "a", Image: "other"})
	_, err = worlds.Create(soon(t), &World{Object: kube.Object{ObjectMeta: w.ObjectMeta}, Spec: w.Spec})
	if err == nil || !strings.Contains(err.Error(), `Duplicate value`) {
		t.Errorf("two containers of one name: %v", err)
	}
}
