package endpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
)

// podOf returns the pod of an endpoint as its StatefulSet makes it.
func podOf(e *api.NeonEndpoint) *corev1.Pod {
	b := new(api.NeonBranch)
	b.Status.TimelineID = "11111111111111111111111111111111"
	configuration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: computeName(e)}}
	template := statefulSet(e, b, "compute:test", configuration, nil, true).Spec.Template
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}

// TestPodsAreRestricted lets the API server's Pod Security admission judge the pods.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	of := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	_, err := kube.For[corev1.Namespace](client).Modify(t.Context(), ns, func(n *corev1.Namespace) error {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	account := new(corev1.ServiceAccount)
	account.Name = "default"
	if _, err := kube.For[corev1.ServiceAccount](client).In(ns).Apply(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []api.EndpointType{api.ReadWrite, api.ReadOnly, api.Static} {
		e := endpointOf("shop", "trunk")
		e.Spec.Type, e.Namespace = kind, ns
		pod := podOf(e)
		pod.GenerateName = "shop-"
		if _, err := kube.For[corev1.Pod](client).In(ns).Create(t.Context(), pod); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		all := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if text != "" {
				all[name] = resource.MustParse(text)
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		is       corev1.ResourceRequirements
		requests corev1.ResourceList
		memory   int64
		cache    string
	}{
		"nothing":            {corev1.ResourceRequirements{}, list("100m", "256Mi"), 0, "512Mi"},
		"a limit of memory":  {corev1.ResourceRequirements{Limits: list("", "4Gi")}, list("100m", ""), 4 << 30, "2Gi"},
		"a request of both":  {corev1.ResourceRequirements{Requests: list("2", "2Gi")}, list("2", "2Gi"), 2 << 30, "1Gi"},
		"a request of CPU":   {corev1.ResourceRequirements{Requests: list("2", "")}, list("2", "256Mi"), 0, "512Mi"},
		"limits of both":     {corev1.ResourceRequirements{Limits: list("1", "1Gi")}, nil, 1 << 30, "512Mi"},
		"a limit above that": {corev1.ResourceRequirements{Limits: list("", "8Gi"), Requests: list("", "1Gi")}, list("100m", "1Gi"), 8 << 30, "4Gi"},
	} {
		e := endpointOf("shop", "trunk")
		e.Spec.Resources = c.is
		got := resources(e).Requests
		if diff := cmp.Diff(c.requests, got); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
		if memory(e) != c.memory {
			t.Errorf("%s: the memory is %d", name, memory(e))
		}
		if want := resource.MustParse(c.cache); fileCache(memory(e)) != want.Value() {
			t.Errorf("%s: the file cache has %d bytes", name, fileCache(memory(e)))
		}
	}
	e := endpointOf("shop", "trunk")
	e.Spec.Resources.Limits = list("", "4Gi")
	for _, v := range podOf(e).Spec.Volumes {
		if v.Name == "shm" && (v.EmptyDir.Medium != corev1.StorageMediumMemory || v.EmptyDir.SizeLimit.String() != "2Gi") {
			t.Errorf("the shared memory is %+v", v.EmptyDir)
		}
	}
}

// TestStartupProbe runs the probe's statement in a PostgreSQL that lacks the configuration's roles
// and databases, one after the other.
func TestStartupProbe(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.Local("cloud_admin", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	file := filepath.Join(pgtest.Dir(t), "it's.json")
	text := `{"spec":{"cluster":{"roles":[{"name":"app"},{"name":"we\"ird"}],"databases":[{"name":"orders"}]}}}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // PostgreSQL reads it
		t.Fatal(err)
	}
	for _, next := range []string{"create role app", `create role "we""ird"`, "create database orders", ""} {
		_, err := conn.Exec(t.Context(), contentThere(file))
		if (err == nil) != (next == "") {
			t.Errorf("before %q: %v", next, err)
		}
		if _, err := conn.Exec(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
}
