package branch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// trunk makes a project with a root, and returns the root.
func (w *world) trunk() *api.NeonBranch {
	w.Helper()
	w.project("app", nil)
	w.projectReady("app")
	w.branch("trunk", "", nil)
	return w.branchReady("trunk")
}

// TestBranchPoints asks for branches outside the history of the parent. Each is one clear
// condition, nothing is made, and the object can be deleted.
func TestBranchPoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	is := w.timelines(trunk.Status.TenantID)[trunk.Status.TimelineID]
	at := func(lsn upstream.LSN) func(*api.BranchPoint) {
		return func(p *api.BranchPoint) { p.LSN = api.LSN(lsn.String()) }
	}
	when := func(offset time.Duration) func(*api.BranchPoint) {
		return func(p *api.BranchPoint) { p.Time = &metav1.Time{Time: time.Now().Add(offset)} }
	}
	asked := w.count(http.MethodPost, "/timeline")
	for name, c := range map[string]struct {
		point func(*api.BranchPoint)
		says  string
	}{
		"beyond":   {at(is.LastRecordLSN + 8), "the history of NeonBranch trunk ends at " + is.LastRecordLSN.String()},
		"before":   {at(is.MinReadableLSN - 8), "the history of NeonBranch trunk begins at " + is.MinReadableLSN.String()},
		"tomorrow": {when(24 * time.Hour), "is in the future"},
		"no-data":  {when(-time.Minute), "NeonBranch trunk has no commit yet"},
	} {
		w.branch(name, "trunk", func(b *api.NeonBranch) { c.point(b.Spec.From) })
		w.says(name, c.says)
		gone(w, w.branches, name)
	}
	if n := w.count(http.MethodPost, "/timeline"); n != asked {
		t.Errorf("%d timelines were asked for, want none", n-asked)
	}
	w.branch("exact", "trunk", func(b *api.NeonBranch) { at(is.LastRecordLSN)(b.Spec.From) })
	if s := w.branchReady("exact").Status; s.StartLSN != api.LSN(is.LastRecordLSN.String()) || s.Parent != is.ID {
		t.Errorf("the branch is %+v", s)
	}
	w.branch("of-none", "nobody", nil)
	w.says("of-none", "parent: it does not exist")
	gone(w, w.branches, "of-none")
	w.project("other", nil)
	w.projectReady("other")
	w.branch("stranger", "trunk", func(b *api.NeonBranch) { b.Spec.Project = "other" })
	w.says("stranger", "the parent is a branch of another project")
}

// TestConflicts lets the storage controller answer 409 for all that it answers 409 for, and lose
// its answers.
func TestConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var answer func(r *http.Request) *http.Response
	w.outside = func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/timeline") && answer != nil {
			if a := answer(r); a != nil {
				return a, nil
			}
		}
		return send.RoundTrip(r)
	}
	answers := func(f func(r *http.Request) *http.Response) {
		mu.Lock()
		defer mu.Unlock()
		answer = f
	}
	w.start()
	trunk := w.trunk()
	conflict := func(inside string) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response {
			return refusal(r, http.StatusConflict, "Conflict: 1 (127.0.0.1) "+inside)
		}
	}
	for name, c := range map[string]struct {
		answer func(*http.Request) *http.Response
		says   string
		later  bool // it is made when the answers end
	}{
		"collected": {conflict("406 Not Acceptable: 406 Not Acceptable less than latest GC cutoff"), "the parent has no such history", false},
		"archived":  {conflict("406 Not Acceptable: 406 Not Acceptable ancestor timeline is archived"), "set its spec.archived to false", false},
		"under-way": {conflict("429 Too Many Requests: 429 creation is under way"), "the storage is still making it", true},
		"different": {conflict("409 Conflict: 409 Conflict timeline already exists with different parameters"), "409", true},
		"broken":    {conflict("500 Internal Server Error: 500 Internal Server Error no space left"), "no space left", true},
	} {
		answers(c.answer)
		w.branch(name, "trunk", nil)
		w.says(name, c.says)
		answers(nil)
		if c.later {
			w.branchReady(name)
		} else {
			gone(w, w.branches, name)
		}
	}

	t.Log("a timeline of its id exists, of another parent")
	w.branch("side", "", nil)
	side := w.branchReady("side")
	answers(func(r *http.Request) *http.Response { return refusal(r, http.StatusServiceUnavailable, "later") })
	b := w.branch("foreign", "trunk", nil)
	id := strings.ReplaceAll(string(b.UID), "-", "")
	w.says("foreign", "later")
	answers(func(r *http.Request) *http.Response {
		// Somebody else makes it just before the request arrives.
		answer = nil
		_, err := w.storage.CreateTimeline(context.Background(), trunk.Status.TenantID,
			upstream.NewTimeline{ID: id, Ancestor: side.Status.TimelineID})
		if err != nil {
			return refusal(r, http.StatusInternalServerError, err.Error())
		}
		return nil
	})
	w.says("foreign", "timeline "+id+" is a branch of timeline "+side.Status.TimelineID)

	t.Log("the parent is not in the storage")
	w.branch("empty", "", nil)
	empty := w.branchReady("empty")
	w.ok(w.storage.DeleteTimeline(w.soon(), trunk.Status.TenantID, empty.Status.TimelineID))
	w.branch("orphan", "empty", nil)
	w.says("orphan", "timeline "+empty.Status.TimelineID+" of NeonBranch empty is not in the storage")
}

