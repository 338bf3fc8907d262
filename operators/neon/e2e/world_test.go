package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kube/pod"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/images"
	"github.com/pintle-go/pintle/plan"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// patience is the longest time that a step may take on a busy machine.
const patience = 3 * time.Minute

const namespace = "default"

// world is a cluster with a real node, on which the operator runs.
type world struct {
	*testing.T
	node *optest.RealNode
	set  images.Set
	// writers is the number of clients that have written.
	writers int
	// failure is why the test has ended. It is shown after the logs of all pods too, where it is found first.
	failure string

	databases   kube.Resource[api.NeonDatabase]
	clusters    kube.Resource[api.NeonCluster]
	projects    kube.Resource[api.NeonProject]
	branches    kube.Resource[api.NeonBranch]
	roles       kube.Resource[api.NeonRole]
	contents    kube.Resource[api.NeonBranchDatabase]
	endpoints   kube.Resource[api.NeonEndpoint]
	secrets     kube.Resource[corev1.Secret]
	services    kube.Resource[corev1.Service]
	sets        kube.Resource[appsv1.StatefulSet]
	deployments kube.Resource[appsv1.Deployment]
	pods        kube.Resource[corev1.Pod]
	claims      kube.Resource[corev1.PersistentVolumeClaim]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	dir := t.TempDir()
	var err error
	w.set, err = images.Make(t.Context(), dir)
	w.ok(err)
	archives, manifests, err := operator(t.Context(), dir)
	w.ok(err)
	w.node = optest.StartRealNode(t)
	t.Logf("%s; PostgreSQL %s", w.set.From, w.set.PostgresVersion)
	for _, archive := range append(archives, w.set.Archives...) {
		w.node.Load(t, archive)
	}
	c := w.node.Client
	w.databases, w.clusters = kube.For[api.NeonDatabase](c).In(namespace), kube.For[api.NeonCluster](c).In(namespace)
	w.projects, w.branches = kube.For[api.NeonProject](c).In(namespace), kube.For[api.NeonBranch](c).In(namespace)
	w.roles, w.endpoints = kube.For[api.NeonRole](c).In(namespace), kube.For[api.NeonEndpoint](c).In(namespace)
	w.contents = kube.For[api.NeonBranchDatabase](c).In(namespace)
	w.secrets, w.services = kube.For[corev1.Secret](c).In(namespace), kube.For[corev1.Service](c).In(namespace)
	w.sets, w.deployments = kube.For[appsv1.StatefulSet](c).In(namespace), kube.For[appsv1.Deployment](c).In(namespace)
	w.pods = kube.For[corev1.Pod](c).In(namespace)
	w.claims = kube.For[corev1.PersistentVolumeClaim](c).In(namespace)
	w.Cleanup(w.explain)

	if len(w.set.Archives) == 0 {
		w.pull(w.set.Storage, w.set.Compute)
	}
	w.volumes(10) // 8 are enough as long as no pod gets another one
	optest.Apply(t, c, namespace, manifests...)
	_, err = kube.For[appsv1.Deployment](c).In("neon-operator").Until(w.soon(), "neon-operator",
		func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 1 })
	w.ok(err)
	return w
}

// pullLimit is the longest time that the node may take to pull an image of gigabytes.
const pullLimit = 20 * time.Minute

// pull has the node pull images, so that no step waits for them.
func (w *world) pull(names ...string) {
	w.Helper()
	pods := kube.For[corev1.Pod](w.node.Client).In(namespace)
	ctx, cancel := context.WithTimeout(w.Context(), pullLimit)
	defer cancel()
	for i, name := range names {
		p := new(corev1.Pod)
		p.Name, p.Spec.RestartPolicy = fmt.Sprintf("pull-%d", i), corev1.RestartPolicyNever
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: name, Command: []string{"/bin/sh", "-c", "true"}}}
		_, err := pods.Create(ctx, p)
		w.ok(err)
		begun := time.Now()
		_, err = pods.Until(ctx, p.Name, func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		})
		w.ok(err)
		w.Logf("%s was pulled in %s", name, time.Since(begun).Round(time.Second))
		w.ok(pods.Delete(ctx, p.Name))
		w.ok(pods.UntilGone(ctx, p.Name))
	}
}

// limitsVariable, set to 1, makes the promised times conditions of the test. They hold on a
// machine that does nothing else.
const limitsVariable = "NEON_E2E_LIMITS"

// within fails the test if something took longer than it may, where that is asked for.
func (w *world) within(what string, took, limit time.Duration) {
	w.Helper()
	w.Logf("%s: %s", what, took.Round(100*time.Millisecond))
	if os.Getenv(limitsVariable) == "1" && took > limit {
		w.Errorf("%s took %s, more than %s", what, took, limit)
	}
}

