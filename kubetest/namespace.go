package kubetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Namespace creates a namespace for the test and returns its name: the test's name with a
// random suffix. The namespace is deleted when the test has ended, if its cluster does not
// end with it. Namespace does not wait until its contents are gone.
//
// Custom resources that are left in the namespace of a local cluster lose their finalizers: as a rule
// the operator that would remove them has ended with the test. Otherwise the namespace would stay,
// and the cluster would try to empty it every few seconds, with more than a hundred requests each time.
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
	if c.test == t.Name() {
		return name
	}
	t.Cleanup(func() {
		if err := c.deleteNamespace(name); err != nil {
			// A subtest may leave its private cluster disturbed.
			t.Logf("kubetest: delete namespace %s: %v", name, err)
		}
	})
	return name
}

func (c *Cluster) createNamespace(ctx context.Context, name, test string) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.close()
	err = server.send(ctx, http.MethodPost, "/api/v1/namespaces", jsonType, map[string]any{
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
		err := server.get(ctx, "/api/v1/namespaces/"+name+"/serviceaccounts/default", jsonType, new(struct{}))
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

func (c *Cluster) deleteNamespace(name string) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.close()
	// In a cluster that somebody else runs, the operator may be installed and still has its work to do.
	// Without a controller-manager nothing empties the namespace.
	if c.command != "" && !c.options.ServerOnly {
		// First, so that the first try empties the namespace. A kind whose server does not answer must not
		// take the time of the deletion.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err = server.removeFinalizers(ctx, name)
		cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(err, server.send(ctx, http.MethodDelete, "/api/v1/namespaces/"+name, jsonType, nil))
}

// namespaceName turns a test's name into a DNS label.
func namespaceName(test string) string {
	label := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "-")
	label = strings.Trim(label[:min(len(label), 40)], "-")
	return strings.TrimPrefix(label+"-", "-") + strings.ToLower(rand.Text()[:8])
}
