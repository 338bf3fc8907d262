package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// nodes rolls two pageservers, and loses a safekeeper with its volume, under a client that writes. The
// NeonDatabase is paused meanwhile, because its cluster has one pageserver. It ends with one again.
func (w *world) nodes(login *corev1.Secret) {
	w.Helper()
	w.pause("true")
	w.changeCluster(func(c *api.NeonCluster) { c.Spec.Pageservers.Count = 2 })
	w.clusterUntil("has two pageservers", func(c *api.NeonCluster) bool { return len(c.Status.Pageservers) == 2 })
	client := w.write(login)
	client.goesOn(w)

	begun := time.Now()
	before := w.podIDs("orders-pageserver-1-0", "orders-pageserver-2-0")
	w.changeCluster(func(c *api.NeonCluster) {
		c.Spec.Pageservers.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("11m")}
	})
	w.eventually("both pageservers were replaced", func(context.Context) error {
		for name, id := range w.podIDs("orders-pageserver-1-0", "orders-pageserver-2-0") {
			if id == before[name] || id == "" {
				return fmt.Errorf("%s was not", name)
			}
		}
		return nil
	})
	w.clusterUntil("has rolled its pageservers", func(c *api.NeonCluster) bool { return c.Status.PageserverRoll == nil })
	w.Logf("pageservers: rolled in %s, the longest pause of the client was %s", time.Since(begun).Round(100*time.Millisecond),
		client.goesOn(w).Round(100*time.Millisecond))

	begun = time.Now()
	w.loseVolume("orders-safekeeper-1-0")
	w.changeCluster(func(c *api.NeonCluster) { c.Spec.Safekeepers.Lost = []int64{1} })
	w.clusterUntil("has another safekeeper in the place of the lost one", func(c *api.NeonCluster) bool {
		var ids []int64
		for _, m := range c.Status.Safekeepers {
			ids = append(ids, m.ID)
		}
		slices.Sort(ids)
		return slices.Equal(ids, []int64{2, 3, 4})
	})
	_, err := w.branches.Until(w.soon(), "orders-main", func(b *api.NeonBranch) bool {
		return holds(b, b.Status.Conditions) && len(b.Status.Safekeepers) == 3 && !slices.Contains(b.Status.Safekeepers, 1)
	})
	w.ok(err)
	w.Logf("safekeeper 1: replaced %s after its loss, the longest pause of the client was %s",
		time.Since(begun).Round(100*time.Millisecond), client.goesOn(w).Round(100*time.Millisecond))
	client.check(w, login)

	w.pause("false")
	w.clusterUntil("has one pageserver again", func(c *api.NeonCluster) bool {
		return c.Spec.Pageservers.Count == 1 && len(c.Status.Pageservers) == 1
	})
	w.allReady()
	client.check(w, login)
	w.eventually("the pageserver that left has no volume", func(ctx context.Context) error {
		const volume = "v1.PersistentVolumeClaim data-orders-pageserver-2-0"
		if slices.Contains(names(ctx, w.claims.Reader), volume) {
			return fmt.Errorf("%s is there", volume)
		}
		return nil
	})
}

// pause sets the annotation that pauses the plan of the NeonDatabase.
func (w *world) pause(value string) {
	w.Helper()
	_, err := w.databases.Modify(w.soon(), "orders", func(d *api.NeonDatabase) error {
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[plan.Paused] = value
		return nil
	})
	w.ok(err)
	_, err = w.databases.Until(w.soon(), "orders", func(d *api.NeonDatabase) bool {
		paused := false
		for _, c := range d.Status.Conditions {
			paused = paused || c.Type == "Paused" && c.Status == "True"
		}
		return paused == (value == "true")
	})
	w.ok(err)
}

func (w *world) changeCluster(change func(*api.NeonCluster)) {
	w.Helper()
	_, err := w.clusters.Modify(w.soon(), "orders", func(c *api.NeonCluster) error {
		change(c)
		return nil
	})
	w.ok(err)
}

// clusterUntil waits until the NeonCluster is ready and fulfils a condition.
func (w *world) clusterUntil(what string, also func(*api.NeonCluster) bool) {
	w.Helper()
	w.eventually("the cluster "+what, func(ctx context.Context) error {
		c, err := w.clusters.Get(ctx, "orders")
		if err == nil && (!holds(c, c.Status.Conditions) || !also(c)) {
			err = errors.New("it is not ready, or not so")
		}
		return err
	})
}

// podIDs returns the uids of the pods that are ready.
func (w *world) podIDs(names ...string) map[string]types.UID {
	w.Helper()
	ids := map[string]types.UID{}
	for _, name := range names {
		ids[name] = ""
		if p, err := w.pods.Get(w.soon(), name); err == nil && isReady(p) {
			ids[name] = p.UID
		}
	}
	return ids
}

// loseVolume empties the volume of a pod, and kills the pod.
func (w *world) loseVolume(name string) {
	w.Helper()
	p, err := w.pods.Get(w.soon(), name)
	w.ok(err)
	claim := ""
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claim = v.PersistentVolumeClaim.ClaimName
		}
	}
	c, err := w.claims.Get(w.soon(), claim)
	w.ok(err)
	v, err := kube.For[corev1.PersistentVolume](w.node.Client).Get(w.soon(), c.Spec.VolumeName)
	w.ok(err)
	inside, err := filepath.Glob(filepath.Join(v.Spec.HostPath.Path, "*"))
	w.ok(err)
	if len(inside) == 0 {
		w.Fatalf("the volume of %s is empty already", name)
	}
	lost := w.TempDir()
	for _, path := range inside { // the program still writes
		w.ok(os.Rename(path, filepath.Join(lost, filepath.Base(path))))
	}
	w.ok(w.pods.Delete(w.soon(), name))
}
