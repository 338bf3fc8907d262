package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestRights runs foo with a token of its shipped service account and no other
// credential, under the shipped role, and under that role without one of its verbs at a
// time.
func TestRights(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	client := optest.Client(t, cluster.Config())
	optest.Apply(t, client, "", optest.Read(t, definition)...)

	for name, test := range map[string]struct {
		without string
		says    []string // in the log
	}{
		"all":          {"", nil},
		"without list": {"list", nil}, // a streaming list takes its place
		// A watch is refused, and the log says so. The retries list, so changes are seen late.
		"without watch": {"watch", []string{"store is out of sync", "cannot watch resource"}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			rights, err := install.InNamespace(optest.Read(t, "foo/deploy/rbac.yaml"), "default", namespace)
			if err != nil {
				t.Fatal(err)
			}
			optest.Apply(t, client, namespace, without(t, rights, test.without)...)
			samples := optest.Read(t, "foo/sample.yaml")
			optest.Apply(t, client, namespace, samples[0])

			for _, verb := range []string{"list", "watch"} {
				if verb != test.without {
					optest.AwaitRight(t, client, namespace, "foo", optest.Right{Verb: verb, Group: "clux.dev", Resource: "foos"}, true)
				}
			}
			p := binary.Run(
				t, optest.Kubeconfig(t, cluster.Config(), namespace, optest.Token(t, client, namespace, "foo")),
				"-addr=127.0.0.1:0",
			)
			url := address(t, p)
			expectBody(t, url+"/readyz", 200, "ok")
			if len(test.says) > 0 {
				t.Log(optest.Expect(t, p, test.says...))
			}
			optest.Apply(t, client, namespace, samples[1])
			// A missing verb is noticed as soon as it is needed.
			_, _, metrics := ask(t, "GET", url+"/metrics", nil)
			if refused := strings.Contains(metrics, `rest_client_requests_total{code="403"`); refused != (test.without != "") {
				t.Errorf("without the right to %q: something was refused: %v", test.without, refused)
			}
			want := in(namespace, `{"namespace":"NS","name":"bad","spec":{"name":"bad","info":"a foo that nobody asked for"}}`)
			expectBody(t, url+"/foos/bad", 200, want)
		})
	}
}

// TestRightsAreNoMore asks the server whether the role allows anything else.
func TestRightsAreNoMore(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	client := optest.Client(t, cluster.Config())
	optest.Apply(t, client, "", optest.Read(t, definition)...)
	namespace := cluster.Namespace(t)
	rights, err := install.InNamespace(optest.Read(t, "foo/deploy/rbac.yaml"), "default", namespace)
	if err != nil {
		t.Fatal(err)
	}
	optest.Apply(t, client, namespace, rights...)
	optest.Apply(t, client, namespace, optest.Read(t, "foo/sample.yaml")...)
	foo := optest.Client(t, withToken(cluster.Config(), optest.Token(t, client, namespace, "foo")))

	foos := kube.For[Foo](foo, fooKind)
	if _, err := foos.In(namespace).Get(t.Context(), "good"); !apierrors.IsForbidden(err) {
		t.Errorf("get: %v", err)
	}
	if err := foos.In(namespace).Delete(t.Context(), "good"); !apierrors.IsForbidden(err) {
		t.Errorf("delete: %v", err)
	}
	for _, err := range foos.In("default").List(t.Context()) {
		if !apierrors.IsForbidden(err) {
			t.Errorf("list in another namespace: %v", err)
		}
	}
}

// TestDeployment has the server admit the shipped pod in a namespace that allows only
// restricted pods.
func TestDeployment(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	client := optest.Client(t, cluster.Config())
	namespace := cluster.Namespace(t)
	namespaces := kube.For[corev1.Namespace](client)
	labels := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := namespaces.Patch(t.Context(), namespace, "application/merge-patch+json", labels); err != nil {
		t.Fatal(err)
	}
	all, err := install.InNamespace(
		optest.Read(t, "foo/deploy/rbac.yaml", "foo/deploy/deployment.yaml", "foo/deploy/service.yaml"), "default",
		namespace,
	)
	if err != nil {
		t.Fatal(err)
	}
	optest.Apply(t, client, namespace, all...)
	d, err := kube.For[appsv1.Deployment](client).In(namespace).Get(t.Context(), "foo")
	if err != nil {
		t.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client).In(namespace)
	pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
	pod.Name = "as-shipped"
	admitted, err := pods.With(kube.WriteOptions{DryRun: true, FieldValidation: "Strict"}).Create(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if sleep := admitted.Spec.Containers[0].Lifecycle.PreStop.Sleep; sleep == nil {
		t.Error("the server does not know the preStop sleep")
	} else if rest := *admitted.Spec.TerminationGracePeriodSeconds - sleep.Seconds; time.Duration(rest)*time.Second <= drainTime {
		t.Errorf("foo has %d s to end and takes up to %s", rest, drainTime)
	}
	pod.Spec.Containers[0].SecurityContext = nil
	if _, err := pods.With(kube.WriteOptions{DryRun: true}).Create(t.Context(), pod); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that is not restricted: %v", err)
	}
}

// without returns manifests whose role lacks a verb. If the verb were removed later, the
// server might use the old role for a moment.
func without(t *testing.T, list []install.Manifest, verb string) []install.Manifest {
	t.Helper()
	if verb == "" {
		return list
	}
	list = slices.Clone(list)
	for i, m := range list {
		if m.GVK.Kind != "Role" {
			continue
		}
		before, after, found := bytes.Cut(m.YAML, []byte("\n      - "+verb))
		if !found {
			t.Fatalf("the role does not grant %s", verb)
		}
		list[i].YAML = slices.Concat(before, after)
	}
	return list
}

// nobody creates a service account without rights, and returns its token.
func nobody(t *testing.T, client *kube.Client, namespace string) string {
	t.Helper()
	accounts := kube.For[corev1.ServiceAccount](client).In(namespace)
	account := new(corev1.ServiceAccount)
	account.Name = "nobody"
	if _, err := accounts.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	return optest.Token(t, client, namespace, account.Name)
}
