package main

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
)

// played plays an API server with one ConfigMap. An applied object is answered as it was
// sent, with a uid and a version.
type played struct{ applied map[string]string }

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	const list = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":` +
		`{"name":"pages","namespace":"web","uid":"1","resourceVersion":"7"},"data":{"index.html":"one"}}]}`
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	switch {
	case r.URL.Query().Get("watch") == "true":
		events, w := io.Pipe() // there are no events
		context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
		answer.Body = events
	case r.Method == http.MethodPatch:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		p.applied[path.Base(r.URL.Path)] = string(body)
		made := strings.Replace(string(body), `"metadata":{`, `"metadata":{"uid":"2","resourceVersion":"8",`, 1)
		answer.Body = io.NopCloser(strings.NewReader(made))
	default:
		answer.Body = io.NopCloser(strings.NewReader(list))
	}
	return answer, nil
}

// TestReconcile reconciles a Site in milliseconds, without a server.
func TestReconcile(t *testing.T) {
	server := &played{applied: make(map[string]string)}
	config := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: server}, FieldManager: "site-operator"}
	client, err := config.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	op := operator{
		sites:       kube.For[Site](client, kube.Kind{Plural: "sites", Scope: kube.Namespaced}),
		deployments: kube.For[appsv1.Deployment](client),
		configMaps:  kube.For[corev1.ConfigMap](client).ReadOnly(),
	}
	store := op.configMaps.Open(t.Context()) // a controller would open it
	defer func() { store.Close(); <-store.Done() }()

	site := new(Site)
	site.Namespace, site.Name, site.UID, site.ResourceVersion = "web", "docs", "3", "5"
	site.Spec.Pages, site.Spec.Replicas = "pages", 2
	if _, err := op.reconcile(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if deployment := server.applied["docs"]; !strings.Contains(deployment, `"example.com/pages":"7"`) {
		t.Errorf("the Deployment is %s", deployment)
	}
	if status := server.applied["status"]; !strings.Contains(status, "0 of 2 servers are ready") {
		t.Errorf("the status is %s", status)
	}
}

// A pure function is tested without any of that.
func TestDeployment(t *testing.T) {
	site := new(Site)
	site.Name, site.Spec.Pages, site.Spec.Replicas = "docs", "pages", 2
	d := deployment(site, "7")
	if *d.Spec.Replicas != 2 || d.Spec.Template.Annotations["example.com/pages"] != "7" {
		t.Errorf("got %+v", d)
	}
}
