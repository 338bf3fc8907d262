package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// TestSafekeepersLeave takes safekeepers away: one that is too many, one whose volume was
// emptied, and one that the spec names as lost while another one is down.
func TestSafekeepersLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.NeonCluster) { c.Spec.Safekeepers.Count = 4 })
	w.timeline(tenantID, 0)
	w.timeline(otherID, 0)

	w.Log("one is too many: its timelines move first, though a request is lost and others fail")
	w.lab.Controller.Faults.Add(wire.Fault{Method: "POST", Path: "/safekeeper_migrate", Status: 500, Times: 2})
	w.lab.Controller.Faults.Add(wire.Fault{Method: "POST", Path: "/safekeeper_migrate", Lost: true, Times: 1})
	// So that a timeline is on it for certain.
	set := w.located(tenantID)
	if !slices.Contains(set, 4) {
		w.retried(func() error {
			return w.controller().MigrateSafekeepers(t.Context(), tenantID, tenantID, []int64{4, set[0], set[1]})
		})
	}
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Count = 3 })
	w.until("safekeeper 4 has left", w.left(4))
	w.until("the cluster is ready", isReady)
	for _, id := range []string{tenantID, otherID} {
		if diff := cmp.Diff([]int64{1, 2, 3}, w.located(id)); diff != "" {
			t.Errorf("the timeline %s is elsewhere (-want +got):\n%s", id, diff)
		}
	}
	w.decommissioned(4)

	w.Log("the volume of a safekeeper is emptied: it says that all is well")
	w.empty(3)
	w.until("the operator says so", says("safekeeper-registration/3", "its volume lacks timeline"))
	w.until("it leaves", evacuates("Emptied", "safekeeper 3"))
	w.restart() // the operator that comes next goes on
	w.until("safekeeper 3 has left", w.left(3))
	c := w.ready()
	if diff := cmp.Diff([]string{"1:zone-1", "2:zone-2", "5:zone-5"}, shown(c.Status.Safekeepers)); diff != "" {
		t.Errorf("safekeepers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 2, 5}, w.located(tenantID)); diff != "" {
		t.Errorf("the timeline is elsewhere (-want +got):\n%s", diff)
	}
	w.decommissioned(3)

	w.Log("one is lost while another is down: there is no quorum, and nothing is removed")
	lost, back := w.crash("safekeeper-5"), w.crash("safekeeper-2")
	_ = lost // its program does not come back
	w.change(func(c *api.NeonCluster) { c.Spec.Safekeepers.Lost = []int64{5} })
	w.until("it says why", evacuates("Lost", "not enough successful reconciliations"))
	if _, err := w.sets.Get(t.Context(), safekeeperName("main", 5)); err != nil {
		t.Errorf("the safekeeper is removed: %v", err)
	}
	back()
	w.until("safekeeper 5 has left", w.left(5))
	w.ready()
	if diff := cmp.Diff([]int64{1, 2, 6}, w.located(tenantID)); diff != "" {
		t.Errorf("the timeline is elsewhere (-want +got):\n%s", diff)
	}
	w.decommissioned(5)
}

// left returns a condition that holds when nothing of a safekeeper is left.
func (w *world) left(id int64) func(*api.NeonCluster) bool {
	return func(c *api.NeonCluster) bool {
		name := safekeeperName("main", id)
		_, set := w.sets.Get(w.Context(), name)
		_, claim := w.claims.Get(w.Context(), "data-"+name+"-0")
		member := slices.ContainsFunc(c.Status.Safekeepers, func(m api.Member) bool { return m.ID == id })
		return !member && apierrors.IsNotFound(set) && apierrors.IsNotFound(claim)
	}
}

// decommissioned sees that the storage controller uses a safekeeper no more, and that its
// timelines had moved before.
func (w *world) decommissioned(id int64) {
	w.Helper()
	r, err := w.controller().Registration(w.Context(), id)
	if err != nil || r.Policy != upstream.SafekeeperDecommissioned {
		w.Errorf("safekeeper %d is %q, %v", id, r.Policy, err)
	}
}

