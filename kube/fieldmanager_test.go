package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

func TestManagerOf(t *testing.T) {
	for pkg, want := range map[string]string{
		"example.com/echo":                                "echo",
		"example.com/echo/v2":                             "echo",
		"example.com/echo/v12":                            "echo",
		"example.com/web-operator/cmd":                    "web-operator",
		"example.com/web-operator/cmd/manager":            "web-operator",
		"example.com/web-operator/v3/cmd/main":            "web-operator",
		"example.com/web/app/controller/operator/bin/cmd": "web",
		"example.com/tools/cmd/web":                       "web",
		"example.com/tools/v1":                            "v1", // no module has the suffix v1
		"example.com/tools/v2x":                           "v2x",
		"web/cmd":                                         "web",
		"example.com/web/cmd.test":                        "web",
		"example.com/web/internal/page.test":              "page",
		"example.com/cmd":                                 "", // other programs may have this path
		"manager":                                         "",
		"v2":                                              "",
		"command-line-arguments":                          "", // go run main.go
		"command-line-arguments.test":                     "",
		"":                                                "",
	} {
		got, err := managerOf(pkg)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", pkg, got, err, want)
		}
	}
}

// The name of the file does not count: that of this test ends with .test.
func TestProgramName(t *testing.T) {
	if got := programName(); got != "kube" {
		t.Errorf("got %q, want kube", got)
	}
}

// A client without a field manager reads. Its writes are errors that say what to set, and
// no request is sent.
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
	_, client.noManager = managerOf("command-line-arguments")
	client.fieldManager = ""
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
		if err := write(maps); err == nil || !strings.Contains(err.Error(), "set FieldManager of kube.Config") {
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
