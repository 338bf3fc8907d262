package kubetest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kubetest"
)

// TestFinalizers leaves custom resources behind whose finalizers nobody removes.
func TestFinalizers(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	config := cluster.Config()
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	send := func(method, path string, body any) int {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, err := io.ReadAll(response.Body); err != nil || response.StatusCode == http.StatusUnprocessableEntity {
			t.Fatalf("%s %s: %s %v", method, path, answer, err)
		}
		return response.StatusCode
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it is not so that %s", what)
			}
		}
	}
	type object = map[string]any
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	kinds := map[string]string{"leftovers": "v1", "scraps": "v1alpha1"} // the group prefers v1
	for plural, version := range kinds {
		name := plural + ".kubetest.example.com"
		singular := strings.TrimSuffix(plural, "s")
		send(http.MethodPost, definitions, object{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": object{"name": name},
			"spec": object{
				"group": "kubetest.example.com", "scope": "Namespaced",
				"names": object{"plural": plural, "singular": singular, "kind": strings.ToUpper(singular[:1]) + singular[1:]},
				"versions": []object{{
					"name": version, "served": true, "storage": true,
					"schema": object{"openAPIV3Schema": object{"type": "object"}},
				}},
			},
		})
		t.Cleanup(func() {
			request, err := http.NewRequest(http.MethodDelete, config.Host+definitions+"/"+name, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if response, err := client.Do(request); err == nil {
				response.Body.Close()
			}
		})
	}

	var namespace string
	t.Run("a test leaves objects", func(t *testing.T) {
		namespace = cluster.Namespace(t)
		for plural, version := range kinds {
			singular := strings.TrimSuffix(plural, "s")
			path := "/apis/kubetest.example.com/" + version + "/namespaces/" + namespace + "/" + plural
			until("the kind is served", func() bool {
				return send(http.MethodPost, path, object{
					"apiVersion": "kubetest.example.com/" + version, "kind": strings.ToUpper(singular[:1]) + singular[1:],
					"metadata": object{"name": "one", "finalizers": []string{"example.com/nobody"}},
				}) == http.StatusCreated
			})
		}
	})
	until("the namespace is gone", func() bool {
		return send(http.MethodGet, "/api/v1/namespaces/"+namespace, nil) == http.StatusNotFound
	})
}
