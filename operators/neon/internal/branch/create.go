package branch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

var errOtherProject = errors.New("the parent is a branch of another project")

// branchOf makes a wanted timeline a branch of another.
func (t *timeline) branchOf(parent *api.NeonBranch) error {
	switch {
	case parent.Spec.Project != t.project:
		return errOtherProject
	case parent.Spec.Archived:
		return fmt.Errorf("NeonBranch %s is archived: set its spec.archived to false to make branches of it", parent.Name)
	}
	t.ancestor, t.keepers = parent.Status.TimelineID, parent.Status.Safekeepers
	return nil
}

// admit refuses a timeline that is not the branch's to have, before anything of it is recorded:
// otherwise the end of the branch would be its end.
func (op *Operator) admit(ctx context.Context, b *api.NeonBranch, want *timeline) error {
	if !want.imported || want.made {
		return nil
	}
	for other, err := range op.byTimeline.Get(ctx, kube.Key{Namespace: b.Namespace, Name: want.id}) {
		if err != nil {
			return err
		}
		older := cmp.Or(other.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(other.UID, b.UID)) < 0
		if other.UID != b.UID && other.Spec.Project == b.Spec.Project && (older || made(other)) {
			return fmt.Errorf("NeonBranch %s has timeline %s: delete one of the two", other.Name, want.id)
		}
	}
	is, err := op.catalogOf(want).one(ctx, want.id, time.Now().Add(-brisk))
	switch {
	case err != nil:
		return fmt.Errorf("look for timeline %s: %w", want.id, err)
	case is == nil && want.recalled:
		return fmt.Errorf("timeline %s, which NeonBranch %s has had, is not in tenant %s: bring it back, or "+
			"remove the annotation %s of Secret %s to make another one",
			want.id, b.Name, want.tenant, cluster.AnnotationOf(cluster.TimelineOf, rememberedAs(b)), cluster.KeysName(want.cluster.Name))
	case is == nil:
		return fmt.Errorf("timeline %s is not in tenant %s: "+
			"delete this NeonBranch; one without spec.timelineID makes a timeline", want.id, want.tenant)
	}
	if err := want.compare(*is); err != nil {
		return err
	}
	op.located.trust(want.id)
	return nil
}

// compare returns an error if a timeline that exists is not the wanted one.
func (t *timeline) compare(is upstream.Timeline) error {
	ancestor := ""
	if is.Ancestor != nil {
		ancestor = *is.Ancestor
	}
	switch {
	case is.PGVersion != 0 && is.PGVersion != t.version: // 0: it is offloaded
		return fmt.Errorf("timeline %s is of PostgreSQL %d, and NeonProject %s of %d: "+
			"import it into a project of its version", is.ID, is.PGVersion, t.project, t.version)
	case t.recalled:
		return nil // its parent may have changed since it was made, by a promotion
	case t.from == nil && ancestor != "":
		return fmt.Errorf("timeline %s is a branch of timeline %s: name the NeonBranch of that in spec.from", is.ID, ancestor)
	case t.from != nil && ancestor == "":
		return fmt.Errorf("timeline %s has no parent: leave spec.from out", is.ID)
	case ancestor != t.ancestor:
		return fmt.Errorf("timeline %s is a branch of timeline %s, and not of timeline %s of NeonBranch %s: correct spec.from",
			is.ID, ancestor, t.ancestor, t.from.Branch)
	}
	if t.from != nil && t.from.LSN != "" && is.AncestorLSN != nil {
		if at, err := upstream.ParseLSN(string(t.from.LSN)); err == nil && at != *is.AncestorLSN {
			return fmt.Errorf("timeline %s begins at %s of its parent, and not at %s: correct spec.from.lsn",
				is.ID, is.AncestorLSN, at)
		}
	}
	return nil
}

