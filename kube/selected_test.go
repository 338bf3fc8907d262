package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// answering returns the client of a server that gives each request the same answer, and
// counts the writes.
func answering(t *testing.T, contentType, body string) (*Client, *int) {
	t.Helper()
	writes := new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			*writes++
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	client, err := Config{Rest: &rest.Config{Host: server.URL}, FieldManager: "test"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, writes
}

// A handle with selectors finds no object that they do not match, so Modify does not write it.
func TestSelectorsNarrowGetAndModify(t *testing.T) {
	client, writes := answering(t, "application/json",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","labels":{"app":"db"},"uid":"u"}}`)
	all := For[corev1.ConfigMap](client).In("n")
	change := func(o *corev1.ConfigMap) error {
		o.Labels, o.Data = map[string]string{"app": "web"}, map[string]string{"a": "b"}
		return nil
	}
	for name, h := range map[string]Resource[corev1.ConfigMap]{
		"labels": all.Labeled("app=web"),
		"fields": all.Fielded("metadata.name=b"),
	} {
		if _, err := h.Get(t.Context(), "a"); !apierrors.IsNotFound(err) {
			t.Errorf("%s: get: %v", name, err)
		}
		if _, err := h.Modify(t.Context(), "a", change); !apierrors.IsNotFound(err) {
			t.Errorf("%s: modify: %v", name, err)
		}
		if err := h.Status().Modify(t.Context(), "a", change); !apierrors.IsNotFound(err) {
			t.Errorf("%s: modify the status: %v", name, err)
		}
	}
	if *writes > 0 {
		t.Errorf("%d writes", *writes)
	}
	if o, err := all.Labeled("app=db").Fielded("metadata.name=a").Get(t.Context(), "a"); err != nil || o.UID != "u" {
		t.Errorf("an object that matches: %v, %v", o, err)
	}
}

// A proxy that asks for a login has deleted nothing.
func TestDeleteBehindALogin(t *testing.T) {
	for contentType, body := range map[string]string{
		"text/html":        "<html>log in</html>",
		"application/json": `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"message":"no"}`,
	} {
		client, _ := answering(t, contentType, body)
		maps := For[corev1.ConfigMap](client).In("n")
		if err := maps.Delete(t.Context(), "a"); err == nil {
			t.Errorf("%s: Delete has no error", contentType)
		}
		if err := maps.DeleteAll(t.Context()); err == nil {
			t.Errorf("%s: DeleteAll has no error", contentType)
		}
	}
}

// Numbers and lists of Go in an unstructured object are written as they are. A write changes
// nothing in the caller's object.
func TestUnstructuredOfGo(t *testing.T) {
	client, _ := answering(t, "application/json", `{"apiVersion":"example.com/v1","kind":"Web","metadata":{"name":"a","namespace":"n"}}`)
	kind := Kind{GVK: GVK{Group: "example.com", Version: "v1", Kind: "Web"}, Plural: "webs", Scope: Namespaced}
	webs := For[unstructured.Unstructured](client, kind).In("n")
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a"},
		"spec":     map[string]any{"replicas": 3, "hosts": []string{"a", "b"}},
		"status":   map[string]any{"ready": 3},
	}}
	for name, write := range map[string]func() error{
		"create": func() error { _, err := webs.Create(t.Context(), o); return err },
		"update": func() error { _, err := webs.Update(t.Context(), o); return err },
		"apply":  func() error { _, err := webs.Apply(t.Context(), o); return err },
		"ensure": func() error { _, err := webs.Ensure(t.Context(), o); return err },
		"status": func() error { return webs.Status().Apply(t.Context(), o) },
		"change": func() error { _, err := NewChange(nil, o, kind); return err },
	} {
		if err := write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(o.Object) != 3 || len(o.Object["metadata"].(map[string]any)) != 1 {
			t.Fatalf("%s has changed the object to %v", name, o.Object)
		}
	}
}
