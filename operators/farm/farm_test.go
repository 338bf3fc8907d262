package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/aggregate"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var (
	binary  = optest.Binary{Package: "github.com/pintle-go/pintle/operators/farm"}
	shipped = optest.Binary{Package: "github.com/pintle-go/pintle/operators/farm", Shipped: true}
)

func TestMain(m *testing.M) {
	optest.Main(m, &binary, &shipped)
}

// patience is how long a step may take on a busy machine.
const patience = 90 * time.Second

// farm is a namespace of a cluster whose API server sends requests to the program.
type farm struct {
	testing.TB
	cluster   *kubetest.Cluster
	namespace string
	llamas    kube.Resource[Llama]
	pods      kube.Resource[corev1.Pod]
	farmPods  kube.Reader[FarmPod]
	data      string
	program   *optest.Binary
	operator  *program.Program
}

func newFarm(t testing.TB) *farm {
	t.Helper()
	return newFarmOf(t, &binary)
}

func newFarmOf(t testing.TB, of *optest.Binary) *farm {
	t.Helper()
	return newFarmIn(t, of, t.TempDir())
}

// newFarmIn keeps the llamas in a directory.
func newFarmIn(t testing.TB, of *optest.Binary, data string) *farm {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client := optest.Client(t, cluster.Config())
	namespace := cluster.Namespace(t)
	f := &farm{
		TB: t, cluster: cluster, program: of, namespace: namespace, data: data, llamas: kube.For[Llama](client).In(namespace),
		pods: kube.For[corev1.Pod](client).In(namespace), farmPods: kube.For[FarmPod](client).In(namespace).ReadOnly(),
	}
	f.start()
	return f
}

// start starts the program. It returns when the cluster knows its kinds.
func (f *farm) start() {
	f.Helper()
	kubeconfig := optest.Kubeconfig(f.TB, f.cluster.Config(), f.namespace, "")
	f.operator = f.program.Run(f.TB, kubeconfig, "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+f.data)
	f.untilServed()
}

// untilServed waits until kube-apiserver sends requests for each version to the program. It
// finds the versions one after another.
func (f *farm) untilServed() {
	f.Helper()
	client := optest.Client(f.TB, f.cluster.Config())
	for _, v := range []string{version, older} {
		llamas := kube.For[Llama](client, kindIn(v, "Llama")).In(f.namespace)
		f.until("llamas are served in version "+v, func() bool {
			for _, err := range llamas.List(f.Context()) {
				return err == nil
			}
			return true
		})
	}
}

// kindIn returns a kind of the program in a version.
func kindIn(version, kind string) kube.Kind {
	return kube.Kind{GVK: kube.GVK{Group: group, Version: version, Kind: kind}, Plural: strings.ToLower(kind) + "s", Scope: kube.Namespaced}
}

func (f *farm) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// until waits until a condition holds. Its failure shows the output of the program.
func (f *farm) until(what string, holds func() bool) {
	f.Helper()
	kubetest.Eventually(f, what, func() error {
		if !holds() {
			lines, _ := f.operator.Lines()
			return fmt.Errorf("not so, and the program has said\n| %s", strings.Join(lines, "\n| "))
		}
		return nil
	})
}

func (f *farm) llama(name string, weight, height int32) (*Llama, error) {
	l := new(Llama)
	l.Name, l.Spec.Weight, l.Spec.Height = name, weight, height
	return f.llamas.Create(f.Context(), l)
}

// mood waits until a llama has a mood.
func (f *farm) mood(name, want string) *Llama {
	f.Helper()
	ctx, stop := context.WithTimeout(f.Context(), patience)
	defer stop()
	l, err := f.llamas.Until(ctx, name, func(l *Llama) bool { return l.Status.Mood == want })
	f.ok(err)
	return l
}

// A llama is stored by the program, checked, and reconciled by its controller. It survives
// the end of the program.
func TestLlamas(t *testing.T) {
	f := newFarm(t)
	_, err := f.llama("dora", 110, 170)
	f.ok(err)
	_, err = f.llama("thin", 20, 170)
	f.ok(err)
	f.mood("dora", "content")
	f.mood("thin", "hungry")
	_, err = f.llamas.Modify(t.Context(), "thin", func(l *Llama) error { l.Spec.Weight = 90; return nil })
	f.ok(err)
	before := f.mood("thin", "content")

	for _, size := range [][2]int32{{0, 170}, {110, 0}, {-1, -1}} {
		if _, err := f.llama("wrong", size[0], size[1]); !apierrors.IsInvalid(err) {
			t.Errorf("a llama of size %v: %v", size, err)
		}
	}

	f.ok(f.operator.Signal(syscall.SIGKILL))
	<-f.operator.Done()
	if _, err := f.llamas.Get(t.Context(), "dora"); err == nil {
		t.Error("llamas are served while the program does not run")
	}
	f.start()
	after := f.mood("thin", "content")
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the llama is %s %s, was %s %s", after.UID, after.ResourceVersion, before.UID, before.ResourceVersion)
	}
	_, err = f.llama("late", 10, 170)
	f.ok(err)
	f.mood("late", "hungry")
	f.ok(f.llamas.Delete(t.Context(), "dora"))
	f.ok(f.llamas.UntilGone(t.Context(), "dora"))
}

