package branch_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

// computeOn plays the controller of an endpoint: its compute runs on a timeline, or on none.
func (w *world) computeOn(endpoint, timeline string) {
	w.Helper()
	e, err := w.endpoints.Get(w.soon(), endpoint)
	w.ok(err)
	e.Status.Timeline, e.Status.Phase = timeline, "Running"
	if timeline == "" {
		e.Status.Phase = "Suspended"
	}
	w.ok(w.endpoints.Status().Ensure(w.soon(), e))
}

func (w *world) endpoint(name, branch string) {
	w.Helper()
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = name, branch, api.ReadWrite
	_, err := w.endpoints.Create(w.soon(), e)
	w.ok(err)
}

// TestReset makes a branch a copy of its parent again, and again as of a position. The former
// timeline stays until no compute runs on it.
func TestReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	start := w.timelines(trunk.Status.TenantID)[trunk.Status.TimelineID].LastRecordLSN
	w.branch("twig", "trunk", nil)
	first := w.branchReady("twig").Status.TimelineID
	w.endpoint("shop", "twig")
	w.computeOn("shop", first)

	t.Log("a point outside the history changes nothing")
	w.changeBranch("twig", func(b *api.NeonBranch) {
		b.Spec.Reset, b.Spec.From.LSN = "wrong", api.LSN((start + 8).String())
	})
	w.says("twig", "the history of NeonBranch trunk ends at")
	if b, err := w.branches.Get(w.soon(), "twig"); err != nil || b.Status.TimelineID != first {
		t.Errorf("the branch is %+v, %v", b.Status, err)
	}

	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Reset, b.Spec.From.LSN = "monday", "" })
	changed := func(from string) string {
		t.Helper()
		b := until(w, w.branches, "twig", "is reset", branchStatus, func(b *api.NeonBranch) bool {
			return b.Status.TimelineID != from && len(b.Status.Safekeepers) == 3
		})
		return b.Status.TimelineID
	}
	second := changed(first)
	if is, ok := w.timelines(trunk.Status.TenantID)[second]; !ok || *is.Ancestor != trunk.Status.TimelineID {
		t.Errorf("the copy is %+v", is)
	}

	t.Log("the operator is killed, and the former timeline waits for the compute")
	w.kill()
	w.start()
	time.Sleep(5 * time.Second)
	if _, ok := w.timelines(trunk.Status.TenantID)[first]; !ok || w.count(http.MethodDelete, first) != 0 {
		t.Error("the former timeline was deleted under a compute")
	}
	w.computeOn("shop", second)
	b := w.branchReady("twig")
	if b.Status.TimelineID != second {
		t.Errorf("the timeline is %s", b.Status.TimelineID)
	}
	until(w, w.branches, "twig", "has one timeline", branchStatus, func(b *api.NeonBranch) bool {
		for _, n := range b.Status.Nodes {
			if strings.HasSuffix(n.ObjectName, first) {
				return false
			}
		}
		return isReady(b, b.Status.Conditions)
	})
	if all := w.timelines(trunk.Status.TenantID); len(all) != 2 {
		t.Errorf("%d timelines, want those of trunk and twig", len(all))
	}

	t.Log("a position, while no compute runs")
	w.computeOn("shop", "")
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Reset, b.Spec.From.LSN = "tuesday", api.LSN(start.String()) })
	changed(second)
	if s := w.branchReady("twig").Status; s.StartLSN != api.LSN(start.String()) {
		t.Errorf("the branch is %+v", s)
	}

	t.Log("the API server refuses a change of the parent's position alone, and the reset of a root")
	for name, change := range map[string]func(*api.NeonBranch){
		"twig":  func(b *api.NeonBranch) { b.Spec.From.LSN = "" },
		"trunk": func(b *api.NeonBranch) { b.Spec.Reset = "x" },
	} {
		if _, err := w.branches.Modify(w.soon(), name, func(b *api.NeonBranch) error { change(b); return nil }); err == nil {
			t.Errorf("the change of %s is taken", name)
		}
	}
	w.ok(w.endpoints.Delete(w.soon(), "shop"))
	gone(w, w.branches, "twig")
	if all := w.timelines(trunk.Status.TenantID); len(all) != 1 {
		t.Errorf("%d timelines are left", len(all))
	}
}

// TestMoved deletes the branch of an endpoint that was moved to a branch in the past. Its compute
// ends before its timeline.
func TestMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	w.branch("damaged", "trunk", nil)
	damaged := w.branchReady("damaged").Status.TimelineID
	w.endpoint("shop", "damaged")
	w.computeOn("shop", damaged)
	w.branch("restored", "trunk", nil)
	restored := w.branchReady("restored").Status.TimelineID
	_, err := w.endpoints.Modify(w.soon(), "shop", func(e *api.NeonEndpoint) error {
		e.Spec.Branch = "restored"
		return nil
	})
	w.ok(err)
	w.ok(w.branches.Delete(w.soon(), "damaged"))
	w.says("damaged", "NeonEndpoints need it: shop")
	if w.count(http.MethodDelete, damaged) != 0 {
		t.Error("the timeline was deleted under a compute")
	}
	w.computeOn("shop", restored)
	w.ok(w.branches.UntilGone(w.soon(), "damaged"))
	if all := w.timelines(trunk.Status.TenantID); len(all) != 2 {
		t.Errorf("%d timelines", len(all))
	}
}

