package cluster

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// TestVolumesGrow has the volumes of pageservers grow in a StorageClass that does not allow that, and then
// does. No pod is replaced.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	pods := func() map[string]types.UID {
		all := map[string]types.UID{}
		for p, err := range w.pods.List(t.Context()) {
			w.ok(err)
			all[p.Name] = p.UID
		}
		return all
	}
	sizes := func() string {
		var all []string
		for _, name := range []string{"data-main-pageserver-1-0", "data-main-pageserver-2-0", "data-main-safekeeper-1-0"} {
			c, err := w.claims.Get(t.Context(), name)
			w.ok(err)
			all = append(all, c.Spec.Resources.Requests.Storage().String())
		}
		return strings.Join(all, " ")
	}
	to := func(size string) {
		w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Storage = resource.MustParse(size) })
	}
	before := pods()

	to("2Gi")
	w.until("the cluster says so", says("pageserver/1", "set allowVolumeExpansion of StorageClass "+w.ns+", or the former size"))
	if is := sizes(); is != "1Gi 1Gi 1Gi" {
		t.Errorf("the volumes have %s", is)
	}
	to("1Gi")
	w.ready()

	to("2Gi")
	w.until("the cluster says so", says("pageserver/1", "set allowVolumeExpansion"))
	_, err := kube.For[storagev1.StorageClass](w.client).Modify(t.Context(), w.ns, func(s *storagev1.StorageClass) error {
		s.AllowVolumeExpansion = new(true)
		return nil
	})
	w.ok(err)
	w.ready()
	if is := sizes(); is != "2Gi 2Gi 1Gi" {
		t.Errorf("the volumes have %s", is)
	}
	if after := pods(); !reflect.DeepEqual(before, after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	set, err := w.sets.Get(t.Context(), "main-pageserver-1")
	w.ok(err)
	if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" {
		t.Errorf("the StatefulSet makes volumes of %s", size.String())
	}
}

// TestVolumeOutlivesItsSet has somebody delete the StatefulSets of a cluster whose policy is Delete. They come back
// with the volumes that they had: an empty safekeeper has forgotten its votes.
func TestVolumeOutlivesItsSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	before := w.claimIDs()
	for _, name := range []string{safekeeperName("main", 1), pageserverName("main", 1)} {
		was, err := w.sets.Get(t.Context(), name)
		w.ok(err)
		w.ok(w.sets.Delete(t.Context(), name))
		w.until(name+" is there again", func(*api.NeonCluster) bool {
			is, err := w.sets.Get(t.Context(), name)
			return err == nil && is.UID != was.UID
		})
	}
	w.until("the cluster is ready", isReady)
	if diff := cmp.Diff(before, w.claimIDs()); diff != "" {
		t.Errorf("the claims (-before +after):\n%s", diff)
	}
	w.ok(w.clusters.Delete(t.Context(), "main"))
	w.until("nothing is left", func(c *api.NeonCluster) bool { return c == nil && len(w.remains()) == 0 })
}
