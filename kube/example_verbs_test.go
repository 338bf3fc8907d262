package kube_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// Any Go struct with Kubernetes metadata is a kind.
func ExampleFor() {
	ctx := context.Background()
	client, err := kube.Connect() // by KUBECONFIG, or in a pod
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client)
	for pod, err := range pods.In("default").Labeled("app=web").List(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Name, pod.Status.Phase)
	}
}

// A view has only the fields that it names. A store of it needs less memory. This one has the
// pods of one node.
func ExampleViewOf() {
	type image struct {
		kube.Object
		Spec struct {
			Containers []struct {
				Image string `json:"image"`
			} `json:"containers"`
		} `json:"spec"`
	}
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.ViewOf[image](client, kube.KindOf[corev1.Pod]()).Labeled("app").Fielded("spec.nodeName=node-1")
	for pod, err := range pods.List(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Namespace, pod.Name, pod.Spec.Containers[0].Image)
	}
}

// The loop lists, watches and resumes by itself, until its context ends.
func ExampleReader_Watch() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for ev, err := range kube.For[corev1.Pod](client).In("default").Watch(ctx) {
		switch {
		case err != nil:
			log.Print(err) // the watch continues
		case ev.Type == kube.Synced:
			fmt.Println("all Pods that existed at the start are known")
		default:
			fmt.Println(ev.Type, ev.Object.Name)
		}
	}
}

// Until waits for a condition.
func ExampleReader_Until() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	deployments := kube.For[appsv1.Deployment](client).In("default")
	available := func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas > 0 }
	if _, err := deployments.Until(ctx, "web", available); err != nil {
		log.Fatal(err)
	}
}

// A handle may cover several namespaces. Lists, watches and stores are of all of them. In
// narrows it to the one that an object is in.
func ExampleReader_In() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client).In("shop", "payments", "stock")
	informer := pods.Open(ctx)
	defer informer.Close()
	if err := informer.Sync(ctx); err != nil { // until everything is there
		log.Fatal(err)
	}
	for pod, err := range pods.Cached().All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Namespace, pod.Name)
	}
	pod, err := pods.In("payments").Cached().Get(ctx, "web")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Status.PodIP)
}

// A handle of any kind, without a Go type for it.
func ExampleFor_unstructured() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	certificates := kube.For[unstructured.Unstructured](client, kube.Kind{
		GVK: kube.GVK{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"},
	})
	for o, err := range certificates.In("default").List(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		secret, _, _ := unstructured.NestedString(o.Object, "spec", "secretName")
		fmt.Println(o.GetName(), secret)
	}
}

// Status has the writes of a status. They leave the rest of the object alone.
func ExampleResource_Status() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	claims := kube.For[corev1.PersistentVolumeClaim](client).In("default")
	err = claims.Status().Modify(ctx, "data", func(c *corev1.PersistentVolumeClaim) error {
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: "example.com/Scanned", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// oneConfigMap plays an API server with a ConfigMap, and prints the writing requests.
type oneConfigMap struct{}

func (oneConfigMap) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		fmt.Println(r.Method, r.URL.Path)
		fmt.Println(string(body))
	}
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"default",
		"resourceVersion":"7","uid":"1"},"data":{"colour":"red","size":"9"}}`
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(object)),
	}, nil
}

func played() kube.Resource[corev1.ConfigMap] {
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: oneConfigMap{}}}.Connect()
	if err != nil {
		log.Fatal(err)
	}
	return kube.For[corev1.ConfigMap](client).In("default")
}

// Apply sends the fields that are set and no zero values. Fields of other managers stay.
func ExampleView_Apply() {
	_, err := played().Apply(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Data:       map[string]string{"colour": "red"},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// PATCH /api/v1/namespaces/default/configmaps/web
	// {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"default"},"data":{"colour":"red"}}
}

// Modify reads the object, and sends the difference that the function makes.
func ExampleView_Modify() {
	_, err := played().Modify(context.Background(), "web", func(m *corev1.ConfigMap) error {
		m.Data["colour"] = "blue"
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// PATCH /api/v1/namespaces/default/configmaps/web
	// {"data":{"colour":"blue"},"metadata":{"resourceVersion":"7","uid":"1"}}
}

// Ensure is Apply for a reconcile: it sends nothing if the object is already so.
func ExampleView_Ensure() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	texts := kube.For[corev1.ConfigMap](client).In("default")
	informer := texts.Open(ctx) // in an operator the controller opens it
	if err := informer.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"colour": "red"}}
	if _, err := texts.Ensure(ctx, text); err != nil {
		log.Fatal(err)
	}
}

// DeleteAll deletes the objects that the handle is narrowed to: here the pods that have
// failed, which nobody removes otherwise.
func ExampleView_DeleteAll() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	failed := kube.For[corev1.Pod](client).In("default").Fielded("status.phase=Failed")
	if err := failed.DeleteAll(ctx); err != nil {
		log.Fatal(err)
	}
}

// Unselected shows the end of objects that have left the selectors of a handle, from their metadata.
func ExampleUnselected() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	all, _ := kube.Unselected(kube.For[corev1.Pod](client).In("default").Labeled("app=web"))
	for change := range all.Open(ctx).Changes(ctx) {
		if change.Type == kube.Deleted {
			fmt.Println(change.Key)
		}
	}
}

// Wide tells an object that has left a handle's selectors from one that is gone.
func ExampleWide() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	web := kube.For[corev1.Pod](client).In("default").Labeled("app=web")
	pod, err := kube.Wide(web).In("default").Get(ctx, "web-0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Labels)
}