// operator builds the images of the operator and of the managed object store, and the
// operator's manifests.
func operator(ctx context.Context, dir string) (archives []string, list []install.Manifest, err error) {
	operator := filepath.Join(dir, "neon")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-tags=nethttpomithttp2", "-o", operator,
		"github.com/pintle-go/pintle/operators/neon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	for _, o := range []image.Options{
		{Binary: operator, Name: "ghcr.io/pintle-go/neon:v0.1.0", Output: filepath.Join(dir, "operator.tar")},
		{Package: program.ObjectStore, Name: "ghcr.io/versity/versitygw:v1.8.0", Output: filepath.Join(dir, "store.tar")},
	} {
		o.Uncompressed = true
		if _, err := image.Build(ctx, o); err != nil {
			return nil, nil, err
		}
		archives = append(archives, o.Output)
	}
	manifests := exec.CommandContext(ctx, operator, "manifests")
	manifests.Env = []string{"HOME=" + dir, "KUBECONFIG=" + dir + "/none"}
	text, err := manifests.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("print manifests: %w", err)
	}
	list, err = install.Parse(text)
	return archives, list, err
}

// volumes makes volumes, which this cluster does not make by itself. Its pods are not root.
func (w *world) volumes(n int) {
	w.Helper()
	for i := range n {
		dir := filepath.Join(w.TempDir(), "volume")
		w.ok(os.Mkdir(dir, 0o755))
		w.ok(os.Chmod(dir, 0o777)) //nolint:gosec // see above
		v := new(corev1.PersistentVolume)
		v.Name = fmt.Sprintf("volume-%d", i)
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: dir}
		_, err := kube.For[corev1.PersistentVolume](w.node.Client).Create(w.soon(), v)
		w.ok(err)
	}
}

func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v", err)
	}
}

// Fatalf ends the test.
func (w *world) Fatalf(format string, args ...any) {
	w.Helper()
	_, file, line, _ := runtime.Caller(1)
	for i := 2; strings.HasSuffix(file, "world_test.go"); i++ {
		_, file, line, _ = runtime.Caller(i)
	}
	w.failure = fmt.Sprintf("%s:%d: ", filepath.Base(file), line) + fmt.Sprintf(format, args...)
	w.T.Fatalf(format, args...)
}

// eventually calls try until it returns nil.
func (w *world) eventually(what string, try func(ctx context.Context) error) {
	w.Helper()
	ctx := w.soon()
	kubetest.Eventually(w, what, func() error { return try(ctx) })
}

// explain shows the plans, pods and logs of a failed test.
func (w *world) explain() {
	if !w.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	show := func(name string, s *plan.Status) {
		w.Logf("%s\n%s", name, strings.Join(plan.Tree{}.Lines(s, time.Now()), "\n"))
	}
	for c, err := range w.clusters.List(ctx) {
		if err == nil {
			show("NeonCluster "+c.Name, &c.Status.Status)
		}
	}
	for b, err := range w.branches.List(ctx) {
		if err == nil {
			show("NeonBranch "+b.Name, &b.Status.Status)
		}
	}
	for e, err := range w.endpoints.List(ctx) {
		if err == nil {
			show("NeonEndpoint "+e.Name+" "+e.Status.Phase, &e.Status.Status)
		}
	}
	operators := kube.For[corev1.Pod](w.node.Client).In("neon-operator")
	for _, pods := range []kube.Resource[corev1.Pod]{w.pods, operators} {
		for p, err := range pods.List(ctx) {
			if err != nil {
				continue
			}
			w.Logf("pod %s: %s, ready %t", p.Name, p.Status.Phase, isReady(p))
			for _, c := range p.Status.ContainerStatuses {
				w.Logf("container %s: %d restarts, state %+v, before %+v", c.Name, c.RestartCount, c.State, c.LastTerminationState)
			}
			w.tail(ctx, pods, p.Name)
		}
	}
	w.Logf("ended by %s", w.failure)
}

func (w *world) tail(ctx context.Context, pods kube.Resource[corev1.Pod], name string) {
	lines := int64(25)
	logs, err := pod.Logs(ctx, pods, name, corev1.PodLogOptions{TailLines: &lines})
	if err != nil {
		return
	}
	defer logs.Close()
	text := new(strings.Builder)
	buffer := make([]byte, 4096)
	for {
		n, err := logs.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	w.Log("its log:\n| " + strings.ReplaceAll(strings.TrimRight(text.String(), "\n"), "\n", "\n| "))
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// holds reports whether an object's condition Ready is true for its present spec.
func holds(o metav1.Object, conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, "Ready")
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.GetGeneration()
}
