package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// The name of the file does not count: that of this test ends with .test.
func TestProgramName(t *testing.T) {
	if got := programName(); got != "kube" {
		t.Errorf("got %q, want kube", got)
	}
}

// A client without a field manager reads. Its writes are errors, and no request is sent.
func TestWriteWithoutManager(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`))
	}))
	defer server.Close()
	client, err := Config{Rest: &rest.Config{Host: server.URL}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	missing := errors.New("the field manager has no name")
	client.fieldManager, client.noManager = "", missing
	maps := For[corev1.ConfigMap](client).In("n")
	if _, err := maps.Get(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	m := new(corev1.ConfigMap)
	m.Name = "a"
	for name, write := range map[string]func(r Resource[corev1.ConfigMap]) error{
		"create": func(r Resource[corev1.ConfigMap]) error { _, err := r.Create(t.Context(), m); return err },
		"apply":  func(r Resource[corev1.ConfigMap]) error { _, err := r.Apply(t.Context(), m); return err },
		"ensure": func(r Resource[corev1.ConfigMap]) error { _, err := r.Ensure(t.Context(), m); return err },
	} {
		if err := write(maps); !errors.Is(err, missing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(sent) != 1 {
		t.Errorf("without a field manager the requests are %v", sent)
	}
	if _, err := maps.With(WriteOptions{FieldManager: "mine"}).Apply(t.Context(), m); err != nil {
		t.Error(err)
	}
}
