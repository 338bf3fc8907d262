// Package webhooktest registers the hooks of a program in the cluster of a test, as the WebhookInstallOptions
// of controller-runtime's envtest do. The API server calls them in the process of the test.
//
//	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
//	client, err := kube.Config{Rest: cluster.Config()}.Connect()
//	…
//	webhooktest.Register(t, client, validate, defaults)
package webhooktest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/internal/pki"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook"
)

// patience is how long registering and removing may take.
const patience = time.Minute

// Register serves hooks at a loopback address, with an authority of their own, and registers them. It returns
// when the API server calls them. At the end of the test they are removed, and the API server has forgotten them.
// The cluster must run on this machine. Each mutation is called as twice calls it.
//
// A hook for a kind of Kubernetes is called for the objects of all tests that share the cluster. Narrow its
// handle to the namespace of the test.
func Register(t testing.TB, client *kube.Client, hooks ...webhook.Hook) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := register(ctx, t, client, hooks); err != nil {
		t.Fatalf("webhooktest: %v", err)
	}
}

func register(ctx context.Context, t testing.TB, client *kube.Client, hooks []webhook.Hook) error {
	kinds, err := kindsOf(ctx, client, hooks)
	if err != nil {
		return err
	}
	handler, err := webhook.Handler(webhook.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, hooks...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhook/", twice(t, handler))
	mux.HandleFunc(readyPath, refuse)
	server, bundle, err := serve(mux)
	if err != nil {
		return err
	}
	t.Cleanup(server.Close)
	id := "webhooktest-" + strings.ToLower(rand.Text()[:12])
	r := webhook.Registration{Name: id, URL: server.URL, CABundle: bundle, Kinds: kinds}
	all, err := r.Configurations(hooks...)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := install(ctx, t, client, c, r); err != nil {
			return err
		}
	}
	return nil
}

// serve serves with the certificate of an authority that nobody else has.
func serve(h http.Handler) (s *httptest.Server, bundle []byte, err error) {
	certificate, bundle, err := pki.Loopback(time.Now(), 24*time.Hour)
	if err != nil {
		return nil, nil, err
	}
	s = httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	return s, bundle, nil
}

// install creates a configuration, and removes it at the end.
func install(ctx context.Context, t testing.TB, client *kube.Client, c *webhook.Configuration, r webhook.Registration) error {
	id := strings.ToLower(c.Kind[:1]) + "-" + r.Name
	c.Webhooks = append(c.Webhooks, marker(c.Webhooks[0], id, r))
	kind := kube.Kind{GVK: c.GroupVersionKind(), Plural: strings.ToLower(c.Kind) + "s", Scope: kube.ClusterScoped}
	configurations := kube.For[webhook.Configuration](client, kind)
	if _, err := configurations.Create(ctx, c); err != nil {
		return err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := configurations.Delete(ctx, c.Name)
		if err == nil {
			err = await(ctx, client, id, false)
		}
		if err != nil {
			t.Errorf("webhooktest: remove hooks: %v", err)
		}
	})
	return await(ctx, client, id, true)
}

const (
	readyPath  = "/ready"
	readyLabel = "pintle.dev/webhooktest"
	readyText  = "webhooktest is registered"
)

// marker returns a hook that refuses objects of one label. They tell whether the API server knows the
// configuration.
func marker(like webhook.ConfiguredHook, id string, r webhook.Registration) webhook.ConfiguredHook {
	like.Name = "ready.webhooktest.pintle.dev"
	like.ClientConfig = webhook.ClientConfig{URL: r.URL + readyPath, CABundle: r.CABundle}
	like.FailurePolicy, like.SideEffects, like.MatchConditions = webhook.Ignore, "None", nil
	like.NamespaceSelector = metav1.LabelSelector{}
	like.ObjectSelector = metav1.LabelSelector{MatchLabels: map[string]string{readyLabel: id}}
	like.Rules = []webhook.Rule{{
		Operations: []string{"CREATE"}, APIGroups: []string{""}, APIVersions: []string{"v1"},
		Resources: []string{"configmaps"}, Scope: "Namespaced",
	}}
	return like
}

// await waits until the API server knows a configuration, or no longer knows it.
func await(ctx context.Context, client *kube.Client, id string, known bool) error {
	const every = 10 * time.Millisecond
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "webhooktest-", Labels: map[string]string{readyLabel: id}}}
	maps := kube.For[corev1.ConfigMap](client).In("default").With(kube.WriteOptions{DryRun: true})
	for {
		_, err := maps.Create(ctx, o.DeepCopy())
		refused := err != nil && strings.Contains(err.Error(), readyText)
		switch {
		case refused == known && (refused || err == nil):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("wait for the API server: %w (the last answer is %w)", context.Cause(ctx), err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// refuse answers the marker.
func refuse(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{
			"uid": asked.Request.UID, "allowed": false, "status": map[string]any{"message": readyText},
		},
	})
}

// kindsOf asks the server for plural and scope of the hooks' kinds.
func kindsOf(ctx context.Context, client *kube.Client, hooks []webhook.Hook) (kinds []kube.Kind, err error) {
	if err := webhook.Check(hooks...); err != nil {
		return nil, err
	}
	config := client.Config().Rest
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	defer h.CloseIdleConnections()
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	for _, hook := range hooks {
		kind := hook.Kind()
		if kind.Plural != "" && kind.Scope != "" {
			continue
		}
		list, err := discover(ctx, h, base.JoinPath("apis", kind.Group, kind.Version).String())
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", kind.Kind, err)
		}
		for _, r := range list.APIResources {
			if r.Kind != kind.Kind || strings.Contains(r.Name, "/") {
				continue
			}
			kind.Plural, kind.Scope = r.Name, kube.ClusterScoped
			if r.Namespaced {
				kind.Scope = kube.Namespaced
			}
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

func discover(ctx context.Context, h *http.Client, url string) (list metav1.APIResourceList, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return list, err
	}
	answer, err := h.Do(r)
	if err != nil {
		return list, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return list, fmt.Errorf("the server answers %s", answer.Status)
	}
	return list, json.NewDecoder(answer.Body).Decode(&list)
}
