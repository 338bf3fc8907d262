package crd_test

import (
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// A program installs the definition whose conversion webhook it serves itself, later. The server has
// objects that it cannot convert until then.
func TestInstallBeforeItsOwnWebhook(t *testing.T) {
	s := start(t)
	one := caseOf[Old](t, s, crd.Options{})
	s.install(t, one)
	o := &Case[Old]{}
	o.Name = "a"
	if _, err := cases[Old](s).Create(soon(t), o); err != nil {
		t.Fatal(err)
	}
	nowhere := "https://127.0.0.1:1/convert"
	next := caseOf[Old](t, s, crd.Options{})
	two := next.Spec.Versions[0]
	two.Name, two.Storage = "v2", false
	next.Spec.Versions = append(next.Spec.Versions, two)
	next.Spec.Conversion = &crd.Conversion{Strategy: "Webhook", Webhook: &crd.WebhookConversion{
		ClientConfig:             &crd.WebhookClientConfig{URL: &nowhere},
		ConversionReviewVersions: []string{"v1"},
	}}
	if err := crd.Install(soon(t), s.client, next); err != nil {
		t.Fatal(err)
	}
	second := kube.For[Case[Old]](s.client, kube.Kind{GVK: kube.GVK{Group: s.group(), Version: "v2", Kind: "Case"}})
	if _, err := second.Scope(soon(t)); err != nil {
		t.Errorf("the second version: %v", err)
	}
}