// TestMovedFromFormer moves an endpoint to another branch, while its compute runs on a former timeline of its
// branch. That is deleted when the compute has left it.
func TestMovedFromFormer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	w.branch("twig", "trunk", nil)
	first := w.branchReady("twig").Status.TimelineID
	w.endpoint("shop", "twig")
	w.computeOn("shop", first)
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Reset = "monday" })
	until(w, w.branches, "twig", "is reset", branchStatus, func(b *api.NeonBranch) bool {
		return b.Status.TimelineID != first && isReady(b, b.Status.Conditions)
	})
	_, err := w.endpoints.Modify(w.soon(), "shop", func(e *api.NeonEndpoint) error {
		e.Spec.Branch = "trunk"
		return nil
	})
	w.ok(err)
	time.Sleep(5 * time.Second) // the last reconcile ends
	if _, ok := w.timelines(trunk.Status.TenantID)[first]; !ok {
		t.Fatal("the former timeline was deleted under a compute")
	}
	w.computeOn("shop", trunk.Status.TimelineID)
	until(w, w.branches, "twig", "has one timeline", branchStatus, func(b *api.NeonBranch) bool {
		return !slices.ContainsFunc(b.Status.Nodes, func(n plan.NodeStatus) bool {
			return strings.HasSuffix(n.ObjectName, first)
		})
	})
	if all := w.timelines(trunk.Status.TenantID); len(all) != 2 {
		t.Errorf("%d timelines, want those of trunk and twig", len(all))
	}
}

// TestTenant changes the shards and the settings of a tenant. Settings that leave the spec are
// unset; those of others stay.
func TestTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	tenant := trunk.Status.TenantID
	w.ok(w.storage.PatchTenantConfig(w.soon(), tenant, upstream.TenantConfig{"gc_period": "1 h"}))
	change := func(f func(*api.NeonProject)) {
		t.Helper()
		_, err := w.projects.Modify(w.soon(), "app", func(p *api.NeonProject) error { f(p); return nil })
		w.ok(err)
		w.projectReady("app")
	}
	check := func(want upstream.TenantConfig) {
		t.Helper()
		got, err := w.storage.TenantConfig(w.soon(), tenant)
		w.ok(err)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %v, want %v", name, got[name], value)
			}
		}
	}
	change(func(p *api.NeonProject) {
		p.Spec.HistoryRetention = "1 day"
		p.Spec.TenantConfig = map[string]intstr.IntOrString{"gc_horizon": intstr.FromInt32(5)}
	})
	check(upstream.TenantConfig{"pitr_interval": "1day", "gc_horizon": 5.0, "gc_period": "1h"})
	w.kill()
	w.start()
	change(func(p *api.NeonProject) { p.Spec.TenantConfig = nil })
	check(upstream.TenantConfig{"pitr_interval": "1day", "gc_horizon": nil, "gc_period": "1h"})

	_, err := w.projects.Modify(w.soon(), "app", func(p *api.NeonProject) error {
		p.Spec.TenantConfig = map[string]intstr.IntOrString{"gc_horizons": intstr.FromInt32(5)}
		return nil
	})
	w.ok(err)
	w.projectSays("app", "unknown field `gc_horizons`")
	change(func(p *api.NeonProject) { p.Spec.TenantConfig = nil })

	change(func(p *api.NeonProject) { p.Spec.Shards = 2 })
	p := w.projectReady("app")
	if len(p.Status.Shards) != 2 || p.Status.StripeSize == 0 {
		t.Errorf("the project is %+v", p.Status)
	}
	if _, err := w.projects.Modify(w.soon(), "app", func(p *api.NeonProject) error { p.Spec.Shards = 1; return nil }); err == nil {
		t.Error("fewer shards are taken")
	}
	w.branch("later", "trunk", nil)
	w.branchReady("later")
}

// TestOffloaded has an archived branch that no pageserver keeps at hand. It stays as it is, counts
// as a child, and comes back.
func TestOffloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	w.branch("twig", "trunk", func(b *api.NeonBranch) { b.Spec.Archived = true })
	twig := w.branchReady("twig")
	id := twig.Status.TimelineID
	until(w, w.branches, "twig", "is archived", branchStatus, func(*api.NeonBranch) bool {
		is := w.timelines(trunk.Status.TenantID)[id]
		return is.Archived != nil && *is.Archived
	})
	w.kill()
	w.lab.Pageservers[1].Offload()
	if _, err := w.storage.Timeline(w.soon(), trunk.Status.TenantID, id); !upstream.IsNotFound(err) {
		t.Fatalf("an offloaded timeline: %v", err)
	}
	made := w.count(http.MethodPost, "/timeline")
	w.start()
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Labels = map[string]string{"looked": "at"} })
	time.Sleep(3 * time.Second)
	w.branchReady("twig")
	w.ok(w.branches.Delete(w.soon(), "trunk"))
	w.says("trunk", "NeonBranches need it: twig")
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Archived = false })
	if s := w.branchReady("twig").Status; s.TimelineID != id || len(s.Safekeepers) != 3 {
		t.Errorf("the branch is %+v", s)
	}
	if n := w.count(http.MethodPost, "/timeline"); n != made {
		t.Errorf("%d timelines were asked for", n-made)
	}
	w.changeBranch("twig", func(b *api.NeonBranch) { b.Spec.Archived = true })
	w.branchReady("twig")
	w.lab.Pageservers[1].Offload()
	gone(w, w.branches, "twig")
	w.ok(w.branches.UntilGone(w.soon(), "trunk"))
	if all := w.timelines(trunk.Status.TenantID); len(all) != 0 {
		t.Errorf("the timelines are %v", all)
	}
}
