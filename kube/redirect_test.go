package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestRedirectToAnotherHostIsNotFollowed makes a server send clients to another host:
// that host may get neither the token nor the content of a write.
func TestRedirectToAnotherHostIsNotFollowed(t *testing.T) {
	var strayed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer elsewhere.Close()
	var requests atomic.Int32
	var code int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, code)
	}))
	defer server.Close()
	c, err := Config{Rest: &rest.Config{Host: server.URL, BearerToken: "secret"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cms := For[corev1.ConfigMap](c).In("default")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"password": "x"}}
	for _, code = range []int{301, 302, 303, 307, 308} {
		for verb, do := range map[string]func() error{
			"get":    func() error { _, err := cms.Get(t.Context(), "a"); return err },
			"create": func() error { _, err := cms.Create(t.Context(), cm); return err },
			"apply":  func() error { _, err := cms.Apply(t.Context(), cm); return err },
			"delete": func() error { return cms.Delete(t.Context(), "a") },
			"list": func() (err error) {
				for _, err = range cms.List(t.Context()) {
					break
				}
				return err
			},
			"watch": func() (err error) {
				for _, err = range cms.Watch(t.Context()) {
					break
				}
				return err
			},
		} {
			requests.Store(0)
			err := do()
			want := "the server redirects to " + elsewhere.URL +
				", and the credentials are for another server (see server in the kubeconfig)"
			if err == nil || !strings.Contains(err.Error(), want) || requests.Load() != 1 {
				t.Errorf("%d, %s: %d requests, %v", code, verb, requests.Load(), err)
			}
		}
	}
	if n := strayed.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// TestRedirectAtTheSameHost follows a read. It does not follow a write that would become
// a read.
func TestRedirectAtTheSameHost(t *testing.T) {
	var methods []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		if path, moved := strings.CutPrefix(r.URL.Path, "/old"); moved {
			http.Redirect(w, r, path, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`))
	}))
	defer server.Close()
	c, err := Config{Rest: &rest.Config{Host: server.URL + "/old", BearerToken: "secret"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cms := For[corev1.ConfigMap](c).In("default")
	if o, err := cms.Get(t.Context(), "a"); err != nil || o.Name != "a" {
		t.Errorf("got %v, %v", o, err)
	}
	_, err = cms.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if err == nil || !strings.Contains(err.Error(), "the server redirects a POST to a GET") {
		t.Errorf("create: %v", err)
	}
	wantLines(t, "requests", methods, "GET", "GET", "POST")
}
