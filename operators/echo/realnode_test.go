package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

const serverImage = "ghcr.io/pintle-go/echo-server:v0.1.0"

// TestRealNode runs the operator as it is shipped: its image in a pod, from the manifests
// that it prints. Pods of the shipped server answer HTTP through the Service, for the
// whole life of the Echo.
func TestRealNode(t *testing.T) {
	node := optest.StartRealNode(t)
	dir := t.TempDir()
	// In another process, because the race detector makes compressing ten times as slow.
	optest.Go(t, "run", "github.com/pintle-go/pintle/operators/echo/image", "-dir", dir)
	for _, archive := range []string{"echo-server.tar", "echo.tar"} {
		node.Load(t, filepath.Join(dir, archive))
	}
	b := newBench(t, node.Client, node.Kubeconfig, "default")
	optest.Apply(t, node.Client, "default", binary.Manifests(t)...)
	_, err := kube.For[appsv1.Deployment](
		node.Client,
	).In("echo-operator").
		Until(b.soon(), "echo-operator", func(d *appsv1.Deployment) bool {
			return d.Status.AvailableReplicas == 1
		})
	b.ok(err)

	e := new(Echo)
	e.Name, e.Spec.Replicas, e.Spec.Image = "hello", 2, serverImage
	_, err = b.echoes.Apply(b.soon(), e)
	b.ok(err)
	b.until("hello", "two servers answer", ready)
	s, err := b.services.Get(t.Context(), "hello")
	b.ok(err)
	b.answering("http://"+s.Spec.ClusterIP+"/", 2)

	_, err = b.echoes.Patch(t.Context(), "hello", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	b.ok(err)
	b.until("hello", "three servers answer", ready)
	b.answering("http://"+s.Spec.ClusterIP+"/", 3)

	_, err = b.deployments.Patch(t.Context(), "hello", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))
	b.ok(err)
	_, err = b.services.Patch(
		t.Context(),
		"hello",
		types.MergePatchType,
		[]byte(`{"spec":{"selector":{"app.kubernetes.io/name":"other"}}}`),
	)
	b.ok(err)
	b.ok(b.pods.DeleteAll(b.soon()))
	b.answering("http://"+s.Spec.ClusterIP+"/", 3)

	b.ok(b.echoes.Delete(t.Context(), "hello"))
	b.ok(b.echoes.UntilGone(b.soon(), "hello"))
	if _, err := b.services.Get(t.Context(), "hello"); !apierrors.IsNotFound(err) {
		t.Errorf("the Service outlives its Echo: %v", err)
	}
	b.ok(b.deployments.UntilGone(b.soon(), "hello"))
	b.noPods()
	if text, err := ask("http://" + s.Spec.ClusterIP + "/"); err == nil {
		t.Errorf("it still answers: %s", text)
	}
}

// answering sends requests until n pods, and all existing pods, have answered.
func (b *bench) answering(url string, n int) {
	b.Helper()
	kubetest.Eventually(b, fmt.Sprintf("%d pods have answered", n), func() error {
		var last error
		there := map[string]bool{}
		for p, err := range b.pods.List(b.Context()) {
			b.ok(err)
			if p.DeletionTimestamp == nil {
				there[p.Name] = true
			}
		}
		seen := map[string]bool{}
		for range 20 * n {
			var text string
			if text, last = ask(url); last != nil {
				break
			}
			line, _, _ := strings.Cut(text, "\n")
			seen[strings.TrimPrefix(line, "Request served by ")] = true
		}
		return errors.Join(last, same(there, seen, n))
	})
}

func same(there, seen map[string]bool, n int) error {
	for name := range seen {
		if !there[name] {
			return fmt.Errorf("%q has answered; of the Echo are %v", name, there)
		}
	}
	if len(there) != n || len(seen) != n {
		return fmt.Errorf("want %d pods, there are %v, answered have %v", n, there, seen)
	}
	return nil
}

func ask(url string) (string, error) {
	// Each request needs a connection of its own, because a Service balances connections.
	client := &http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext},
	}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