// TestHandover starts a second process on the data of the first, as a rolling update would. It waits.
// When the first is told to end, the second serves all llamas.
func TestHandover(t *testing.T) {
	f := newFarm(t)
	before := map[string]*Llama{}
	for _, name := range []string{"dora", "emil", "fritz"} {
		_, err := f.llama(name, 110, 170)
		f.ok(err)
		before[name] = f.mood(name, "content")
	}
	first := f.operator
	kubeconfig := optest.Kubeconfig(t, f.cluster.Config(), f.namespace, "")
	f.operator = binary.Run(t, kubeconfig, "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+f.data)
	optest.Expect(t, f.operator, "another process uses its directory")
	address := addressOf(optest.Expect(t, f.operator, " serving address="))
	resp, err := http.Get("http://" + address + "/readyz")
	f.ok(err)
	answer, err := io.ReadAll(resp.Body)
	f.ok(err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(answer), "aggregate") {
		t.Errorf("a process that waits says that it is %s: %s", resp.Status, answer)
	}
	for name := range before { // the first is not disturbed
		_, err := f.llamas.Modify(t.Context(), name, func(l *Llama) error { l.Spec.Weight++; return nil })
		f.ok(err)
	}
	f.ok(first.Signal(syscall.SIGTERM))
	<-first.Done()
	f.untilServed()
	for name, was := range before {
		is, err := f.llamas.Get(t.Context(), name)
		f.ok(err)
		if is.UID != was.UID || is.Spec.Weight != was.Spec.Weight+1 || versionOf(t, is) <= versionOf(t, was) {
			t.Errorf("%s is %+v in version %s, was %+v in version %s", name, is.Spec, is.ResourceVersion, was.Spec, was.ResourceVersion)
		}
	}
	_, err = f.llama("late", 10, 170)
	f.ok(err)
	f.mood("late", "hungry")
	f.until("the second process is ready", func() bool {
		resp, err := http.Get("http://" + address + "/readyz")
		f.ok(err)
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// addressOf returns the address in a log line.
func addressOf(line string) string {
	_, after, _ := strings.Cut(line, "address=")
	address, _, _ := strings.Cut(after, " ")
	return address
}

// TestSizes compares the quota of the database with the volume and the memory of the manifests: a copy of
// the database and 500 MiB of etcd's log fit the volume, and the database half of the memory.
func TestSizes(t *testing.T) {
	client := optest.Client(t, kubetest.Start(t, kubetest.Options{Nodes: 1}).Config())
	var server aggregate.Server
	server.Registration.Service.Name, server.Storage.QuotaBytes = service, quota
	op, err := describe(client, server)
	if err != nil {
		t.Fatal(err)
	}
	if most := op.Install.Resources.Limits.Memory().Value(); quota > most/2 {
		t.Errorf("a database of %d bytes, and %d bytes of memory", quota, most)
	}
	claim := dataClaim("farm")
	if volume := claim.Spec.Resources.Requests.Storage().Value(); 2*quota+500<<20 > volume {
		t.Errorf("a database of %d bytes, on a volume of %d bytes", quota, volume)
	}
	manifests := binary.Manifests(t)
	found := false
	for _, m := range manifests {
		found = found || m.GVK.Kind == "Deployment" && strings.Contains(string(m.YAML), "type: Recreate")
	}
	if !found {
		t.Error("two pods of the Deployment would wait for one volume")
	}
}

// Every pod is seen as a farm pod, live, and in tables as kubectl asks for them.
func TestFarmPods(t *testing.T) {
	f := newFarm(t)
	p := new(corev1.Pod)
	p.Name = "web"
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "any:1"}, {Name: "b", Image: "any:1"}}
	_, err := f.pods.Create(t.Context(), p)
	f.ok(err)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	seen, err := f.farmPods.Until(ctx, "farm-web", func(p *FarmPod) bool { return p.Status.Ready == 2 })
	f.ok(err)
	if seen.Spec.Containers != 2 || seen.Spec.Node == "" || seen.Status.Phase != "Running" {
		t.Errorf("the farm pod is %+v", seen)
	}
	if got := f.table("/apis/" + group + "/v1alpha1/namespaces/" + f.namespace + "/farmpods"); got != "farm-web 2 "+seen.Spec.Node+" 2 Running" {
		t.Errorf("the table is %q", got)
	}
	// In the namespace and in all of them, and by a label, a name and a field of the view.
	_, err = f.pods.Modify(t.Context(), "web", func(p *corev1.Pod) error { p.Labels = map[string]string{"herd": f.namespace}; return nil })
	f.ok(err)
	everywhere := kube.For[FarmPod](optest.Client(t, f.cluster.Config())).ReadOnly()
	for name, found := range map[string]struct {
		pods kube.Reader[FarmPod]
		want string
	}{
		"namespace":       {f.farmPods, "farm-web"},
		"all namespaces":  {everywhere.Labeled("herd=" + f.namespace), "farm-web"},
		"label":           {f.farmPods.Labeled("herd=" + f.namespace), "farm-web"},
		"another label":   {f.farmPods.Labeled("herd=other"), ""},
		"name":            {f.farmPods.Fielded("metadata.name=farm-web"), "farm-web"},
		"name of the pod": {f.farmPods.Fielded("metadata.name=web"), ""},
		"node":            {f.farmPods.Fielded("spec.node=" + seen.Spec.Node), "farm-web"},
		"another node":    {f.farmPods.Fielded("spec.node=other"), ""},
	} {
		got := ""
		for p, err := range found.pods.List(t.Context()) {
			f.ok(err)
			got += p.Name
		}
		if got != found.want {
			t.Errorf("list by %s: %q, want %q", name, got, found.want)
		}
	}
	if _, err := f.farmPods.Get(t.Context(), "web"); !apierrors.IsNotFound(err) {
		t.Errorf("a farm pod without its prefix: %v", err)
	}
	f.ok(f.pods.Delete(t.Context(), "web"))
	f.ok(f.farmPods.UntilGone(ctx, "farm-web"))
}

// The older version shows and stores the same objects.
func TestVersions(t *testing.T) {
	f := newFarm(t)
	client := optest.Client(t, f.cluster.Config())
	llamas := kube.For[Llama](client, kindIn(older, "Llama")).In(f.namespace)
	l := new(Llama)
	l.Name, l.Spec.Weight, l.Spec.Height = "olga", 20, 170
	_, err := llamas.Create(t.Context(), l)
	f.ok(err)
	stored := f.mood("olga", "hungry")
	if stored.Spec != l.Spec || stored.APIVersion != group+"/"+version {
		t.Errorf("the llama is %+v", stored)
	}
	p := new(corev1.Pod)
	p.Name, p.Spec.Containers = "web", []corev1.Container{{Name: "a", Image: "any:1"}}
	_, err = f.pods.Create(t.Context(), p)
	f.ok(err)
	view, err := kube.For[FarmPod](client, kindIn(older, "FarmPod")).In(f.namespace).Get(t.Context(), "farm-web")
	f.ok(err)
	if view.Spec.Containers != 1 || view.APIVersion != group+"/"+older {
		t.Errorf("the farm pod is %+v", view)
	}
}

// read returns the body of an answer of kube-apiserver.
func (f *farm) read(path string, header ...string) []byte {
	f.Helper()
	certificates, err := rest.TLSConfigFor(f.cluster.Config())
	f.ok(err)
	transport := &http.Transport{TLSClientConfig: certificates}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.cluster.Config().Host+path, http.NoBody)
	f.ok(err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	f.ok(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	f.ok(err)
	return body
}

// table returns the cells of a table, without the age.
func (f *farm) table(path string) string {
	f.Helper()
	var table metav1.Table
	f.ok(json.Unmarshal(f.read(path, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"), &table))
	var cells []string
	for _, row := range table.Rows {
		for i, cell := range row.Cells {
			if table.ColumnDefinitions[i].Name != "Age" {
				text, err := json.Marshal(cell)
				f.ok(err)
				cells = append(cells, strings.Trim(string(text), `"`))
			}
		}
	}
	return strings.Join(cells, " ")
}
