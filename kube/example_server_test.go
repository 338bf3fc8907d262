package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// answers plays an API server with a body for each path. Other paths have no object.
type answers map[string]string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusOK, a[r.URL.Path]
	if body == "" {
		code = http.StatusNotFound
		body = `{"apiVersion":"v1","kind":"Status","code":404,"reason":"NotFound","details":{"name":"web"}}`
	}
	return &http.Response{
		StatusCode: code,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(body)),
	}, nil
}

// Observe is called after every request of a client. Package metrics has one that counts.
func ExampleConfig_observe() {
	observe := func(r kube.RequestInfo) {
		what := r.Kind
		if r.Subresource != "" {
			what += "/" + r.Subresource
		}
		fmt.Println(r.Verb, what, kube.Key{Namespace: r.Namespace, Name: r.Name})
		if r.Code == 0 || r.Code >= http.StatusBadRequest || r.Duration > time.Second {
			log.Printf("%s to %s: status %d after %s", r.Method, r.Host, r.Code, r.Duration)
		}
	}
	server := answers{"/api/v1/namespaces/default/pods/web": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`}
	config := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: server}, Observe: observe}
	client, err := config.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pod, err := kube.For[corev1.Pod](client).In("default").Get(context.Background(), "web")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Name)
	// Output:
	// get Pod default/web
	// web
}

// An Error has the parts of its text, for a log with fields. The functions of apierrors see
// through it.
func ExampleError() {
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: answers{}}}.Connect()
	if err != nil {
		log.Fatal(err)
	}
	_, err = kube.For[corev1.Pod](client).In("default").Get(context.Background(), "web")
	var failed *kube.Error
	if errors.As(err, &failed) && apierrors.IsNotFound(err) {
		fmt.Printf("verb=%s kind=%s namespace=%s name=%s\n", failed.Verb, failed.Kind, failed.Namespace, failed.Name)
	}
	// Output: verb=get kind=Pod namespace=default name=web
}

// A health check for a store that the program opened itself. A controller checks its stores.
func ExampleInformer_Trouble() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	informer := kube.For[corev1.Pod](client).Open(ctx)
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		var trouble *kube.Trouble
		stats := informer.Stats()
		switch {
		case errors.Is(informer.Trouble(), kube.ErrUnreachable):
			fmt.Fprintln(w, "a restart of this program would not help")
		case errors.As(informer.Trouble(), &trouble) && time.Since(trouble.Since) > time.Minute:
			text := fmt.Sprintf("%s: %v, %d times", informer.Name(), trouble.Err, trouble.Tries)
			http.Error(w, text, http.StatusServiceUnavailable)
		default:
			fmt.Fprintf(w, "%s: %d objects, %d bytes, last heard at %s\n",
				informer.Name(), stats.Objects, stats.Bytes, stats.LastHeard.Format(time.TimeOnly))
		}
	})
}

// An approver of certificates writes a subresource of the requests. Update is refused if the
// request has changed since it was read.
func ExampleSubresource_Update() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	requests := kube.For[certificatesv1.CertificateSigningRequest](client)
	request, err := requests.Get(ctx, "web")
	if err != nil {
		log.Fatal(err)
	}
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "OfThisCluster",
	})
	approvals := kube.Sub[certificatesv1.CertificateSigningRequest](requests, "approval")
	if _, err := approvals.Update(ctx, request.Name, request); err != nil {
		log.Fatal(err)
	}
}

// Outside the cluster, the API server's proxy is the way to a pod that serves HTTP.
func ExampleLocate() {
	ctx := context.Background()
	server := answers{"/api/v1/namespaces/default/pods/web:8080/proxy/metrics": "up 1\n"}
	client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: server}}.Connect()
	if err != nil {
		log.Fatal(err)
	}
	pods := kube.For[corev1.Pod](client).In("default")
	proxy, err := kube.Locate(ctx, pods, "read metrics of", "web:8080", "proxy")
	if err != nil {
		log.Fatal(err)
	}
	connection, err := rest.HTTPClientFor(proxy.Config)
	if err != nil {
		log.Fatal(proxy.Wrap(err))
	}
	answer, err := connection.Get(proxy.URL.JoinPath("metrics").String())
	if err != nil {
		log.Fatal(proxy.Wrap(err)) // read metrics of Pod default/web:8080: …
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(proxy.Wrap(err))
	}
	fmt.Print(string(text))
	// Output: up 1
}