// create creates a timeline. Nothing is created in the place of one that was there.
func (op *Operator) create(ctx context.Context, _ plan.Ref, want *timeline) (*timeline, error) {
	switch {
	case want.made:
		return nil, fmt.Errorf("%w: timeline %s is gone from the storage, with its data: "+
			"delete this NeonBranch, or change spec.reset for a new copy of its parent", plan.ErrRefused, want.id)
	case want.imported:
		return nil, fmt.Errorf("%w: timeline %s is not in tenant %s", plan.ErrRefused, want.id, want.tenant)
	}
	sc, err := op.Clients.Controller(ctx, want.cluster)
	if err != nil {
		return nil, err
	}
	if err := op.stays(ctx, want); err != nil {
		return nil, err
	}
	n := upstream.NewTimeline{ID: want.id, Ancestor: want.ancestor}
	if want.from == nil {
		n.PGVersion = want.version
	} else if n.StartLSN, err = op.start(ctx, sc, want); err != nil {
		return nil, err
	}
	made, err := op.post(ctx, sc, want, n)
	if err != nil {
		return nil, op.failed(ctx, sc, want, err)
	}
	return made, nil
}

// stays returns an error if the project or the parent is being deleted. It asks the API server:
// the end of a parent begins with the question for its branches, of which this is one. So either
// the parent finds this branch, or this branch finds that the parent ends.
func (op *Operator) stays(ctx context.Context, want *timeline) error {
	p, err := op.Projects.In(want.branch.Namespace).Get(ctx, want.project)
	switch {
	case err != nil:
		return fmt.Errorf("%w: look at the project: %w", plan.ErrRefused, err)
	case p.DeletionTimestamp != nil:
		return fmt.Errorf("%w: NeonProject %s is being deleted", plan.ErrRefused, p.Name)
	}
	if want.from == nil {
		return nil
	}
	parent, err := op.Branches.In(want.branch.Namespace).Get(ctx, want.from.Branch)
	switch {
	case err != nil:
		return fmt.Errorf("%w: look at the parent: %w", plan.ErrRefused, err)
	case parent.DeletionTimestamp != nil:
		return fmt.Errorf("%w: NeonBranch %s is being deleted: no branch of it can be made", plan.ErrRefused, parent.Name)
	case parent.Status.TimelineID != want.ancestor:
		return fmt.Errorf("%w: NeonBranch %s has just been reset", plan.ErrRefused, parent.Name)
	}
	return nil
}

// post asks for a timeline, and keeps the answer.
func (op *Operator) post(
	ctx context.Context, sc *upstream.Controller, t *timeline, n upstream.NewTimeline,
) (*timeline, error) {
	created, err := sc.CreateTimeline(ctx, t.tenant, n)
	if err != nil {
		return nil, err
	}
	op.catalogOf(t).put(t.id, &created.Timeline)
	made := &timeline{cluster: t.cluster, tenant: t.tenant, id: t.id}
	made.take(created.Timeline)
	if set := created.Safekeepers; set != nil {
		made.generation = set.Generation
		for _, s := range set.Safekeepers {
			made.safekeepers = append(made.safekeepers, s.ID)
		}
		made.confirmed = true
		op.located.put(made)
	}
	return made, nil
}

// failed says why a timeline could not be made. No conflict says that it exists: it is looked
// for, and compared. The error is refused if the timeline was certainly not made.
func (op *Operator) failed(ctx context.Context, sc *upstream.Controller, want *timeline, err error) error {
	var answer *upstream.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch {
	case answer.Folded() == 406 && strings.Contains(answer.Message, "archived"):
		return fmt.Errorf("%w: the parent is archived: set its spec.archived to false: %w", plan.ErrRefused, err)
	case answer.Folded() == 406:
		return fmt.Errorf("%w: the parent has no such history: choose a later moment in spec.from: %w", plan.ErrRefused, err)
	case answer.Folded() == 429:
		return fmt.Errorf("the storage is still making it: %w", err)
	case answer.Status == 409:
		return conflict(ctx, sc, want, err)
	case answer.Status == 400, answer.Status == 401, answer.Status == 403, answer.Status == 404, answer.Status == 412:
		return fmt.Errorf("%w: %w", plan.ErrRefused, err)
	}
	return err
}

