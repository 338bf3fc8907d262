package manifest

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/kube"
)

// An issuer that makes its Secret, renews it and fills in its target uses the rights of
// Issues, and no others.
func TestIssues(t *testing.T) {
	cluster, client := admin(t)
	namespace := cluster.Namespace(t)
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	hook.Name = namespace
	none, url := admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:1/"
	hook.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "a.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
	}}
	hooks := kube.For[admissionregistrationv1.ValidatingWebhookConfiguration](client)
	if _, err := hooks.Create(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hooks.Delete(context.Background(), hook.Name) })

	var used Audit
	config := cluster.Config()
	config.Wrap(used.Wrap)
	audited, err := kube.Config{Rest: config}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer audited.Close()
	issuer := &certificate.Issuer{
		Client: audited, Namespace: namespace, Service: "farm", Names: []string{"127.0.0.1"},
		Targets: []certificate.Target{certificate.ValidatingWebhooks(hook.Name)},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- issuer.Run(ctx) }()
	filled := func(h *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
		return len(h.Webhooks[0].ClientConfig.CABundle) > 0
	}
	short, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if _, err := hooks.Until(short, hook.Name, filled); err != nil {
		t.Error(err)
	}
	// A Secret with a broken key is renewed.
	_, err = kube.For[corev1.Secret](client).In(namespace).Modify(ctx, "farm-tls", func(s *corev1.Secret) error {
		s.Data["tls.key"] = []byte("x")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	whole := func(s *corev1.Secret) bool { return len(s.Data["tls.key"]) > 1 }
	if _, err := kube.For[corev1.Secret](client).In(namespace).Until(short, "farm-tls", whole); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := used.Compare(Operator{Name: "farm", Image: "farm", Needs: []Rules{Issues(issuer)}}); err != nil {
		t.Error(err)
	}

	issuer.Namespace = ""
	text, err := Operator{
		Name: "farm", Image: "farm", Needs: []Rules{Issues(issuer)}, Install: Install{Namespace: "meadow"},
	}.YAML()
	if err != nil || !strings.Contains(string(text), "kind: Role\n") || !strings.Contains(string(text), "namespace: meadow") {
		t.Errorf("an issuer in the namespace of the operator: %v\n%s", err, text)
	}
	_, role, _ := strings.Cut(string(text), "kind: ClusterRole\n")
	role, _, _ = strings.Cut(role, "\n---")
	if strings.Contains(role, "secrets") {
		t.Errorf("a right to the Secrets of all namespaces:\n%s", role)
	}
}
