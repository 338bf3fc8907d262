package main

import (
	"context"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/manifest"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// TestSite takes a Site from a missing ConfigMap to running servers and to new pages. The
// requests of the operator need the rights that its manifests give, and no others.
func TestSite(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Nodes: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tester, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tester.Close)
	var used manifest.Audit
	config := cluster.Config()
	config.Wrap(used.Wrap)
	client, err := kube.Config{Rest: config, FieldManager: "site-operator"}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	op, err := describe(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(ctx, tester, op.Definitions...); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(running, controller.Options{}, op.Controllers...) }()

	namespace := cluster.Namespace(t)
	sites := kube.For[Site](tester).In(namespace)
	configMaps := kube.For[corev1.ConfigMap](tester).In(namespace)
	deployments := kube.For[appsv1.Deployment](tester).In(namespace)
	site := new(Site)
	site.Name, site.Spec.Pages = "docs", "pages"
	if _, err := sites.Apply(ctx, site); err != nil {
		t.Fatal(err)
	}
	until := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		_, err := sites.Until(ctx, "docs", func(s *Site) bool {
			c := meta.FindStatusCondition(s.Status.Conditions, "Ready")
			return c != nil && c.Status == status && c.Reason == reason
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	until(metav1.ConditionFalse, "NoPages")
	pages := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pages"}, Data: map[string]string{"index.html": "one"}}
	if _, err := configMaps.Apply(ctx, pages); err != nil {
		t.Fatal(err)
	}
	until(metav1.ConditionTrue, "Servers")
	pages.Data["index.html"] = "two"
	changed, err := configMaps.Apply(ctx, pages)
	if err != nil {
		t.Fatal(err)
	}
	_, err = deployments.Until(ctx, "docs", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations["example.com/pages"] == changed.ResourceVersion
	})
	if err != nil {
		t.Fatal(err)
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := used.Compare(op); err != nil {
		t.Error(err)
	}
}
