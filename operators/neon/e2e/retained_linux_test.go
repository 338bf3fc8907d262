package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
)

// retained deletes the NeonDatabase, whose policy becomes Retain just before. The volumes, the keys and
// the objects in the bucket are left, and nothing else. A NeonCluster, a NeonProject and a NeonBranch
// take them over, with all rows. Then all of it is deleted.
func (w *world) retained(login *corev1.Secret) {
	w.Helper()
	rows := w.ask(login, "select count(*) from written")
	c, err := w.clusters.Get(w.soon(), "orders")
	w.ok(err)
	p, err := w.projects.Get(w.soon(), "orders")
	w.ok(err)
	b, err := w.branches.Get(w.soon(), "orders-main")
	w.ok(err)
	claims, objects := names(w.soon(), w.claims.Reader), w.objects()
	if objects == 0 {
		w.Fatalf("the bucket is empty")
	}

	begun := time.Now()
	_, err = w.databases.Modify(w.soon(), "orders", func(d *api.NeonDatabase) error {
		d.Spec.DeletionPolicy = api.Retain
		return nil
	})
	w.ok(err)
	w.ok(w.databases.Delete(w.soon(), "orders"))
	w.ok(w.databases.UntilGone(w.soon(), "orders"))
	w.onlyLeft(slices.Concat([]string{
		"v1.Secret orders-database", "v1.Secret orders-keys", "v1.Secret orders-store",
	}, claims)...)
	w.Logf("all but the data was gone %s after the deletion", time.Since(begun).Round(100*time.Millisecond))
	if left := w.objects(); left < objects {
		w.Errorf("of %d objects in the bucket %d are left", objects, left)
	}

	begun = time.Now()
	again := new(api.NeonCluster)
	again.Name, again.Spec = "orders", c.Spec
	again.Spec.DeletionPolicy = api.Delete
	_, err = w.clusters.Create(w.soon(), again)
	w.ok(err)
	project := new(api.NeonProject)
	project.Name, project.Spec = "orders", p.Spec
	project.Spec.TenantID, project.Spec.DeletionPolicy = p.Status.TenantID, api.Delete
	_, err = w.projects.Create(w.soon(), project)
	w.ok(err)
	branch := new(api.NeonBranch)
	branch.Name, branch.Spec = "orders-main", b.Spec
	branch.Spec.TimelineID, branch.Spec.DeletionPolicy = b.Status.TimelineID, api.Delete
	_, err = w.branches.Create(w.soon(), branch)
	w.ok(err)
	taken := w.serve("orders-main", "orders")
	if is := w.ask(taken, "select count(*) from written"); is != rows {
		w.Errorf("of %s rows %s were taken over", rows, is)
	}
	w.Logf("the data was served again %s after the new objects", time.Since(begun).Round(100*time.Millisecond))
	w.sameSafekeepers(c)

	w.withdraw("orders-main", "orders")
	w.ok(w.projects.Delete(w.soon(), "orders"))
	w.ok(w.clusters.Delete(w.soon(), "orders"))
	w.onlyLeft()
}

// sameSafekeepers sees that no id of a safekeeper is used again: one of them was lost with its volume.
func (w *world) sameSafekeepers(first *api.NeonCluster) {
	w.Helper()
	c, err := w.clusters.Get(w.soon(), "orders")
	w.ok(err)
	ids := func(c *api.NeonCluster) (all []int64) {
		for _, m := range c.Status.Safekeepers {
			all = append(all, m.ID)
		}
		slices.Sort(all)
		return all
	}
	if was, is := ids(first), ids(c); !slices.Equal(was, is) {
		w.Errorf("the safekeepers were %v and are %v", was, is)
	}
}

// objects counts the objects in the bucket, which are files in the volume of the store.
func (w *world) objects() (n int) {
	w.Helper()
	for c, err := range w.claims.List(w.soon()) {
		w.ok(err)
		if !strings.Contains(c.Name, "-store-") {
			continue
		}
		v, err := kube.For[corev1.PersistentVolume](w.node.Client).Get(w.soon(), c.Spec.VolumeName)
		w.ok(err)
		w.ok(filepath.WalkDir(filepath.Join(v.Spec.HostPath.Path, "neon"), func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				n++
			}
			return nil // the store writes meanwhile
		}))
	}
	return n
}

// onlyLeft waits until only these objects are left.
func (w *world) onlyLeft(want ...string) {
	w.Helper()
	slices.Sort(want)
	w.eventually("only the retained data is left", func(ctx context.Context) error {
		left := w.left(ctx)
		slices.Sort(left)
		if !slices.Equal(left, want) {
			return fmt.Errorf("left are %v, want %v", left, want)
		}
		return nil
	})
}
