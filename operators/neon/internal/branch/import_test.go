package branch_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

const (
	tenant  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"
	nowhere = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	rootID  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1"
	childID = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2"
)

// projectSays waits until the condition Ready of a project is false, and its message has a text.
func (w *world) projectSays(name, text string) {
	w.Helper()
	until(w, w.projects, name, "says "+text, projectStatus, func(p *api.NeonProject) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, "Ready")
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, text)
	})
}

// TestImports takes over a tenant and its timelines, and refuses those that are not there or
// are not what the spec says. Refused objects leave the data of others alone.
func TestImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.soon()
	w.ok(w.storage.CreateTenant(ctx, upstream.NewTenant{ID: tenant, Placement: upstream.Attached(0)}))
	for _, n := range []upstream.NewTimeline{{ID: rootID, PGVersion: 17}, {ID: childID, Ancestor: rootID}} {
		_, err := w.storage.CreateTimeline(ctx, tenant, n)
		w.ok(err)
	}
	w.start()

	w.project("lost", func(p *api.NeonProject) { p.Spec.TenantID = nowhere })
	w.projectSays("lost", "tenant "+nowhere+" is not in the storage of NeonCluster main")
	if _, err := w.storage.DescribeTenant(ctx, nowhere); !upstream.IsNotFound(err) {
		t.Errorf("the tenant that was not there: %v", err)
	}
	gone(w, w.projects, "lost")

	w.project("app", func(p *api.NeonProject) { p.Spec.TenantID = tenant })
	w.projectReady("app")
	w.project("second", func(p *api.NeonProject) { p.Spec.TenantID = tenant })
	w.projectSays("second", "NeonProject app has tenant "+tenant)
	gone(w, w.projects, "second")
	if len(w.timelines(tenant)) != 2 {
		t.Errorf("the timelines are %v", w.timelines(tenant))
	}

	w.branch("trunk", "", func(b *api.NeonBranch) { b.Spec.TimelineID = rootID })
	w.branchReady("trunk")
	for name, c := range map[string]struct{ id, from, says string }{
		"missing":   {nowhere, "", "timeline " + nowhere + " is not in tenant " + tenant},
		"no-root":   {childID, "", "timeline " + childID + " is a branch of timeline " + rootID},
		"no-branch": {rootID, "trunk", "timeline " + rootID},
		"taken":     {rootID, "", "NeonBranch trunk has timeline " + rootID},
	} {
		w.branch(name, c.from, func(b *api.NeonBranch) { b.Spec.TimelineID = c.id })
		w.says(name, c.says)
		gone(w, w.branches, name)
	}
	w.branch("twig", "trunk", func(b *api.NeonBranch) { b.Spec.TimelineID = childID })
	if s := w.branchReady("twig").Status; s.Parent != rootID || len(s.Safekeepers) != 3 {
		t.Errorf("the imported branch is %+v", s)
	}
	if n := w.count("POST", "/timeline"); n != 2 {
		t.Errorf("%d timelines were made, want the 2 of before", n)
	}
	if len(w.timelines(tenant)) != 2 {
		t.Errorf("the timelines are %v", w.timelines(tenant))
	}

	t.Log("an imported timeline that goes is not made again, empty")
	w.kill()
	w.ok(w.storage.DeleteTimeline(ctx, tenant, childID))
	w.start()
	w.says("twig", "timeline "+childID+" is gone")
	if _, ok := w.timelines(tenant)[childID]; ok {
		t.Error("it was made again")
	}
}

// TestImportedVersion imports a root of another PostgreSQL.
func TestImportedVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.storage.CreateTenant(w.soon(), upstream.NewTenant{ID: tenant}))
	_, err := w.storage.CreateTimeline(w.soon(), tenant, upstream.NewTimeline{ID: rootID, PGVersion: 16})
	w.ok(err)
	w.start()
	w.project("app", func(p *api.NeonProject) { p.Spec.TenantID = tenant })
	w.branch("trunk", "", func(b *api.NeonBranch) { b.Spec.TimelineID = rootID })
	w.says("trunk", "timeline "+rootID+" is of PostgreSQL 16, and NeonProject app of 17")
	gone(w, w.branches, "trunk")
	if _, ok := w.timelines(tenant)[rootID]; !ok {
		t.Error("the timeline of another version was deleted with the NeonBranch that was refused")
	}
}
