package thirdparty

import (
	"os"
	"path/filepath"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/kubebuilder"
	"github.com/pintle-go/pintle/kube"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// TestMoveOver installs the definitions that operators ship, which controller-gen made.
// Over them it installs the definitions that pintle makes of the same Go types and of the
// markers in their comments. It does so without force, because nothing is lost.
func TestMoveOver(t *testing.T) {
	client, _ := connect(t)
	for _, c := range []struct {
		module, file, types, group, kind string
		of                               func(crd.Options) *crd.Definition
	}{
		{"github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_certificates.yaml", "pkg/apis", "cert-manager.io", "Certificate",
			crd.Of[certmanager.Certificate]},
		{"github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_clusterissuers.yaml", "pkg/apis", "cert-manager.io", "ClusterIssuer",
			crd.Of[certmanager.ClusterIssuer]},
		{"sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_gateways.yaml", "apis/v1", "gateway.networking.k8s.io", "Gateway",
			crd.Of[gateway.Gateway]},
		{"sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml", "apis/v1", "gateway.networking.k8s.io", "HTTPRoute",
			crd.Of[gateway.HTTPRoute]},
	} {
		dir := install(t, client, c.module, c.file)
		text, err := os.ReadFile(filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		var theirs crd.Definition
		if err := yaml.Unmarshal(text, &theirs); err != nil {
			t.Fatal(err)
		}
		ours := c.of(crd.Options{
			Kind:   kube.Kind{GVK: kube.GVK{Group: c.group, Version: "v1", Kind: c.kind}},
			Source: os.DirFS(filepath.Join(dir, c.types)), Markers: kubebuilder.Tags,
		})
		if err := ours.Err(); err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		// Versions in which objects are not stored go on by Join.
		for _, v := range theirs.Spec.Versions {
			if v.Name != "v1" {
				v.Storage = false
				ours.Spec.Versions = append(ours.Spec.Versions, v)
			}
		}
		// Groups of Kubernetes' own need an annotation. The project's own generator adds
		// it.
		const approved = "api-approved.kubernetes.io"
		if theirs.Annotations[approved] != "" {
			ours.Annotations = map[string]string{approved: theirs.Annotations[approved]}
		}
		if err := crd.Install(t.Context(), client, ours); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}
