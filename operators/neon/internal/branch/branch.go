// Package branch makes timelines of the storage from NeonBranches.
//
// branch.go has the plan of a branch, and its end. timeline.go observes, changes and deletes
// timelines, create.go makes them, and head.go finds the end of a parent's history. identity.go
// gives a branch the timeline of one of its name. catalog.go reads all timelines of a tenant at
// once, and users.go tells who needs a timeline.
package branch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/inuse"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/operators/neon/internal/project"
	"github.com/pintle-go/pintle/operators/neon/internal/settled"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// Operator reconciles NeonBranches.
type Operator struct {
	Branches  kube.Resource[api.NeonBranch]
	Projects  kube.Resource[api.NeonProject]
	Endpoints kube.Resource[api.NeonEndpoint]
	Clients   *cluster.Clients
	Monitor   *plan.Monitor

	byParent     *kube.Index[api.NeonBranch, kube.Key]
	byTimeline   *kube.Index[api.NeonBranch, kube.Key]
	byRecord     *kube.Index[api.NeonBranch, kube.Key] // of former timelines too
	endpoints    *kube.Index[api.NeonEndpoint, kube.Key]
	computes     *kube.Index[api.NeonEndpoint, kube.Key]
	attached     *kube.Index[api.NeonBranch, kube.Key] // to be detached, by the parent's timeline
	timelineKind *plan.Things[timeline]

	catalogs catalogs
	located  located
	live     liveLists
}

// Start completes the operator. It is called once, before the controller is made.
func (op *Operator) Start() {
	op.byParent = kube.IndexBy(op.Branches, parent)
	op.byTimeline = kube.IndexBy(op.Branches, func(b *api.NeonBranch) []kube.Key {
		return []kube.Key{{Namespace: b.Namespace, Name: current(b)}}
	})
	op.byRecord = kube.IndexBy(op.Branches, func(b *api.NeonBranch) (keys []kube.Key) {
		for _, id := range op.recorded(b) {
			keys = append(keys, kube.Key{Namespace: b.Namespace, Name: id})
		}
		return keys
	})
	op.endpoints = kube.IndexBy(op.Endpoints, served)
	op.computes = kube.IndexBy(op.Endpoints, func(e *api.NeonEndpoint) []kube.Key {
		return []kube.Key{{Namespace: e.Namespace, Name: e.Status.Timeline}}
	})
	op.attached = kube.IndexBy(op.Branches, func(b *api.NeonBranch) []kube.Key {
		if !b.Spec.Detached || b.Status.Parent == "" {
			return nil
		}
		return []kube.Key{{Namespace: b.Namespace, Name: b.Status.Parent}}
	})
	op.timelineKind = op.timelines()
}

// concurrency lets branches make full use of the requests that the storage controller takes: it
// needs more than a second for a deletion.
const concurrency = 24

// parent returns the branch that a branch was made of, if there is one.
func parent(b *api.NeonBranch) []kube.Key {
	if b.Spec.From == nil {
		return nil
	}
	return []kube.Key{{Namespace: b.Namespace, Name: b.Spec.From.Branch}}
}

// projectOf returns the project of a branch.
func projectOf(b *api.NeonBranch) []kube.Key {
	return []kube.Key{{Namespace: b.Namespace, Name: b.Spec.Project}}
}

// served returns the branch that an endpoint serves.
func served(e *api.NeonEndpoint) []kube.Key {
	return []kube.Key{{Namespace: e.Namespace, Name: e.Spec.Branch}}
}

// Controller returns the controller of NeonBranches.
func (op *Operator) Controller() controller.Controller[api.NeonBranch] {
	return controller.Controller[api.NeonBranch]{
		For: op.Branches, Reconcile: op.reconcile, Cleanup: op.cleanup,
		Concurrency: concurrency,
		Watches: []controller.Source{
			controller.Referenced(op.Projects, projectOf),
			controller.Referenced(op.Branches, parent),
			controller.Mapped(op.Branches, func(_ context.Context, b *api.NeonBranch) []kube.Key { return parent(b) }),
			controller.Mapped(op.Branches, op.heldBy),
			controller.Mapped(op.Endpoints, op.usedBy),
		},
	}
}

// heldBy returns the branches whose detachment may wait for a branch: its siblings, and those that are
// its children in the storage.
func (op *Operator) heldBy(ctx context.Context, b *api.NeonBranch) (keys []kube.Key) {
	for _, id := range []string{b.Status.TimelineID, b.Status.Parent} {
		for other, err := range op.attached.Get(ctx, kube.Key{Namespace: b.Namespace, Name: id}) {
			if err != nil {
				return keys // the index's error ends the reconcile as well
			}
			if other.Name != b.Name {
				keys = append(keys, kube.KeyOf(other))
			}
		}
	}
	return keys
}

