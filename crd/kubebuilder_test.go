package crd_test

import (
	"embed"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/crd/kubebuilder"
	batch "github.com/pintle-go/pintle/crd/testdata/kubebuilder"
	"github.com/pintle-go/pintle/internal/crddiff"
	"github.com/pintle-go/pintle/kube"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/kubebuilder
var kubebuilderSource embed.FS

// theirs reads the definition that controller-gen made of the types in testdata.
func theirs(t *testing.T, plural, group string) *crd.Definition {
	t.Helper()
	text, err := os.ReadFile("testdata/kubebuilder/batch.example.com_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d crd.Definition
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "batch.example.com", group)), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func shift(t *testing.T, group string) *crd.Definition {
	t.Helper()
	d := crd.Of[batch.Shift](crd.Options{
		Kind:   kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: "Shift"}},
		Source: kubebuilderSource, Markers: kubebuilder.Tags,
	})
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}

func roster(t *testing.T, group string) *crd.Definition {
	t.Helper()
	d := crd.Of[batch.Roster](crd.Options{
		Kind:   kube.Kind{GVK: kube.GVK{Group: group, Version: "v1", Kind: "Roster"}},
		Source: kubebuilderSource, Markers: kubebuilder.Tags,
	})
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return d
}

// The definition that Of makes of types with the markers of controller-gen accepts the
// same values as the definition of controller-gen, and has the same names.
func TestKubebuilder(t *testing.T) {
	for plural, ours := range map[string]*crd.Definition{
		"shifts":  shift(t, "batch.example.com"),
		"rosters": roster(t, "batch.example.com"),
	} {
		theirs := theirs(t, plural, "batch.example.com")
		for _, b := range crd.Compare(theirs, ours) {
			t.Errorf("ours instead of theirs: %v", b)
		}
		for _, b := range crd.Compare(ours, theirs) {
			t.Errorf("theirs instead of ours: %v", b)
		}
		for _, d := range differences(ours, theirs) {
			t.Errorf("%s%s", plural, d)
		}
		delete(theirs.Annotations, "controller-gen.kubebuilder.io/version")
		if !maps.Equal(ours.Labels, theirs.Labels) || !maps.Equal(ours.Annotations, theirs.Annotations) {
			t.Errorf("got %v %v\nwant %v %v", ours.Labels, ours.Annotations, theirs.Labels, theirs.Annotations)
		}
	}
}

// differences returns the differences between two definitions in v1 whose effect
// [crd.Compare] does not see.
func differences(ours, theirs *crd.Definition) []crddiff.Difference {
	all := crddiff.Compare(ours, theirs, "v1")
	return slices.DeleteFunc(slices.Clone(all), func(d crddiff.Difference) bool {
		// controller-gen reads it from an embedded struct; the server's own type is granular.
		embedded := strings.HasSuffix(d.Path, ".configMapRef") || strings.HasSuffix(d.Path, ".secretRef")
		return embedded && d.What == "x-kubernetes-map-type" ||
			slices.ContainsFunc(all, func(o crddiff.Difference) bool { return o.Path == d.Path && o.What == "allOf" })
	})
}

// A program can take over a definition that controller-gen made, without force.
func TestInstallOverKubebuilder(t *testing.T) {
	s := start(t)
	before, after := theirs(t, "shifts", s.group()), shift(t, s.group())
	s.remove(t, before)
	if _, err := kube.For[crd.Definition](s.client).Create(soon(t), before); err != nil {
		t.Fatal(err)
	}
	if err := crd.Install(soon(t), s.client, after); err != nil {
		t.Fatal(err)
	}
}
