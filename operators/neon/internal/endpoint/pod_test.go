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
	template := statefulSet(e, b, image{name: "compute:test"}, configuration, nil, true).Spec.Template
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

// TestResources has the resources of computes, and the parts of their disks.
func TestResources(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory, disk string) corev1.ResourceList {
		all := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{
			corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: disk,
		} {
			if text != "" {
				all[name] = resource.MustParse(text)
			}
		}
		return all
	}
	limits := func(l corev1.ResourceList) corev1.ResourceRequirements { return corev1.ResourceRequirements{Limits: l} }
	requests := func(l corev1.ResourceList) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: l}
	}
	for name, c := range map[string]struct {
		is        corev1.ResourceRequirements
		settings  map[string]string
		requests  corev1.ResourceList
		disk      string // its limit
		cache     string
		temporary string
		refused   bool
	}{
		"nothing": {requests: list("100m", "256Mi", "1536Mi"), disk: "10752Mi", cache: "512Mi", temporary: "4608Mi"},
		"a limit of memory": {
			is: limits(list("", "4Gi", "")), requests: list("100m", "", "3Gi"), disk: "12Gi", cache: "2Gi", temporary: "4608Mi",
		},
		"a request of both": {
			is: requests(list("2", "2Gi", "")), requests: list("2", "2Gi", "2Gi"), disk: "11Gi", cache: "1Gi", temporary: "4608Mi",
		},
		"a request of CPU": {
			is: requests(list("2", "", "")), requests: list("2", "256Mi", "1536Mi"), disk: "10752Mi", cache: "512Mi", temporary: "4608Mi",
		},
		"limits of both": {
			is: limits(list("1", "1Gi", "")), requests: list("", "", "1536Mi"), disk: "10752Mi", cache: "512Mi", temporary: "4608Mi",
		},
		"a limit above that": {
			is:       corev1.ResourceRequirements{Limits: list("", "8Gi", ""), Requests: list("", "1Gi", "")},
			requests: list("100m", "1Gi", "5Gi"), disk: "14Gi", cache: "4Gi", temporary: "4608Mi",
		},
		"a limit of the disk": {
			is: limits(list("", "", "50Gi")), requests: list("100m", "256Mi", ""), disk: "50Gi", cache: "512Mi", temporary: "24832Mi",
		},
		"a small disk": {
			is: limits(list("", "8Gi", "2Gi")), requests: list("100m", "", ""), disk: "2Gi", cache: "1Gi", temporary: "64Mi",
		},
		"a request of the disk": {
			is: requests(list("", "", "40Gi")), requests: list("100m", "256Mi", "40Gi"), disk: "40Gi", cache: "512Mi", temporary: "19712Mi",
		},
		"a disk of a rack": {
			is: limits(list("", "", "8Ti")), requests: list("100m", "256Mi", ""), disk: "8Ti", cache: "512Mi", temporary: "1Ti",
		},
		"a larger cache": {
			settings: map[string]string{"neon.max_file_cache_size": "20GB"},
			requests: list("100m", "256Mi", "21Gi"), disk: "30Gi", cache: "20Gi", temporary: "4608Mi",
		},
		"a cache above the disk": {
			is: limits(list("", "", "4Gi")), settings: map[string]string{"neon.max_file_cache_size": "4096"},
			requests: list("100m", "256Mi", ""), disk: "4Gi", cache: "4Gi", temporary: "64Mi", refused: true,
		},
	} {
		e := endpointOf("shop", "trunk")
		e.Spec.Resources, e.Spec.Settings = c.is, c.settings
		got := resources(e)
		if diff := cmp.Diff(c.requests, got.Requests, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
		for what, q := range map[string]struct {
			got  int64
			want string
		}{
			"limit of the disk": {got.Limits.StorageEphemeral().Value(), c.disk}, "cache": {fileCache(e), c.cache},
			"temporary files": {temporary(e), c.temporary},
		} {
			if want := resource.MustParse(q.want); q.got != want.Value() {
				t.Errorf("%s: the %s is %d MiB, want %s", name, what, q.got>>20, q.want)
			}
		}
		if err := fits(e); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := endpointOf("shop", "trunk")
	e.Spec.Resources.Limits = list("", "4Gi", "")
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
