package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Namespace creates a namespace for the test and returns its name: the test's name with a
// random suffix. The namespace is deleted when the test has ended. Namespace does not
// wait until its contents are gone.
//
// Pods can be created in the namespace at once: its default service account exists, if a
// controller-manager runs.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	name := namespaceName(t.Name())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.createNamespace(ctx, name, t.Name()); err != nil {
		t.Fatalf("kubetest: create namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.request(ctx, http.MethodDelete, "/api/v1/namespaces/"+name, nil); err != nil {
			// A test may leave its private cluster disturbed.
			t.Logf("kubetest: delete namespace %s: %v", name, err)
		}
	})
	return name
}

func (c *Cluster) createNamespace(ctx context.Context, name, test string) error {
	err := c.request(ctx, http.MethodPost, "/api/v1/namespaces", map[string]any{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata": map[string]any{
			"name":        name,
			"labels":      map[string]string{"pintle.dev/kubetest": "true"},
			"annotations": map[string]string{"pintle.dev/test": test},
		},
	})
	if err != nil || c.options.ServerOnly {
		return err
	}
	for {
		err := c.request(ctx, http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the default service account: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// namespaceName turns a test's name into a DNS label.
func namespaceName(test string) string {
	label := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "-")
	label = strings.Trim(label[:min(len(label), 40)], "-")
	return strings.TrimPrefix(label+"-", "-") + strings.ToLower(rand.Text()[:8])
}

func (c *Cluster) request(ctx context.Context, method, path string, body any) error {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	config := c.Config()
	// A test that looks for leaked goroutines must not find ours. With HTTP/2, the
	// connection of a request that was just given up stays open.
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, base.JoinPath(path).String(), bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return nil
}
