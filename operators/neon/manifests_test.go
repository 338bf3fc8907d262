package main

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/pintle-go/pintle/operators/internal/install"
)

// TestMonitoring adds the objects by which Neon is watched, in the operator's namespace.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	kinds := func(args ...string) (all []string) {
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
		for _, m := range list {
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