// conflict says what a 409 is about.
func conflict(ctx context.Context, sc *upstream.Controller, want *timeline, err error) error {
	switch is, lookErr := sc.Timeline(ctx, want.tenant, want.id); {
	case lookErr == nil:
		if other := want.compare(is); other != nil {
			return fmt.Errorf("%w: it exists, and is another: %w", plan.ErrRefused, other)
		}
		return fmt.Errorf("it exists: %w", err) // and is found when it is observed again
	case !upstream.IsNotFound(lookErr):
		return fmt.Errorf("%w; then look for it: %w", err, lookErr)
	}
	if want.ancestor != "" {
		if _, lookErr := sc.Timeline(ctx, want.tenant, want.ancestor); upstream.IsNotFound(lookErr) {
			return fmt.Errorf("%w: timeline %s of NeonBranch %s is not in the storage: %w",
				plan.ErrRefused, want.ancestor, want.from.Branch, err)
		}
	}
	return err
}

// start returns the position at which a branch begins, nil for the end that the pageserver knows. It is looked
// up before it is asked for: a request for one that is not there yet does not return.
func (op *Operator) start(ctx context.Context, sc *upstream.Controller, want *timeline) (*upstream.LSN, error) {
	if want.from.LSN == "" && want.from.Time == nil {
		return op.head(ctx, want)
	}
	var at upstream.LSN
	var err error
	if want.from.LSN != "" {
		if at, err = upstream.ParseLSN(string(want.from.LSN)); err != nil {
			return nil, fmt.Errorf("%w: %w", plan.ErrRefused, err)
		}
	} else if at, err = op.moment(ctx, sc, want); err != nil {
		return nil, err
	}
	parent, err := sc.Timeline(ctx, want.tenant, want.ancestor)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: look at the parent: %w", plan.ErrRefused, err)
	case at > parent.LastRecordLSN:
		return nil, fmt.Errorf("%w: the history of NeonBranch %s ends at %s, before %s: make another NeonBranch with an earlier moment",
			plan.ErrRefused, want.from.Branch, parent.LastRecordLSN, at)
	case at < parent.MinReadableLSN:
		return nil, fmt.Errorf("%w: the history of NeonBranch %s begins at %s, after %s: make another NeonBranch with a later moment",
			plan.ErrRefused, want.from.Branch, parent.MinReadableLSN, at)
	}
	return &at, nil
}

// moment returns the position of the moment at which a branch begins.
func (op *Operator) moment(ctx context.Context, sc *upstream.Controller, want *timeline) (upstream.LSN, error) {
	text := want.from.Time.UTC().Format(time.RFC3339)
	if want.from.Time.After(time.Now()) {
		return 0, fmt.Errorf("%w: %s is in the future: make another NeonBranch with an earlier moment", plan.ErrRefused, text)
	}
	found, err := sc.LSNByTime(ctx, want.tenant, want.ancestor, want.from.Time.Time)
	if err == nil && (found.Kind == upstream.LSNFuture || found.Kind == upstream.LSNNoData) {
		// Commits of that time may be on their way to the pageserver.
		if _, err := op.head(ctx, want); err != nil {
			return 0, err
		}
		found, err = sc.LSNByTime(ctx, want.tenant, want.ancestor, want.from.Time.Time)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: look for the position of %s: %w", plan.ErrRefused, text, err)
	}
	switch found.Kind {
	case upstream.LSNPast:
		return 0, fmt.Errorf("%w: %s is before the history that NeonBranch %s keeps: make another NeonBranch with a later moment",
			plan.ErrRefused, text, want.from.Branch)
	case upstream.LSNNoData:
		return 0, fmt.Errorf("%w: NeonBranch %s has no commit yet, so that no position belongs to %s: leave spec.from.time out",
			plan.ErrRefused, want.from.Branch, text)
	}
	return found.LSN, nil
}
