package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/farm"}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, binary.Removed())
}

// patience is how long a step may take on a busy machine.
const patience = 90 * time.Second

// farm is a namespace of a cluster whose API server sends requests to the program.
type farm struct {
	*testing.T
	cluster   *kubetest.Cluster
	namespace string
	llamas    kube.Resource[Llama]
	pods      kube.Resource[corev1.Pod]
	farmPods  kube.Reader[FarmPod]
	data      string
	operator  *program.Program
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	client := optest.Client(t, cluster.Config())
	namespace := cluster.Namespace(t)
	f := &farm{
		T: t, cluster: cluster, namespace: namespace, data: t.TempDir(), llamas: kube.For[Llama](client).In(namespace),
		pods: kube.For[corev1.Pod](client).In(namespace), farmPods: kube.For[FarmPod](client).In(namespace).ReadOnly(),
	}
	f.start()
	return f
}

// start starts the program. It returns when the cluster knows its kinds.
func (f *farm) start() {
	f.Helper()
	kubeconfig := optest.Kubeconfig(f.T, f.cluster.Config(), f.namespace, "")
	f.operator = binary.Run(f.T, kubeconfig, "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+f.data)
	f.until("llamas are served", func() bool {
		for _, err := range f.llamas.List(f.Context()) {
			return err == nil
		}
		return true
	})
}

func (f *farm) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// until waits until a condition holds.
func (f *farm) until(what string, holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			lines, _ := f.operator.Lines()
			f.Fatalf("it is not so that %s\n%s", what, strings.Join(lines, "\n"))
		}
	}
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
	if _, err := f.farmPods.Get(t.Context(), "web"); !apierrors.IsNotFound(err) {
		t.Errorf("a farm pod without its prefix: %v", err)
	}
	f.ok(f.pods.Delete(t.Context(), "web"))
	f.ok(f.farmPods.UntilGone(ctx, "farm-web"))
}

// table returns the cells of a table, without the age.
func (f *farm) table(path string) string {
	f.Helper()
	certificates, err := rest.TLSConfigFor(f.cluster.Config())
	f.ok(err)
	transport := &http.Transport{TLSClientConfig: certificates}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.cluster.Config().Host+path, http.NoBody)
	f.ok(err)
	req.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	resp, err := client.Do(req)
	f.ok(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	f.ok(err)
	var table metav1.Table
	f.ok(json.Unmarshal(body, &table))
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