// usedBy returns the branches that an endpoint uses: that of its spec, and that whose timeline its
// compute runs on.
func (op *Operator) usedBy(ctx context.Context, e *api.NeonEndpoint) []kube.Key {
	keys := served(e)
	for b, err := range op.byRecord.Get(ctx, kube.Key{Namespace: e.Namespace, Name: e.Status.Timeline}) {
		if err != nil {
			return keys // the index's error ends the reconcile as well
		}
		keys = append(keys, kube.KeyOf(b))
	}
	return keys
}

func (op *Operator) reconcile(ctx context.Context, b *api.NeonBranch) (controller.Action, error) {
	if left := lifetime(b, time.Now()); left != nil && *left <= 0 {
		return controller.Done, op.Branches.In(b.Namespace).Delete(ctx, b.Name)
	}
	known, err := op.identify(ctx, b)
	if err != nil {
		return controller.Done, err
	}
	action, err := op.children(ctx, b, known).Run(ctx)
	if left := lifetime(b, time.Now()); left != nil {
		action = controller.Sooner(action, controller.After(*left))
	}
	return action, err
}

// ever is a lifetime in seconds that counts as for ever. A time.Duration ends after 292 years.
const ever = 100 * 365 * 24 * 60 * 60

// lifetime returns the time that a branch has left, nil for ever. A deletion cannot be taken
// back, so a branch that is protected does not end.
func lifetime(b *api.NeonBranch, now time.Time) *time.Duration {
	if b.Spec.TTLSeconds == 0 || b.Spec.TTLSeconds >= ever || b.Spec.Protected {
		return nil
	}
	left := b.CreationTimestamp.Add(time.Duration(b.Spec.TTLSeconds) * time.Second).Sub(now)
	return &left
}

// cleanup deletes the timeline. The storage controller would destroy a timeline that has
// children, and computes on it would hang: the branch waits for both.
func (op *Operator) cleanup(ctx context.Context, b *api.NeonBranch) (controller.Action, error) {
	if b.Spec.Protected {
		return inuse.Refuse(ctx, op.Branches, b, &b.Status.Conditions, "Protected",
			"the branch is protected: set spec.protected to false to delete it")
	}
	by, err := op.users(ctx, b)
	if err != nil {
		return controller.Done, err
	}
	if len(by.names) > 0 {
		take(b) // its computes go on, and must hear of moves
		action, err := inuse.Hold(ctx, op.Branches, b, &b.Status.Conditions, by.kind, by.names)
		if by.unseen {
			action = controller.After(calm) // no watch tells when they go
		}
		return action, err
	}
	had := made(b) || op.owns(b)
	all := op.children(ctx, b, true)
	orphans, err := all.Orphans(ctx)
	if err != nil {
		return controller.Done, err
	}
	action, err := all.Delete(ctx)
	if err == nil && action == controller.Done {
		op.located.forget(b.Status.TimelineID)
		if had && !orphans && b.Spec.DeletionPolicy == api.Delete {
			err = op.forget(ctx, b)
		}
	}
	return action, err
}

// children describes the timelines of a branch: the current one, the one that a reset makes,
// and former ones on which computes still run. known says that its id is the one that it stays with.
func (op *Operator) children(ctx context.Context, b *api.NeonBranch, known bool) *plan.Plan {
	if b.Status.TimelineID == "" {
		b.Status.Reset = b.Spec.Reset // the first timeline is made for it
	}
	b.Status.TimelineID = current(b)
	op.located.recall(b)
	target := timelineID(b)
	all := plan.New(op.Branches, b, &b.Status.Status)
	all.Marks, all.Monitor = true, op.Monitor // steps alone do not tell that they are orphaned
	owner := plan.Lookup(all, "project", op.Projects, kube.Key{Name: b.Spec.Project}).
		ReadyWhen(settled.First(made(b), settled.Project))
	var parent *plan.Node[api.NeonBranch]
	if b.Spec.From != nil && (!made(b) || b.Status.TimelineID != target) {
		parent = plan.Lookup(all, "parent", op.Branches, kube.Key{Name: b.Spec.From.Branch}).ReadyWhen(settled.Branch)
	}
	step := func(name, id string, made bool) *plan.Node[timeline] {
		var held string
		n := plan.Step(all, name, op.timelineKind, func(in plan.Inputs) (*timeline, error) {
			if !known && !made {
				return nil, errNoKeys
			}
			want := wanted(b, owner.From(in), id)
			want.made = made
			if !made && parent != nil {
				if err := want.branchOf(parent.From(in)); err != nil {
					return nil, err
				}
			}
			var err error
			if held, err = op.held(ctx, b, want); err != nil {
				return nil, err
			}
			want.held = held != ""
			return want, op.admit(ctx, b, want)
		}).Needs(owner).ReadyWhen(func(t *timeline) ready.State {
			if !made && !t.confirmed && !t.archived {
				return ready.State{Phase: ready.Waiting, Message: "the storage has not said that it is made"}
			}
			return t.judge(b.Spec.Archived, held)
		}).
			UntilGone().Within(2 * time.Minute)
		if !made && parent != nil {
			n.Needs(parent)
		}
		if b.Spec.DeletionPolicy == api.Retain {
			n.Retain()
		}
		return n
	}
	data := step("timeline", b.Status.TimelineID, made(b))
	var fresh *plan.Node[timeline]
	if b.Status.TimelineID != target {
		fresh = step("reset", target, false)
	}
	for _, id := range op.former(ctx, b, target) {
		step("former/"+id, id, true)
	}
	all.Report = func() {
		b.Status.ObservedGeneration = b.Generation
		if p := owner.Last(); p != nil {
			b.Status.TenantID = p.Status.TenantID
		}
		t := data.Last()
		if fresh != nil {
			if f := fresh.Last(); f != nil && f.confirmed && f.judge(false, "").Phase == ready.Ready {
				t = f
				b.Status.TimelineID, b.Status.Reset = target, b.Spec.Reset
			}
		}
		if t != nil && (t.confirmed || t.archived || made(b)) {
			t.report(b)
		}
	}
	return all
}

