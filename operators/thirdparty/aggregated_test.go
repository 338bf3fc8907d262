package thirdparty

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pintle-go/pintle/kubetest"
)

// TestControllerRuntime follows kinds of the Farm program, which serves them by itself, with
// a cache of controller-runtime: whole objects, and metadata.
func TestControllerRuntime(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	startFarm(t, cluster)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	kind := func(name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "farm.example.com", Version: "v1alpha1", Kind: name}
	}
	config := cluster.Config()
	config.NextProtos = []string{"http/1.1"} // such connections can be closed, as the leak check wants
	connection, err := rest.HTTPClientFor(config)
	check(t, err)
	t.Cleanup(connection.CloseIdleConnections)
	direct, err := client.New(config, client.Options{HTTPClient: connection})
	check(t, err)
	llama := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"weight": int64(100), "height": int64(170)}}}
		u.SetGroupVersionKind(kind("Llama"))
		u.SetName(name)
		u.SetNamespace(namespace)
		return u
	}
	// kube-apiserver finds the versions one after another, and the cache asks for both.
	for _, version := range []string{"v1alpha1", "v1alpha"} {
		kubetest.Eventually(t, "llamas are served in version "+version, func() error {
			list := new(unstructured.UnstructuredList)
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind("").Group, Version: version, Kind: "LlamaList"})
			return direct.List(ctx, list)
		})
	}
	check(t, direct.Create(ctx, llama("first")))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	pod.Spec.Containers = []corev1.Container{{Name: "a", Image: "any:1"}}
	check(t, direct.Create(ctx, pod))

	all, err := cache.New(config, cache.Options{
		HTTPClient: connection, DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	check(t, err)
	ended := make(chan error, 1)
	running, end := context.WithCancel(ctx)
	go func() { ended <- all.Start(running) }()
	defer func() { end(); check(t, <-ended) }()
	events := make(chan string, 100)
	for _, o := range []client.Object{llama(""), view(kind("FarmPod")), meta(kind("Llama"))} {
		informer, err := all.GetInformer(ctx, o)
		check(t, err)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { events <- "add " + o.(client.Object).GetName() },
			DeleteFunc: func(o any) { events <- "delete " + o.(client.Object).GetName() },
		})
		check(t, err)
	}
	if !all.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	check(t, all.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "first"}, llama("")))
	check(t, all.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "farm-web"}, view(kind("FarmPod"))))
	check(t, direct.Create(ctx, llama("second")))
	check(t, direct.Delete(ctx, llama("first")))
	want := map[string]int{"add first": 2, "add second": 2, "delete first": 2, "add farm-web": 1}
	for len(want) > 0 {
		select {
		case ev := <-events:
			if want[ev]--; want[ev] == 0 {
				delete(want, ev)
			}
		case <-ctx.Done():
			t.Fatalf("no event %v", want)
		}
	}
	list := new(unstructured.UnstructuredList)
	list.SetGroupVersionKind(kind("LlamaList"))
	check(t, all.List(ctx, list, client.InNamespace(namespace)))
	if len(list.Items) != 1 || list.Items[0].GetName() != "second" {
		t.Errorf("the cache has %v", list.Items)
	}
}

func view(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := new(unstructured.Unstructured)
	u.SetGroupVersionKind(kind)
	return u
}

func meta(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := new(metav1.PartialObjectMetadata)
	m.SetGroupVersionKind(kind)
	return m
}

// startFarm builds and runs the program until the test ends.
func startFarm(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	dir, err := os.MkdirTemp("", "farm-") //nolint:usetesting // the path of a socket in it must be short
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "farm")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./operators/farm")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.Command(program, "-addr=127.0.0.1:0", "-api=127.0.0.1:0", "-data="+filepath.Join(dir, "data"))
	run.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig())
	run.Stdout, run.Stderr = t.Output(), t.Output()
	check(t, run.Start())
	t.Cleanup(func() {
		check(t, run.Process.Signal(syscall.SIGTERM))
		if err := run.Wait(); err != nil {
			t.Errorf("farm: %v", err)
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