func refusal(r *http.Request, status int, message string) *http.Response {
	text := strings.NewReader(`{"msg":` + strconv.Quote(message) + `}`)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(text), Request: r}
}

// TestUnfinished has a timeline that the storage controller could not put on its safekeepers. The
// request is repeated.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	end := w.timelines(trunk.Status.TenantID)[trunk.Status.TimelineID].LastRecordLSN
	w.lab.Stop(t, "safekeeper-1")
	w.lab.Stop(t, "safekeeper-2")
	// Without a position, the operator would ask the safekeepers for it first.
	w.branch("twig", "trunk", func(b *api.NeonBranch) { b.Spec.From.LSN = api.LSN(end.String()) })
	w.says("twig", "Error")
	w.lab.StartSafekeeper(t, 1)
	w.lab.StartSafekeeper(t, 2)
	w.lab.Controller.Heartbeat(t.Context())
	if s := w.branchReady("twig").Status; len(s.Safekeepers) != 3 || s.SafekeepersGeneration == 0 {
		t.Errorf("the branch is %+v", s)
	}
}

// TestNewChildRace deletes a parent while a branch of it is being made, which the parent's
// controller has not seen yet.
func TestNewChildRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var before func(r *http.Request)
	hold := make(chan struct{})
	w.outside = func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		mu.Lock()
		f := before
		mu.Unlock()
		if f != nil {
			f(r)
		}
		return send.RoundTrip(r)
	}
	w.start()
	trunk := w.trunk()
	tenant, id := trunk.Status.TenantID, trunk.Status.TimelineID

	t.Log("the request for the child waits while the parent's deletion begins")
	asked := make(chan struct{})
	var once sync.Once
	mu.Lock()
	before = func(r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/timeline") {
			once.Do(func() { close(asked) })
			<-hold
		}
	}
	mu.Unlock()
	w.branch("child", "trunk", nil)
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the child is not asked for")
	}
	w.ok(w.branches.Delete(w.soon(), "trunk"))
	w.says("trunk", "NeonBranches need it: child")
	close(hold)
	w.branchReady("child")
	if n := w.count(http.MethodDelete, id); n != 0 {
		t.Errorf("the parent was deleted %d times", n)
	}

	t.Log("a child that is made after the deletion has begun is refused")
	w.branch("late", "trunk", nil)
	w.says("late", "parent: is being deleted")
	gone(w, w.branches, "late")
	w.ok(w.branches.Delete(w.soon(), "child"))
	w.ok(w.branches.UntilGone(w.soon(), "child"))
	w.ok(w.branches.UntilGone(w.soon(), "trunk"))
	if all := w.timelines(tenant); len(all) != 0 {
		t.Errorf("the timelines are %v", all)
	}
}

// TestPromoted deletes branches after the promotion of one has moved others: the storage decides
// who is whose child.
func TestPromoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	w.branch("sibling", "trunk", nil)
	sibling := w.branchReady("sibling")
	w.branch("heir", "trunk", nil)
	heir := w.branchReady("heir")
	w.changeBranch("heir", func(b *api.NeonBranch) { b.Spec.Detached = true })
	w.independent("heir")
	if is := w.timelines(trunk.Status.TenantID)[sibling.Status.TimelineID]; *is.Ancestor != heir.Status.TimelineID {
		t.Fatalf("the sibling's ancestor is %s", *is.Ancestor)
	}
	w.ok(w.branches.Delete(w.soon(), "heir"))
	w.says("heir", "need it: sibling")
	if n := w.count(http.MethodDelete, heir.Status.TimelineID); n != 0 {
		t.Errorf("the heir was deleted %d times", n)
	}
	gone(w, w.branches, "trunk") // it has no children any more
	gone(w, w.branches, "sibling")
	w.ok(w.branches.UntilGone(w.soon(), "heir"))
	if all := w.timelines(trunk.Status.TenantID); len(all) != 0 {
		t.Errorf("the timelines are %v", all)
	}
}

