package simulate_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/simulate"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Run(m))
}

// Users find the names in package kubetest.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		simulate.StartDelay: kubetest.StartDelay,
		simulate.RunFor:     kubetest.RunFor,
		simulate.ExitCode:   kubetest.ExitCode,
		simulate.Label:      kubetest.NodeLabel,
	} {
		if got != want {
			t.Errorf("%s is %s in package kubetest", got, want)
		}
	}
}

// connect returns a client whose idle connections close when the test ends.
func connect(t *testing.T, c *kubetest.Cluster) *kube.Client {
	client, err := kube.Config{Rest: c.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func template(app string, annotations map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func TestWorkloads(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 2})
	client, ns := connect(t, cluster), cluster.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	deployments := kube.For[appsv1.Deployment](client).In(ns)
	sets := kube.For[appsv1.StatefulSet](client).In(ns)
	jobs := kube.For[batchv1.Job](client).In(ns)
	pods := kube.For[corev1.Pod](client).In(ns)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := deployments.Apply(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](20), Selector: selector("web"), Template: template("web", nil),
		},
	})
	must(err)
	_, err = sets.Apply(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), ServiceName: "db", Selector: selector("db"),
			Template: template("db", map[string]string{simulate.StartDelay: "200ms"})},
	})
	must(err)
	for name, annotations := range map[string]map[string]string{"good": nil, "bad": {simulate.ExitCode: "3"}} {
		tmpl := template(name, annotations)
		tmpl.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err = jobs.Apply(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       batchv1.JobSpec{Completions: ptr.To[int32](2), BackoffLimit: ptr.To[int32](0), Template: tmpl},
		})
		must(err)
	}

	_, err = deployments.Until(ctx, "web", func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == 20 })
	must(err)
	_, err = sets.Until(ctx, "db", func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == 3 })
	must(err)
	_, err = jobs.Until(
		ctx, "good", func(j *batchv1.Job) bool { return j.Status.Succeeded == 2 && j.Status.CompletionTime != nil },
	)
	must(err)
	_, err = jobs.Until(ctx, "bad", func(j *batchv1.Job) bool {
		for _, c := range j.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	must(err)

	addresses := make(map[string]string)
	for p, err := range pods.Labeled("app in (web,db)").List(ctx) {
		must(err)
		if other, taken := addresses[p.Status.PodIP]; taken || p.Status.PodIP == "" {
			t.Errorf("pods %s and %s have address %q", p.Name, other, p.Status.PodIP)
		}
		addresses[p.Status.PodIP] = p.Name
	}
	must(pods.Delete(ctx, "db-0")) // has a grace period, which ends when the node has stopped the containers
	_, err = pods.Until(
		ctx, "db-0", func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning },
	)
	must(err)
	must(
		deployments.Delete(
			ctx, "web", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)},
		),
	)
	must(deployments.UntilGone(ctx, "web"))
}

// TestRoom fills a cluster with pods and Services. It has room for 10,000 pods and 5,000
// Services, which take minutes on two cores: SIMULATE_PODS changes the number.
func TestRoom(t *testing.T) { testRoom(t, 100) }

func TestSoakRoom(t *testing.T) { testRoom(t, 500) }

func testRoom(t *testing.T, count int) {
	if s := os.Getenv("SIMULATE_PODS"); s != "" {
		var err error
		if count, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	cluster := kubetest.Start(t, kubetest.Options{Private: true, Nodes: 5})
	client, ns := connect(t, cluster), cluster.Namespace(t)
	ctx := t.Context()
	start := time.Now()

	room := int64(0)
	for n, err := range kube.For[corev1.Node](client).List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		room += n.Status.Allocatable.Pods().Value()
	}
	if room < 10_000 {
		t.Errorf("the nodes have room for %d pods, want 10000", room)
	}
	const each = 50
	deployments := kube.For[appsv1.Deployment](client).In(ns)
	for i := range max(1, count/each) {
		name := fmt.Sprintf("d%d", i)
		_, err := deployments.Apply(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](each), Selector: selector(name), Template: template(name, nil),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	services := kube.For[corev1.Service](client).In(ns)
	for i := range count / 2 {
		_, err := services.Apply(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "d0"}, Ports: []corev1.ServicePort{{Port: 80}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range max(1, count/each) {
		if _, err := deployments.Until(
			ctx, fmt.Sprintf("d%d", i), func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == each },
		); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d pods ran and %d Services had addresses after %s", count, count/2, time.Since(start).Round(time.Second))
}