// former returns the former timelines of a branch on which computes may still run. The plan
// deletes the others.
func (op *Operator) former(ctx context.Context, b *api.NeonBranch, target string) (ids []string) {
	for _, id := range op.recorded(b) {
		if id != b.Status.TimelineID && id != target && op.runsOn(ctx, b, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// recorded returns the ids of the timeline that a branch has, and of all others that it may still have.
func (op *Operator) recorded(b *api.NeonBranch) []string {
	ids := []string{current(b)}
	for _, n := range b.Status.Nodes {
		id := n.ObjectName[strings.LastIndexByte(n.ObjectName, '/')+1:]
		if n.Kind == op.timelineKind.Kind && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// current returns the id of the timeline that a branch has, or will have at first.
func current(b *api.NeonBranch) string {
	if b.Status.TimelineID != "" {
		return b.Status.TimelineID
	}
	return timelineID(b)
}

// timelineID returns the id of the timeline that a branch should have: that of the spec, or the
// branch's own uid, which no other branch ever has. Each reset has an id of its own, which
// follows from the timeline before it, so that no reset is done twice. No id comes again: safekeepers
// refuse a timeline that was deleted.
func timelineID(b *api.NeonBranch) string {
	first := firstID(b)
	switch {
	case b.Status.TimelineID == "", b.Status.TimelineID == first:
		return first
	case b.Status.Reset == b.Spec.Reset:
		return b.Status.TimelineID
	}
	return derived(b, b.Spec.Reset+"/"+b.Status.TimelineID)
}

// firstID returns the id of a branch's first timeline.
func firstID(b *api.NeonBranch) string {
	switch {
	case b.Spec.Reset != "":
		return derived(b, b.Spec.Reset)
	case b.Spec.TimelineID != "":
		return b.Spec.TimelineID
	}
	return project.ID(b.UID)
}

// derived returns an id that no other branch has.
func derived(b *api.NeonBranch, text string) string {
	sum := sha256.Sum256([]byte(string(b.UID) + "/" + text))
	return hex.EncodeToString(sum[:16])
}

// made reports that the timeline of a branch was there: no timeline is without safekeepers.
func made(b *api.NeonBranch) bool { return len(b.Status.Safekeepers) > 0 }

// report shows in a branch's status the storage's view of the timeline.
func (t *timeline) report(b *api.NeonBranch) {
	s := &b.Status
	s.StartLSN = ""
	switch {
	case t.is.Ancestor != nil:
		s.Parent = *t.is.Ancestor
	case t.independent || !b.Spec.Detached || t.archived:
		s.Parent = ""
	}
	if t.is.AncestorLSN != nil && *t.is.AncestorLSN != 0 {
		s.StartLSN = api.LSN(t.is.AncestorLSN.String())
	}
	if t.is.LogicalSize != nil {
		s.LogicalSize = *t.is.LogicalSize
	}
	if len(t.safekeepers) > 0 {
		s.Safekeepers, s.SafekeepersGeneration = slices.Sorted(slices.Values(t.safekeepers)), t.generation
	}
	take(b)
}

// take shows the safekeepers of which a hook was told, if these are as late as those that are
// known: while they change, the storage controller names those of both sets to the hook.
func take(b *api.NeonBranch) {
	s := &b.Status
	told, ok := place.ToldSafekeepers(b)
	if ok && (told.Timeline == "" || told.Timeline == s.TimelineID) && told.Generation >= s.SafekeepersGeneration {
		s.Safekeepers, s.SafekeepersGeneration = told.IDs, told.Generation
	}
}
