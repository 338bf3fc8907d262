package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/cluster/image"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
)

// TestSoakRealNode runs the program as it is shipped: its image in a pod, from the manifests that
// it prints, with a volume. kube-apiserver reaches it through its Service. Another pod goes on
// with the llamas of the first.
func TestSoakRealNode(t *testing.T) {
	node := optest.StartRealNode(t)
	archive := filepath.Join(t.TempDir(), "farm.tar")
	_, err := image.Build(t.Context(), image.Options{
		Package: "github.com/pintle-go/pintle/operators/farm", Name: "ghcr.io/pintle-go/farm:v0.1.0", Output: archive,
		Uncompressed: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	node.Load(t, archive)
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o777); err != nil { // the program is not root
		t.Fatal(err)
	}
	disk := new(corev1.PersistentVolume)
	disk.Name = "farm-data"
	disk.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	disk.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	disk.Spec.HostPath = &corev1.HostPathVolumeSource{Path: volume}
	if _, err := kube.For[corev1.PersistentVolume](node.Client).Create(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	optest.Apply(t, node.Client, "default", binary.Manifests(t)...)

	pods := kube.For[corev1.Pod](node.Client).In("farm")
	f := &farm{
		TB: t, namespace: "default", llamas: kube.For[Llama](node.Client).In("default"), pods: pods,
		farmPods: kube.For[FarmPod](node.Client).In("farm").ReadOnly(),
	}
	f.available(node.Client)
	_, err = f.llama("dora", 110, 170)
	f.ok(err)
	before := f.mood("dora", "content")
	seen := 0
	for p, err := range f.farmPods.List(t.Context()) {
		f.ok(err)
		if p.Spec.Node == "" || p.Spec.Containers != 1 {
			t.Errorf("the farm pod is %+v", p)
		}
		seen++
	}
	if seen != 1 {
		t.Errorf("%d farm pods", seen)
	}

	f.ok(pods.DeleteAll(t.Context()))
	f.available(node.Client)
	_, err = f.llama("emil", 10, 170)
	f.ok(err)
	f.mood("emil", "hungry")
	after, err := f.llamas.Get(t.Context(), "dora")
	f.ok(err)
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the llama is %s %s, was %s %s", after.UID, after.ResourceVersion, before.UID, before.ResourceVersion)
	}
}

// available waits until the pod of the program runs and its kinds are served.
func (f *farm) available(client *kube.Client) {
	f.Helper()
	ctx, stop := context.WithTimeout(f.Context(), 3*time.Minute)
	defer stop()
	_, err := kube.For[appsv1.Deployment](client).In("farm").Until(ctx, "farm", func(d *appsv1.Deployment) bool {
		return d.Status.AvailableReplicas == 1 && d.Status.UnavailableReplicas == 0
	})
	if err != nil {
		for p, err := range f.pods.List(f.Context()) {
			f.ok(err)
			f.Logf("%s: %+v", p.Name, p.Status)
		}
		f.Fatal(err)
	}
	kubetest.Eventually(f, "llamas are served", func() (err error) {
		for _, err = range f.llamas.List(ctx) {
			continue
		}
		return err
	})
}
