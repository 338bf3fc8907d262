package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestRights installs the printed manifests, except for the pod. The program runs with the
// token of its service account in the place of the pod. It is refused nothing, and uses all of
// its rights.
func TestRights(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client := optest.Client(t, cluster.Config())
	port := strconv.Itoa(testport.Port(t))
	namespace := cluster.Namespace(t)
	for _, m := range binary.Manifests(t, "-namespace="+namespace) {
		if k := m.GVK.Kind; k != "Deployment" && k != "Service" && k != "PersistentVolumeClaim" && k != "Namespace" {
			optest.Apply(t, client, namespace, m)
			t.Cleanup(func() { _ = install.Delete(context.Background(), client, namespace, m) })
		}
	}
	// The name leads to this machine, where kube-apiserver runs too.
	front := new(corev1.Service)
	front.Name, front.Spec.Type, front.Spec.ExternalName = service, corev1.ServiceTypeExternalName, "localhost"
	if _, err := kube.For[corev1.Service](client).In(namespace).Apply(t.Context(), front); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{version, older} {
		port := fmt.Appendf(nil, `{"spec":{"service":{"port":%s}}}`, port)
		if _, err := kube.For[apiService](client).Patch(t.Context(), v+"."+group, types.MergePatchType, port); err != nil {
			t.Fatal(err)
		}
	}
	f := &farm{
		TB: t, cluster: cluster, namespace: namespace, data: t.TempDir(), llamas: kube.For[Llama](client).In(namespace),
		pods: kube.For[corev1.Pod](client).In(namespace), farmPods: kube.For[FarmPod](client).In(namespace).ReadOnly(),
	}
	t.Setenv("KUBE_FEATURE_WatchListClient", "false") // as for a server that streams no lists
	proxy := optest.StartProxy(t, cluster.Config(), namespace)
	lease := optest.HoldLease(t, client, "farm", proxy)
	kubeconfig := optest.Kubeconfig(t, proxy.Config, namespace, optest.Token(t, client, namespace, "farm"))
	f.operator = binary.Run(t, kubeconfig, "-addr=127.0.0.1:0", "-api=127.0.0.1:"+port, "-local=false", "-data="+f.data, "-lease")
	f.untilServed()
	f.until("the program waits for the lease", func() bool { return lease.Awaited(f.operator) })
	lease.Release()
	f.limit(client)
	_, err := f.llama("dora", 110, 170)
	f.ok(err)
	f.mood("dora", "content")
	if got := f.table("/apis/" + group + "/" + older + "/namespaces/" + namespace + "/llamas"); !strings.Contains(got, "dora 110 170 content") {
		t.Errorf("the table is %q", got)
	}
	_, err = kube.For[Llama](client).In("nowhere").Create(t.Context(), &Llama{Object: kube.Object{ObjectMeta: metav1.ObjectMeta{Name: "dora"}}})
	if err == nil {
		t.Error("a llama in a namespace that does not exist")
	}
	f.seePods()
	f.damageSecret(client)
	lease.Delete()
	f.until("there is a lease again", lease.Exists)
	f.direct(port, optest.Token(t, client, namespace, "farm"))
	op, err := describe(client, aggregate.Server{Registration: aggregate.Registration{Service: kube.Key{Name: service}}})
	f.ok(err)
	op.Install.Namespace = namespace
	if err := proxy.Used.Compare(op); err != nil {
		t.Error(err)
	}
	if refused := proxy.Used.Refused(); len(refused) > 0 {
		t.Errorf("refused: %s", refused)
	}
}

// limit sets a quota, as the quota's controller does when it knows the kind.
func (f *farm) limit(client *kube.Client) {
	f.Helper()
	quotas := kube.For[corev1.ResourceQuota](client).In(f.namespace)
	of := corev1.ResourceList{"count/llamas." + group: resource.MustParse("9")}
	q := new(corev1.ResourceQuota)
	q.Name, q.Spec.Hard = "nine", of
	_, err := quotas.Create(f.Context(), q)
	f.ok(err)
	for err = errors.New("nothing is written yet"); err != nil; { // the controller writes too
		q, err = quotas.Get(f.Context(), "nine")
		f.ok(err)
		q.Status.Hard, q.Status.Used = of, corev1.ResourceList{"count/llamas." + group: resource.MustParse("0")}
		if err = quotas.Status().Update(f.Context(), q); !apierrors.IsConflict(err) {
			f.ok(err)
		}
	}
	f.until("llamas are counted", func() bool {
		l := new(Llama)
		l.GenerateName, l.Spec.Weight, l.Spec.Height = "counted-", 110, 170
		_, err := f.llamas.Create(f.Context(), l)
		f.ok(err)
		q, err := quotas.Get(f.Context(), "nine")
		f.ok(err)
		used := q.Status.Used["count/llamas."+group]
		return !used.IsZero()
	})
}

// seePods reads and follows farm pods. The pod is created after the watch has listed, so that
// only the watch shows it.
func (f *farm) seePods() {
	f.Helper()
	ctx, stop := context.WithTimeout(f.Context(), patience)
	defer stop()
	listed, seen := make(chan struct{}), make(chan error, 1)
	synced := sync.OnceFunc(func() { close(listed) })
	go func() {
		defer close(seen)
		for ev, err := range f.farmPods.Watch(ctx) {
			if ev.Type == kube.Synced {
				synced()
			}
			if err != nil || ev.Object != nil && ev.Object.Name == "farm-web" {
				seen <- err
				return
			}
		}
	}()
	for _, err := range f.farmPods.List(ctx) {
		f.ok(err)
	}
	select {
	case <-listed:
	case err := <-seen:
		f.Fatal("the watch ended before it had listed: ", err)
	}
	p := new(corev1.Pod)
	p.Name, p.Spec.Containers = "web", []corev1.Container{{Name: "a", Image: "any:1"}}
	_, err := f.pods.Create(ctx, p)
	f.ok(err)
	f.ok(<-seen)
	_, err = f.farmPods.Get(ctx, "farm-web")
	f.ok(err)
}

// damageSecret removes the key from the Secret of the certificate. The program puts it back.
func (f *farm) damageSecret(client *kube.Client) {
	f.Helper()
	secrets := kube.For[corev1.Secret](client).In(f.namespace)
	_, err := secrets.Patch(f.Context(), service+"-tls", types.MergePatchType, []byte(`{"data":{"tls.key":""}}`))
	f.ok(err)
	f.until("the Secret is whole", func() bool {
		s, err := secrets.Get(f.Context(), service+"-tls")
		f.ok(err)
		return len(s.Data["tls.key"]) > 1
	})
}

// direct reads llamas with a token, past kube-apiserver. The program asks kube-apiserver for the
// name and the rights of the user.
func (f *farm) direct(port, token string) {
	f.Helper()
	insecure := &tls.Config{InsecureSkipVerify: true} // the certificate is not the subject
	transport := &http.Transport{TLSClientConfig: insecure}
	defer transport.CloseIdleConnections()
	for path, want := range map[string]int{
		"/apis/" + group + "/" + version + "/llamas":                      http.StatusOK,
		"/apis/" + group + "/" + version + "/namespaces/default/farmpods": http.StatusForbidden,
	} {
		req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "https://127.0.0.1:"+port+path, http.NoBody)
		f.ok(err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		f.ok(err)
		resp.Body.Close()
		if resp.StatusCode != want {
			f.Errorf("GET %s directly: %s", path, resp.Status)
		}
	}
}
