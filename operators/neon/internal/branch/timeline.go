package branch

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// timeline is a branch's timeline in the storage, as a thing of the plan.
type timeline struct {
	branch   kube.Key
	project  string
	cluster  kube.Key
	tenant   string
	id       string
	version  int              // of PostgreSQL
	from     *api.BranchPoint // of the parent, nil for a root
	ancestor string           // id of the parent's timeline
	keepers  []int64          // safekeepers of that
	imported bool             // it is somebody else's at first
	recalled bool             // it was that of a branch of the same name
	made     bool             // it was there before
	archived bool
	detached bool
	attached bool // the status shows a parent
	held     bool // it is not archived yet, because computes use it

	// confirmed says that its creation was answered. Otherwise the storage controller may have given
	// up in the middle: it then tells of safekeepers that do not have the timeline.
	confirmed bool
	// independent says that all shards have answered that the timeline is detached.
	independent bool
	is          upstream.Timeline
	safekeepers []int64
	generation  int64
}

// wanted returns a timeline that a branch should have.
func wanted(b *api.NeonBranch, p *api.NeonProject, id string) *timeline {
	return &timeline{
		branch: kube.KeyOf(b), project: p.Name, cluster: kube.Key{Namespace: b.Namespace, Name: p.Spec.Cluster},
		tenant: p.Status.TenantID, id: id, version: int(p.Spec.PostgresVersion),
		imported: id == b.Spec.TimelineID || recalled(b, id), recalled: recalled(b, id),
		archived: b.Spec.Archived, detached: b.Spec.Detached,
		attached: id == b.Status.TimelineID && b.Status.Parent != "",
		from:     b.Spec.From,
	}
}

func (t *timeline) name() string { return t.cluster.String() + "/" + t.tenant + "/" + t.id }

// timelines handles the timelines of all clusters.
func (op *Operator) timelines() *plan.Things[timeline] {
	return &plan.Things[timeline]{
		Kind:       "Timeline",
		Target:     &plan.Target{Name: "the storage controller", Concurrency: concurrency, Timeout: 40 * time.Second},
		Name:       func(t *timeline) string { return t.name() },
		Observe:    op.observe,
		Create:     op.create,
		Differs:    differs,
		Update:     op.update,
		Delete:     op.remove,
		Idempotent: true,
		Adopt:      func(plan.Ref, *timeline) bool { return true }, // admit has compared an imported one
		Poll:       5 * time.Minute,                                // hooks tell of the changes that computes must know
	}
}

// timelineOf returns the storage controller of a timeline, and its ids. It returns no storage
// controller if the cluster is gone: then its timelines are too.
func (op *Operator) timelineOf(ctx context.Context, r plan.Ref) (*upstream.Controller, *timeline, error) {
	parts := strings.Split(r.Name, "/")
	if len(parts) != 4 {
		return nil, nil, fmt.Errorf("parse %q: not the name of a timeline", r.Name)
	}
	t := &timeline{cluster: kube.Key{Namespace: parts[0], Name: parts[1]}, tenant: parts[2], id: parts[3]}
	sc, err := op.Clients.Controller(ctx, t.cluster)
	if apierrors.IsNotFound(err) {
		return nil, t, nil
	}
	return sc, t, err
}

func (op *Operator) catalogOf(t *timeline) *catalog {
	return op.catalogs.of(op.Clients, t.cluster, t.tenant)
}

// observe reads a timeline and its safekeepers. The storage controller changes both by
// itself: a migration moves the safekeepers, and a promotion of another branch the ancestor.
func (op *Operator) observe(ctx context.Context, r plan.Ref) (*timeline, error) {
	sc, t, err := op.timelineOf(ctx, r)
	if err != nil || sc == nil {
		return nil, err
	}
	all := op.catalogOf(t)
	is, err := all.one(ctx, t.id, time.Now().Add(-calm))
	if err == nil && (is == nil || is.State != upstream.TimelineActive) {
		is, err = all.one(ctx, t.id, time.Now().Add(-brisk))
	}
	switch {
	case upstream.IsNotFound(err):
		op.catalogs.forget(t.cluster, t.tenant)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list timelines: %w", err)
	case is == nil:
		return nil, nil
	}
	t.take(*is)
	return t, op.locate(ctx, sc, t)
}

