package cluster

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

func TestMain(m *testing.M) {
	optest.Parallel(4)
	os.Exit(leak.Run(m))
}

func sample() *api.NeonCluster {
	c := &api.NeonCluster{Spec: api.ClusterSpec{
		Image:              "neon:test",
		ObjectStore:        api.ObjectStore{Managed: new(api.Managed)},
		ControllerDatabase: api.ControllerDatabase{Managed: new(api.Volume)},
		Safekeepers:        api.Safekeepers{Count: 3, Zones: []string{"a", "b"}},
		Pageservers:        api.Pageservers{Count: 2},
	}}
	c.Namespace, c.Name = "data", "main"
	return c
}

// TestPodsAreRestricted lets the API server's Pod Security admission judge the pods.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	of := kubetest.Start(t, kubetest.Options{})
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
	bad := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "any"}}}}
	bad.Name = "bad"
	if _, err := kube.For[corev1.Pod](client).In(ns).Create(t.Context(), bad); err == nil {
		t.Fatal("the API server accepts a pod that is not restricted")
	}
	c := sample()
	c.Namespace = ns
	files, err := pageserverFiles(c, 1, token.New())
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]part{
		"store": store(c), "database": database(c), "broker": broker(c), "safekeeper": safekeeper(c, 1),
		"pageserver": pageserver(c, 1, files), "controller": storageController(c, "http://hooks", databaseURL(c)),
	} {
		template := p.template()
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = name, ns
		if p.data != "" {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data"})
		}
		if _, err := kube.For[corev1.Pod](client).In(ns).Create(t.Context(), pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRemoteStorage holds the object stores' settings to the forms that upstream reads.
func TestRemoteStorage(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]api.ObjectStore{
		`{bucket_name="neon", bucket_region="us-east-1", endpoint="http://main-store.data.svc:7070", ` +
			`prefix_in_bucket="pageserver"}`: {Managed: new(api.Managed)},
		`{bucket_name="b", bucket_region="r", prefix_in_bucket="team/pageserver"}`: {
			S3: &api.S3{Bucket: "b", Region: "r", Prefix: "/team/"},
		},
		`{container_name="c", container_region="r", prefix_in_container="pageserver"}`: {
			Azure: &api.Azure{Container: "c", Region: "r", SecretName: "s"},
		},
		`{bucket_name="b", prefix_in_bucket="pageserver"}`: {GCS: &api.GCS{Bucket: "b"}},
	} {
		c := sample()
		c.Spec.ObjectStore = s
		if got := remoteStorage(c, "pageserver"); got != want {
			t.Errorf("%+v:\n got %s\nwant %s", s, got, want)
		}
	}
}

// TestQuote compares strings in TOML with those in JSON, whose escapes are a part of TOML's.
func TestQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		var back string
		if err := json.Unmarshal([]byte(quote(s)), &back); err != nil || back != s {
			t.Fatalf("quote(%q) = %s is read as %q: %v", s, quote(s), back, err)
		}
		if strings.ContainsAny(quote(s), "\n\r") {
			t.Fatalf("quote(%q) has a line break", s)
		}
	})
}

// TestTokensAreForOne sees that each program gets the scopes that it needs, and no other.
func TestTokensAreForOne(t *testing.T) {
	t.Parallel()
	key := token.New()
	files, err := pageserverFiles(sample(), 1, key)
	if err != nil {
		t.Fatal(err)
	}
	public := key.Public()
	for name, c := range map[string]struct {
		data map[string][]byte
		key  string
		want token.Scope
	}{
		"controller to pageservers": {controllerTokens(key), "PAGESERVER_JWT_TOKEN", token.Pageserver},
		"controller to safekeepers": {controllerTokens(key), "SAFEKEEPER_JWT_TOKEN", token.Safekeeper},
		"controller to hooks":       {controllerTokens(key), "CONTROL_PLANE_JWT_TOKEN", HookScope},
		"controller to its peer":    {controllerTokens(key), "PEER_JWT_TOKEN", token.Peer},
		"safekeeper to safekeepers": {safekeeperTokens(key), tokenFile, token.Safekeeper},
		"pageserver to safekeepers": {files, "NEON_AUTH_TOKEN", token.Safekeeper},
	} {
		claims, err := public.Verify(string(c.data[c.key]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(token.Claims{Scope: c.want}, claims); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for k, v := range c.data {
			if k != privatePEM && strings.Contains(string(v), "PRIVATE KEY") {
				t.Errorf("%s: %s has a private key", name, k)
			}
		}
	}
}