// TestPageserversLeave removes pageservers: one whose removal does not end by itself, and one that
// has just died. It adds one again, with an id of its own.
func TestPageserversLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.timeline(tenantID, 1)

	w.Log("the secondary has no other place: the removal is cancelled, and begun by force")
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Count = 1 })
	w.until("one pageserver is left", w.servers(1))
	w.ready()
	if n := len(w.requests("DELETE", "/node/2/delete")); n == 0 {
		t.Error("the removal was not cancelled")
	}
	if all := w.requests("PUT", "/node/2/delete"); len(all) < 2 || !strings.HasSuffix(all[len(all)-1], "?force=true") {
		t.Errorf("the removals are %v", all)
	}

	w.Log("another one has another id")
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Count = 2 })
	w.until("there are two pageservers", w.servers(1, 3))
	w.ready()

	w.Log("one that has just died is removed when it is Offline, and no sooner")
	w.stop()
	back := w.crash("pageserver-3")
	w.change(func(c *api.NeonCluster) { c.Spec.Pageservers.Count = 1 })
	w.start()
	w.until("the operator waits", says("pageserver-registration/3", "does not answer"))
	if all := w.requests("PUT", "/node/3/delete"); len(all) > 0 {
		t.Errorf("a pageserver that has just died is removed: %v", all)
	}
	w.until("one pageserver is left", w.servers(1))
	back()
	w.ready()
	if all := w.requests("PUT", "/node/3/delete"); len(all) == 0 {
		t.Error("the pageserver was not removed")
	}
}

// servers returns a condition that holds when these are the pageservers, and all of them run.
func (w *world) servers(ids ...int64) func(*api.NeonCluster) bool {
	return func(c *api.NeonCluster) bool {
		var is []int64
		for _, m := range c.Status.Pageservers {
			is = append(is, m.ID)
		}
		for id := int64(1); id < 5; id++ {
			_, err := w.sets.Get(w.Context(), pageserverName("main", id))
			if slices.Contains(ids, id) == apierrors.IsNotFound(err) {
				return false
			}
		}
		return slices.Equal(is, ids)
	}
}

// TestDatabaseAway takes the storage controller's database away, of which the storage controller
// says nothing, and gives it back. Then the cluster is deleted in the foreground, after its project.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.rests()
	w.lab.Postgres.Stop(t)
	if err := w.controller().Ready(t.Context()); err != nil {
		t.Errorf("the storage controller says %v", err)
	}
	w.until("the operator says so", func(c *api.NeonCluster) bool {
		return !isReady(c) && says("database-answers", "connect to the database")(c)
	})
	w.lab.Postgres.Start(t)
	w.ready()

	w.Log("the cluster waits for its project")
	p := new(api.NeonProject)
	p.Name, p.Spec.Cluster, p.Spec.PostgresVersion, p.Spec.Shards = "app", "main", 17, 1
	p.Spec.HistoryRetention, p.Spec.DeletionPolicy = "7 days", api.Delete
	_, err := w.projects.Create(t.Context(), p)
	w.ok(err)
	w.until("the operator knows the project", func(*api.NeonCluster) bool {
		for p, err := range w.operator.Projects.Cached().All(t.Context()) {
			if err == nil && p.Name == "app" {
				return true
			}
		}
		return false
	})
	how := metav1.DeletePropagationForeground
	w.ok(w.clusters.Delete(t.Context(), "main", metav1.DeleteOptions{PropagationPolicy: &how}))
	w.until("the cluster says so", func(c *api.NeonCluster) bool {
		if c == nil {
			t.Fatal("the cluster is gone while a project needs it")
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == "Ready" && condition.Reason == "InUse" && strings.Contains(condition.Message, "app") {
				return true
			}
		}
		return false
	})
	w.until("the garbage collector is done with the cluster", func(c *api.NeonCluster) bool {
		return c == nil || !slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents)
	})
	time.Sleep(time.Second) // nothing may happen
	for id := int64(1); id <= 3; id++ {
		if s, err := w.sets.Get(t.Context(), safekeeperName("main", id)); err != nil || s.DeletionTimestamp != nil {
			t.Errorf("safekeeper %d is deleted while a project needs it: %v", id, err)
		}
	}
	w.ok(w.projects.Delete(t.Context(), "app"))
	w.until("the cluster is gone", func(c *api.NeonCluster) bool { return c == nil })
}