// take sets the state of a timeline.
func (t *timeline) take(is upstream.Timeline) {
	t.is, t.archived = is, is.Archived != nil && *is.Archived
}

// differs reports that a timeline must be changed. One that no safekeeper has was not made
// to the end, and one whose creation was not answered may not be.
func differs(is, want *timeline) bool {
	return is.unfinished(want) || is.archived != want.archived && !want.held ||
		is.detaches(want)
}

// detaches reports that a timeline must be made independent of its parent. That is asked for until
// all shards have answered: the list shows the first one only. A timeline whose creation was not answered
// is not detached, since the creation could not be repeated.
func (t *timeline) detaches(want *timeline) bool {
	return want.detached && want.made && !t.archived && (t.is.Ancestor != nil || want.attached)
}

// unfinished reports that the creation of a timeline has to be asked for again, which changes
// nothing if it was made to the end.
func (t *timeline) unfinished(want *timeline) bool {
	return t.is.State == upstream.TimelineActive && !t.archived && !want.imported &&
		(len(t.safekeepers) == 0 || !t.confirmed && !want.made)
}

// update changes a timeline.
func (op *Operator) update(ctx context.Context, r plan.Ref, is, want *timeline) (*timeline, error) {
	sc, err := op.Clients.Controller(ctx, want.cluster)
	if err != nil {
		return nil, err
	}
	if is.unfinished(want) {
		again := upstream.NewTimeline{ID: want.id, PGVersion: is.is.PGVersion}
		if is.is.Ancestor != nil {
			again = upstream.NewTimeline{ID: want.id, Ancestor: *is.is.Ancestor, StartLSN: is.is.AncestorLSN}
		}
		if is, err = op.post(ctx, sc, is, again); err != nil {
			return nil, fmt.Errorf("put the timeline on safekeepers: %w", err)
		}
	}
	if is.archived != want.archived && !want.held {
		if err := op.archive(ctx, sc, is, want); err != nil {
			return nil, err
		}
		return op.observe(ctx, r) // an archived timeline cannot be detached
	}
	if !is.detaches(want) {
		return op.observe(ctx, r)
	}
	if err := op.detach(ctx, sc, is, want); err != nil {
		return nil, err
	}
	is, err = op.observe(ctx, r)
	if is != nil {
		is.independent = true
	}
	return is, err
}

// detach makes a timeline independent of its parent. The pageserver detaches only from a parent
// that is independent itself, and moves the siblings of the same or an earlier place, which must not
// be archived.
func (op *Operator) detach(ctx context.Context, sc *upstream.Controller, is, want *timeline) error {
	if is.is.Ancestor != nil {
		if err := op.mayDetach(ctx, is, want); err != nil {
			return err
		}
	}
	if _, err := sc.DetachAncestor(ctx, want.tenant, want.id); err != nil {
		return fmt.Errorf("detach the timeline from its parent: %w", err)
	}
	op.catalogOf(want).expire() // others have another ancestor as well
	return nil
}

// mayDetach returns an error if the pageserver would refuse a detachment.
func (op *Operator) mayDetach(ctx context.Context, is, want *timeline) error {
	all := op.catalogOf(want)
	parent, err := all.one(ctx, *is.is.Ancestor, time.Now())
	if err != nil {
		return fmt.Errorf("look for the parent: %w", err)
	}
	if parent != nil && parent.Ancestor != nil {
		return fmt.Errorf("its parent, %s, has a parent itself: detach that one first", op.nameOf(ctx, want, parent.ID))
	}
	siblings, err := all.children(ctx, *is.is.Ancestor, time.Now())
	if err != nil {
		return fmt.Errorf("look for branches of the parent: %w", err)
	}
	var archived []string
	for _, s := range siblings {
		moves := s.AncestorLSN == nil || is.is.AncestorLSN == nil || *s.AncestorLSN <= *is.is.AncestorLSN
		if s.ID != want.id && moves && s.Archived != nil && *s.Archived {
			archived = append(archived, op.nameOf(ctx, want, s.ID))
		}
	}
	if len(archived) > 0 {
		return fmt.Errorf("earlier branches of its parent are archived: %s; set spec.archived of them to false first", listed(archived))
	}
	return nil
}

