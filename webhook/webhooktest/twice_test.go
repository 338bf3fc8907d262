package webhooktest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Errorf(_ string, args ...any) { f.said = append(f.said, args[1].(error).Error()) }

func TestTwice(t *testing.T) {
	client, err := kube.Config{Rest: &rest.Config{Host: "http://127.0.0.1:1"}}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pods := kube.For[corev1.Pod](client)
	for name, test := range map[string]struct {
		mutate func(*corev1.Pod) error
		want   string
	}{
		"nothing": {func(*corev1.Pod) error { return nil }, ""},
		"once": {func(p *corev1.Pod) error {
			if len(p.Spec.Containers) == 1 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
			}
			return nil
		}, ""},
		"a sidecar each time": {func(p *corev1.Pod) error {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
			return nil
		}, "changes the object again: first "},
		"it refuses its own work": {func(p *corev1.Pod) error {
			if p.Spec.NodeName != "" {
				return webhook.Invalid("spec.nodeName", p.Spec.NodeName, "it is set")
			}
			p.Spec.NodeName = "n"
			return nil
		}, `refuses: Pod "p" is invalid: spec.nodeName: Invalid value: "n": it is set`},
	} {
		t.Run(name, func(t *testing.T) {
			hook := webhook.Mutate(pods, func(_ context.Context, p *corev1.Pod) error { return test.mutate(p) })
			h, err := webhook.Handler(webhook.Options{Logger: slog.New(slog.DiscardHandler)}, hook)
			if err != nil {
				t.Fatal(err)
			}
			f := &failing{TB: t}
			r := httptest.NewRequest(http.MethodPost, hook.Path(), strings.NewReader(`{"apiVersion":"admission.k8s.io/v1",
				"kind":"AdmissionReview","request":{"uid":"7","operation":"CREATE","kind":{"group":"","version":"v1","kind":"Pod"},
				"object":{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a"}]}}}}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			twice(f, h).ServeHTTP(w, r)
			var got answer
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !got.Response.Allowed || w.Code != http.StatusOK {
				t.Errorf("got %d %+v, %v", w.Code, got, err)
			}
			if said := strings.Join(f.said, "\n"); (said == "") != (test.want == "") || !strings.HasPrefix(said, test.want) {
				t.Errorf("said %q, want %q", said, test.want)
			}
		})
	}
}