// TestEnds deletes branches that are protected, whose time is over, whose data stays, and that
// are archived.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()

	w.branch("safe", "trunk", func(b *api.NeonBranch) { b.Spec.Protected, b.Spec.TTLSeconds = true, 1 })
	w.branchReady("safe")
	w.branch("short", "trunk", func(b *api.NeonBranch) { b.Spec.TTLSeconds = 1 })
	w.ok(w.branches.UntilGone(w.soon(), "short"))
	if b, err := w.branches.Get(w.soon(), "safe"); err != nil || b.DeletionTimestamp != nil {
		t.Errorf("the protected branch whose time is over: %v", err)
	}
	w.ok(w.branches.Delete(w.soon(), "safe"))
	w.says("safe", "set spec.protected to false")
	w.changeBranch("safe", func(b *api.NeonBranch) { b.Spec.Protected = false })
	w.ok(w.branches.UntilGone(w.soon(), "safe"))

	kept := w.branch("kept", "trunk", func(b *api.NeonBranch) { b.Spec.DeletionPolicy = api.Retain })
	kept = w.branchReady(kept.Name)
	gone(w, w.branches, "kept")
	if _, ok := w.timelines(trunk.Status.TenantID)[kept.Status.TimelineID]; !ok {
		t.Error("the data that should stay is gone")
	}
	w.ok(w.branches.Delete(w.soon(), "trunk"))
	w.says("trunk", "timeline "+kept.Status.TimelineID)
	w.ok(w.storage.DeleteTimeline(w.soon(), trunk.Status.TenantID, kept.Status.TimelineID))
	w.ok(w.branches.UntilGone(w.soon(), "trunk"))
	gone(w, w.projects, "app")
	if _, err := w.storage.DescribeTenant(w.soon(), trunk.Status.TenantID); !upstream.IsNotFound(err) {
		t.Errorf("the tenant: %v", err)
	}
}

// TestArchive archives branches in the wrong order, and one with an endpoint.
func TestArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	trunk := w.trunk()
	w.branch("twig", "trunk", nil)
	twig := w.branchReady("twig")
	archived := func(id string) bool {
		is := w.timelines(trunk.Status.TenantID)[id]
		return is.Archived != nil && *is.Archived
	}
	e := new(api.NeonEndpoint)
	e.Name, e.Spec.Branch, e.Spec.Type = "shop", "twig", api.ReadWrite
	_, err := w.endpoints.Create(w.soon(), e)
	w.ok(err)

	archive := func(on bool) func(*api.NeonBranch) { return func(b *api.NeonBranch) { b.Spec.Archived = on } }
	w.changeBranch("trunk", archive(true))
	w.says("trunk", "branches of it are not archived: twig")
	w.changeBranch("twig", archive(true))
	w.says("twig", "no NeonEndpoint uses it: suspend or delete shop")
	if archived(twig.Status.TimelineID) || w.count(http.MethodPut, "archival_config") != 0 {
		t.Error("a branch with an endpoint was archived")
	}
	w.ok(w.endpoints.Delete(w.soon(), "shop"))
	w.branchReady("twig")
	w.branchReady("trunk")
	if !archived(twig.Status.TimelineID) || !archived(trunk.Status.TimelineID) {
		t.Error("they are not archived")
	}
	w.branch("new", "trunk", nil)
	w.says("new", "NeonBranch trunk is archived: set its spec.archived to false")
	gone(w, w.branches, "new")
	w.changeBranch("twig", archive(false))
	w.says("twig", "its parent, trunk, is archived")
	w.changeBranch("trunk", archive(false))
	w.branchReady("trunk")
	w.branchReady("twig")
	if archived(twig.Status.TimelineID) || archived(trunk.Status.TimelineID) {
		t.Error("they are still archived")
	}
	w.changeBranch("twig", archive(true))
	w.branchReady("twig")
	gone(w, w.branches, "twig") // an archived branch can be deleted
}

// TestHalfMade ends the operator while the storage controller puts a timeline on safekeepers. The
// controller then tells of safekeepers that do not have it. The operator asks for the timeline again.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.project("app", nil)
	tenant := w.projectReady("app").Status.TenantID
	for _, k := range w.lab.Keepers {
		k.Faults.Add(wire.Fault{Method: http.MethodPost, Path: "/v1/tenant/timeline", Hang: true})
	}
	w.branch("trunk", "", nil)
	kubetest.Eventually(t, "a safekeeper is asked for the timeline", func() error {
		for _, k := range w.lab.Keepers {
			for _, r := range k.Faults.Requests() {
				if r.Method == http.MethodPost && r.Path == "/v1/tenant/timeline" {
					return nil
				}
			}
		}
		return errors.New("none is")
	})
	w.kill()
	for _, k := range w.lab.Keepers {
		k.Faults.Clear()
	}
	w.start()
	is := w.branchReady("trunk").Status
	at, err := w.storage.Locate(w.soon(), tenant, is.TimelineID)
	w.ok(err)
	if len(at.Set) != 3 || len(is.Safekeepers) != 3 {
		t.Fatalf("the safekeepers are %v, and in the status %v", at.Set, is.Safekeepers)
	}
	for id := range w.lab.Keepers {
		keeper := upstream.NewSafekeeper(upstream.Config{
			URL: w.lab.URL(t, fmt.Sprintf("safekeeper-%d", id)), HTTP: w.lab.HTTP, Sign: w.lab.Key.Sign,
		})
		if _, err := keeper.Timeline(w.soon(), tenant, is.TimelineID); err != nil {
			t.Errorf("the timeline on safekeeper %d: %v", id, err)
		}
	}
}