// archive moves a timeline out of the pageservers, or back. Computes on it would not stop, and
// are looked for at the API server, since the cache may not know of the last.
func (op *Operator) archive(ctx context.Context, sc *upstream.Controller, is, want *timeline) error {
	all := op.catalogOf(want)
	changed := is.is
	changed.Archived = &want.archived
	if !want.archived {
		if is.is.Ancestor != nil {
			parent, err := all.one(ctx, *is.is.Ancestor, time.Now())
			if err == nil && parent != nil && parent.Archived != nil && *parent.Archived {
				return fmt.Errorf("its parent, %s, is archived: set spec.archived of that to false first", op.nameOf(ctx, want, parent.ID))
			}
		}
		if err := sc.Unarchive(ctx, want.tenant, want.id); err != nil {
			return fmt.Errorf("end the archival: %w", err)
		}
		all.put(want.id, &changed)
		return nil
	}
	endpoints, err := op.liveUsers(ctx, want)
	switch {
	case err != nil:
		return err
	case len(endpoints) > 0:
		return fmt.Errorf("NeonEndpoints use it: %s; suspend or delete them first", listed(endpoints))
	}
	children, err := all.children(ctx, want.id, time.Now())
	if err != nil {
		return fmt.Errorf("look for branches of it: %w", err)
	}
	var awake []string
	for _, c := range children {
		if c.Archived == nil || !*c.Archived {
			awake = append(awake, op.nameOf(ctx, want, c.ID))
		}
	}
	if len(awake) > 0 {
		return fmt.Errorf("branches of it are not archived: %s; archive them first", listed(awake))
	}
	if err := sc.Archive(ctx, want.tenant, want.id); err != nil {
		return fmt.Errorf("archive the timeline: %w", err)
	}
	all.put(want.id, &changed)
	return nil
}

// remove deletes a timeline without children. Which ones are its children only the storage
// controller knows: promotions move them. A deletion of a timeline that has some destroys
// its newest history before it fails. Computes on a timeline that is deleted hang.
func (op *Operator) remove(ctx context.Context, r plan.Ref) error {
	sc, t, err := op.timelineOf(ctx, r)
	if err != nil || sc == nil {
		return err
	}
	all := op.catalogOf(t)
	children, err := all.children(ctx, t.id, time.Now())
	if upstream.IsNotFound(err) {
		return nil // with its tenant
	} else if err != nil {
		return fmt.Errorf("look for child timelines: %w", err)
	}
	if len(children) > 0 {
		var names []string
		for _, c := range children {
			names = append(names, op.nameOf(ctx, t, c.ID))
		}
		return fmt.Errorf("branches of it need it: %s; delete them first", listed(names))
	}
	computes, err := op.liveUsers(ctx, t)
	switch {
	case err != nil:
		return err
	case len(computes) > 0:
		return fmt.Errorf("the computes of NeonEndpoints still run on it: %s", listed(computes))
	}
	err = sc.DeleteTimeline(ctx, t.tenant, t.id)
	if err != nil && !upstream.IsNotFound(err) {
		return err
	}
	all.put(t.id, nil)
	op.located.forget(t.id)
	return nil
}

// judge tells whether a timeline is as its branch wants it. held says why it is not archived
// yet.
func (t *timeline) judge(archived bool, held string) ready.State {
	wait := func(message string) ready.State { return ready.State{Phase: ready.Waiting, Message: message} }
	switch {
	case archived && !t.archived && held != "":
		return wait("it is archived when " + held)
	case t.archived:
		return ready.State{Phase: ready.Ready, Message: "archived"}
	case t.is.State != upstream.TimelineActive:
		return wait("the pageserver says that it is " + string(t.is.State))
	case len(t.safekeepers) == 0:
		return wait("no safekeeper has it")
	}
	return ready.State{Phase: ready.Ready}
}

// listed names some of many.
func listed(names []string) string {
	const some = 5
	text := strings.Join(names[:min(len(names), some)], ", ")
	if len(names) > some {
		text += fmt.Sprintf(" and %d more", len(names)-some)
	}
	return text
}
