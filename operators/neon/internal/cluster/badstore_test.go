package cluster

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/s3test"
)

// TestBadStores has clusters whose buckets are not there, refuse the credentials, or have data of a cluster whose
// keys are not there, and one whose credentials end. The condition of each says so, and no pod that needs the bucket
// is made before it can be used.
func TestBadStores(t *testing.T) {
	t.Parallel()
	of := kubetest.Start(t, kubetest.Options{})
	client, ns := optest.Client(t, of.Config()), of.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(crd.Install(ctx, client, api.Definitions...))
	secrets := kube.For[corev1.Secret](client).In(ns)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	op := &Operator{
		Clusters: kube.For[api.NeonCluster](client).In(ns), Projects: kube.For[api.NeonProject](client).In(ns),
		Secrets: secrets, Services: kube.For[corev1.Service](client).In(ns),
		StatefulSets: kube.For[appsv1.StatefulSet](client).In(ns), Deployments: kube.For[appsv1.Deployment](client).In(ns),
		Branches: kube.For[api.NeonBranch](client).In(ns), Pods: kube.For[corev1.Pod](client).In(ns),
		Policies: kube.For[networkingv1.NetworkPolicy](client).In(ns),
		Budgets:  kube.For[policyv1.PodDisruptionBudget](client).In(ns),
		Hooks:    "http://hooks", Clients: &Clients{Secrets: secrets, HTTP: &http.Client{Transport: transport}},
	}
	op.Start()
	running, stop := context.WithCancel(ctx)
	op.Branches.Open(running) // as the controller of branches does
	ended := make(chan error)
	go func() {
		ended <- controller.Run(running, controller.Options{Logger: slog.New(slog.DiscardHandler)}, op.Controller())
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	url, dir := s3test.Start(t, "data")
	ok(os.MkdirAll(filepath.Join(dir, "earlier", "pageserver", "tenants", tenantID), 0o750))
	ok(os.WriteFile(filepath.Join(dir, "earlier", "pageserver", "tenants", tenantID, "index"), nil, 0o600))
	login := func(name, secret string) {
		s := &corev1.Secret{StringData: map[string]string{accessKey: s3test.AccessKey, secretKey: secret}}
		s.Name = name
		_, err := secrets.Create(ctx, s)
		ok(err)
	}
	login("good", s3test.SecretKey)
	login("bad", "another")
	login("ending", s3test.SecretKey)
	for name, c := range map[string]struct{ bucket, secret, says string }{
		"missing":   {"nowhere", "good", `bucket "nowhere" does not exist: create it`},
		"refused":   {"data", "bad", `correct the keys in Secret bad`},
		"loginless": {"data", "nobody", "nobody"},
		"ending":    {"data", "ending", ""},
		"earlier":   {"data", "good", "data of an earlier cluster in earlier/pageserver/tenants/: restore its Secret earlier-keys"},
	} {
		cluster := sample()
		cluster.Namespace, cluster.Name = ns, name
		cluster.Spec.Safekeepers.Zones = nil
		cluster.Spec.ComputeImages = map[string]string{"17": "compute:test"}
		cluster.Spec.DeletionPolicy, cluster.Spec.Pageservers.DrainTimeoutSeconds = api.Delete, 300
		cluster.Spec.ObjectStore = api.ObjectStore{S3: &api.S3{
			Bucket: c.bucket, Region: "us-east-1", Endpoint: url, SecretName: c.secret, Prefix: name,
		}}
		_, err := op.Clusters.Create(ctx, cluster)
		ok(err)
		says := func(text string) {
			t.Helper()
			is, err := op.Clusters.Until(ctx, name, func(is *api.NeonCluster) bool {
				ready := meta.FindStatusCondition(is.Status.Conditions, "Ready")
				return ready != nil && ready.Status == metav1.ConditionFalse && strings.Contains(ready.Message, text)
			})
			if err != nil {
				is, _ = op.Clusters.Get(t.Context(), name)
				t.Fatalf("%s does not say %s: %+v", name, text, is.Status.Conditions)
			}
			t.Logf("%s: %s", name, meta.FindStatusCondition(is.Status.Conditions, "Ready").Message)
		}
		usable := func(is *api.NeonCluster) bool {
			for _, n := range is.Status.Nodes {
				if n.Name == "bucket" && n.State == "Ready" {
					return true
				}
			}
			return false
		}
		if c.says != "" {
			says(c.says)
			if s, err := op.StatefulSets.Get(ctx, name+"-safekeeper-1"); err == nil {
				t.Errorf("%s: %s was made", name, s.Name)
			}
			if name == "earlier" {
				if _, err := secrets.Get(ctx, KeysName(name)); !apierrors.IsNotFound(err) {
					t.Errorf("it has made keys: %v", err)
				}
				restored := &corev1.Secret{Data: newKeys()}
				restored.Name = KeysName(name)
				_, err := secrets.Create(ctx, restored)
				ok(err)
				_, err = op.Clusters.Until(ctx, name, usable)
				ok(err)
			}
			continue
		}
		_, err = op.Clusters.Until(ctx, name, usable)
		ok(err)
		_, err = secrets.Modify(ctx, c.secret, func(s *corev1.Secret) error {
			s.Data[secretKey] = []byte("another")
			return nil
		})
		ok(err)
		says(`bucket "data"`)
		_, err = secrets.Modify(ctx, c.secret, func(s *corev1.Secret) error {
			s.Data[secretKey] = []byte(s3test.SecretKey)
			return nil
		})
		ok(err)
		_, err = op.Clusters.Until(ctx, name, usable)
		ok(err)
	}
}
