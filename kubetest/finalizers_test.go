package kubetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

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
	send := func(ctx context.Context, method, path string, body any) int {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(ctx, method, config.Host+path, bytes.NewReader(text))
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
	type object = map[string]any
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	kinds := []struct{ plural, kind, version string }{
		{"leftovers", "Leftover", "v1"}, {"scraps", "Scrap", "v1alpha1"}, // the group prefers v1
	}
	for _, k := range kinds {
		name := k.plural + ".kubetest.example.com"
		send(t.Context(), http.MethodPost, definitions, object{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": object{"name": name},
			"spec": object{
				"group": "kubetest.example.com", "scope": "Namespaced",
				"names": object{"plural": k.plural, "singular": strings.ToLower(k.kind), "kind": k.kind},
				"versions": []object{{
					"name": k.version, "served": true, "storage": true,
					"schema": object{"openAPIV3Schema": object{"type": "object"}},
				}},
			},
		})
		t.Cleanup(func() {
			send(context.Background(), http.MethodDelete, definitions+"/"+name, nil)
		})
	}

	var namespace string
	t.Run("a test leaves objects", func(t *testing.T) {
		namespace = cluster.Namespace(t)
		for _, k := range kinds {
			path := "/apis/kubetest.example.com/" + k.version + "/namespaces/" + namespace + "/" + k.plural
			kubetest.Eventually(t, "the kind is served", func() error {
				return answers(http.StatusCreated, send(t.Context(), http.MethodPost, path, object{
					"apiVersion": "kubetest.example.com/" + k.version, "kind": k.kind,
					"metadata": object{"name": "one", "finalizers": []string{"example.com/nobody"}},
				}))
			})
		}
	})
	kubetest.Eventually(t, "the namespace is gone", func() error {
		return answers(http.StatusNotFound, send(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace, nil))
	})
}

// answers returns an error unless the API server's status is the wanted one.
func answers(want, got int) error {
	if got != want {
		return fmt.Errorf("status %d, want %d", got, want)
	}
	return nil
}
