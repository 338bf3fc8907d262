package main

import (
	"os/exec"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/operators/internal/install"
)

// printed returns the manifests that the program prints with flags of its own.
func printed(t *testing.T, args ...string) []install.Manifest {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary.Path(t), append(args, "manifests")...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + t.TempDir() + "/none"}
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	list, err := install.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestMonitoring adds the objects by which Neon is watched, in the operator's namespace.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	kinds := func(args ...string) (all []string) {
		for _, m := range printed(t, args...) {
			all = append(all, m.GVK.Kind+" "+m.Namespace+"/"+m.Name)
		}
		return all
	}
	without, with := kinds(), kinds("-monitoring")
	for _, want := range []string{
		"ConfigMap neon-operator/neon-dashboard", "PodMonitor neon-operator/neon",
		"ServiceMonitor neon-operator/neon-operator", "PrometheusRule neon-operator/neon-operator",
	} {
		if slices.Contains(without, want) || !slices.Contains(with, want) {
			t.Errorf("%s: the manifests are %q, with -monitoring %q", want, without, with)
		}
	}
}

// TestCertificateRights reads the rights on Certificates of an operator that uses cert-manager.
func TestCertificateRights(t *testing.T) {
	t.Parallel()
	var verbs []string
	for _, m := range printed(t, "-cert-manager") {
		var role rbacv1.ClusterRole
		if m.GVK.Kind != "ClusterRole" {
			continue
		}
		if err := yaml.Unmarshal(m.YAML, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			if slices.Contains(r.Resources, "certificates") && slices.Contains(r.APIGroups, "cert-manager.io") {
				verbs = append(verbs, r.Verbs...)
			}
		}
	}
	slices.Sort(verbs)
	if want := []string{"create", "delete", "get", "list", "patch", "watch"}; !slices.Equal(verbs, want) {
		t.Errorf("the verbs are %q, want %q", verbs, want)
	}
}
