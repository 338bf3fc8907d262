package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// templateAnnotation of a StatefulSet is the hash of the pod template that it was made with. It
// tells whether another template restarts the pod: the server adds defaults to the template.
const templateAnnotation = "neon.pintle.dev/template"

// stamp notes the hash of a StatefulSet's template.
func stamp(s *appsv1.StatefulSet) error {
	text, err := json.Marshal(s.Spec.Template)
	if err != nil {
		return fmt.Errorf("encode template of %s: %w", s.Name, err)
	}
	hash := sha256.Sum256(text)
	s.Annotations = maps.Clone(s.Annotations)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[templateAnnotation] = hex.EncodeToString(hash[:8])
	return nil
}

// held returns a StatefulSet as it should be until the turn of its pod comes: with the template
// that it has.
func held(want, is *appsv1.StatefulSet) *appsv1.StatefulSet {
	want.Annotations[templateAnnotation] = is.Annotations[templateAnnotation]
	want.Spec.Template = *is.Spec.Template.DeepCopy()
	return want
}

// turn says which safekeeper may be restarted, as a thing of the plan. A safekeeper's StatefulSet
// is changed only while it is its turn, which is in the cluster's status.
type turn struct {
	cluster  kube.Key
	all      []int64 // the safekeepers that are not evacuated
	outdated []int64 // those whose StatefulSets are to be changed
	unready  []int64 // those whose pods are not ready
	leaving  []int64
	// now is the id of the safekeeper whose turn it is, 0 for none, and waits says why the
	// turn does not pass on.
	now   int64
	waits string
}

func (t *turn) busy() bool { return len(t.outdated) > 0 || t.now != 0 }

// turnOf returns the state of the turns of a cluster's safekeepers.
func (op *Operator) turnOf(ctx context.Context, c *api.NeonCluster, on basis) (*turn, error) {
	t := &turn{cluster: kube.KeyOf(c), all: safekeeperIDs(c), now: c.Status.SafekeeperTurn}
	for _, m := range c.Status.Safekeepers {
		if !stays(m) && !m.Evacuated {
			t.leaving = append(t.leaving, m.ID)
		}
	}
	for _, id := range t.all {
		is, err := op.StatefulSets.In(c.Namespace).Cached().Get(ctx, safekeeperName(c.Name, id))
		switch {
		case apierrors.IsNotFound(err):
			t.unready = append(t.unready, id)
			continue
		case err != nil:
			return nil, err
		}
		want, err := safekeeperSet(ctx, c, id, on)
		switch {
		case errors.Is(err, errNoLogin): // its node says so, and leaves it as it is
		case err != nil:
			return nil, err
		case is.Annotations[templateAnnotation] != want.Annotations[templateAnnotation]:
			t.outdated = append(t.outdated, id)
		}
		if !ready.Is(is) {
			t.unready = append(t.unready, id)
		}
	}
	if !slices.Contains(t.all, t.now) {
		t.now = 0
	}
	return t, nil
}

// safekeeperSet returns the StatefulSet that a safekeeper should have.
func safekeeperSet(ctx context.Context, c *api.NeonCluster, id int64, on basis) (*appsv1.StatefulSet, error) {
	part := safekeeper(c, id)
	credentials, err := on.logins.ofMember(ctx, part.about.Name)
	if err != nil {
		return nil, err
	}
	part.authority, part.credentials = on.memberAuthority(c), credentials
	s := part.statefulSet(c.Spec.Safekeepers.Volume, appsv1.RollingUpdateStatefulSetStrategyType)
	return s, stamp(s)
}

// turns passes the turn on.
func (op *Operator) turns() *plan.Things[turn] {
	return &plan.Things[turn]{
		Kind:   "SafekeeperTurn",
		Target: op.controllerTarget,
		Name:   func(t *turn) string { return t.cluster.String() },
		Observe: func(_ context.Context, r plan.Ref) (*turn, error) {
			cluster, err := ParseKey(r.Name)
			return &turn{cluster: cluster, waits: "it is looked at"}, err
		},
		Create: func(context.Context, plan.Ref, *turn) (*turn, error) {
			return nil, fmt.Errorf("%w: there is a turn already", plan.ErrRefused)
		},
		Differs: func(_, want *turn) bool { return want.busy() },
		Update: func(ctx context.Context, _ plan.Ref, _, want *turn) (*turn, error) {
			is := *want
			is.pass(func() string { return op.behind(ctx, want.cluster, want.all) })
			return &is, nil
		},
		Delete:     func(context.Context, plan.Ref) error { return nil },
		Idempotent: true,
		Adopt:      func(plan.Ref, *turn) bool { return true },
		Poll:       5 * time.Second,
	}
}

// mayChange reports that the StatefulSet of a safekeeper may be changed: it is its turn, and
// all others run, or it is down already.
func (t *turn) mayChange(id int64) bool {
	others := slices.ContainsFunc(t.unready, func(other int64) bool { return other != id })
	return id == t.now && (!others || slices.Contains(t.unready, id))
}

// pass decides whose turn it is. behind says why the safekeepers are not all up to date with
// their timelines, empty if they are. It is asked only before a safekeeper that works is stopped.
func (t *turn) pass(behind func() string) {
	t.waits = ""
	outdated := slices.Contains(t.outdated, t.now)
	switch {
	case outdated && t.mayChange(t.now):
		t.waits = fmt.Sprintf("safekeeper %d is about to be restarted", t.now)
		return
	case !outdated && slices.Contains(t.unready, t.now):
		t.waits = fmt.Sprintf("safekeeper %d is being restarted", t.now)
		return
	}
	t.now = 0
	if len(t.outdated) == 0 {
		return
	}
	// One that is down loses nothing by the change, and may need it.
	for _, id := range t.outdated {
		if slices.Contains(t.unready, id) {
			t.now, t.waits = id, fmt.Sprintf("safekeeper %d is about to be changed, which does not run", id)
			return
		}
	}
	switch {
	case len(t.leaving) > 0:
		t.waits = fmt.Sprintf("safekeeper %d leaves: the restarts go on when its timelines are moved", t.leaving[0])
	case len(t.unready) > 0:
		t.waits = fmt.Sprintf("safekeeper %d is not ready: no other one is restarted", t.unready[0])
	default:
		t.waits = behind()
	}
	if t.waits == "" {
		t.now = t.outdated[0]
		t.waits = fmt.Sprintf("safekeeper %d is about to be restarted", t.now)
	}
}

func turnReady(t *turn) ready.State {
	if t.waits == "" {
		return ready.State{Phase: ready.Ready}
	}
	return ready.State{Phase: ready.Waiting, Message: t.waits}
}

// behind says which safekeeper is not active or has less than its timelines' commits, empty if
// none is. While one is behind, a restart of another one would stop the writes to a timeline.
func (op *Operator) behind(ctx context.Context, cluster kube.Key, ids []int64) string {
	sc, err := op.Clients.Controller(ctx, cluster)
	if err != nil {
		return err.Error()
	}
	registered, err := sc.Registrations(ctx)
	if err != nil {
		return "list safekeepers: " + err.Error()
	}
	keepers := map[int64]*upstream.Safekeeper{}
	for _, id := range ids {
		i := slices.IndexFunc(registered, func(r upstream.Registration) bool { return r.ID == id })
		if i < 0 || registered[i].Policy != upstream.SafekeeperActive {
			return fmt.Sprintf("the storage controller does not say that safekeeper %d is active", id)
		}
		if keepers[id], err = op.Clients.Safekeeper(ctx, cluster, id); err != nil {
			return err.Error()
		}
		switch is, err := keepers[id].ID(ctx); {
		case err != nil:
			return fmt.Sprintf("safekeeper %d does not answer: %v", id, err)
		case is != id:
			return fmt.Sprintf("safekeeper %d says that it is safekeeper %d", id, is)
		}
	}
	branches, err := op.branches(ctx, cluster)
	if err != nil {
		return err.Error()
	}
	return firstOf(branches, func(b *api.NeonBranch) string { return lags(ctx, keepers, b) })
}

// lookers is the number of timelines that are looked at side by side.
const lookers = 8

// firstOf returns one of the texts that a function has for branches, empty if it has none.
func firstOf(branches []*api.NeonBranch, of func(*api.NeonBranch) string) (first string) {
	var group sync.WaitGroup
	var mu sync.Mutex
	next := make(chan *api.NeonBranch)
	for range min(lookers, len(branches)) {
		group.Go(func() {
			for b := range next {
				text := of(b)
				mu.Lock()
				if first == "" {
					first = text
				}
				mu.Unlock()
			}
		})
	}
	for _, b := range branches {
		mu.Lock()
		over := first != ""
		mu.Unlock()
		if over {
			break
		}
		next <- b
	}
	close(next)
	group.Wait()
	return first
}

// lags says which safekeeper of a branch has less than what is committed.
func lags(ctx context.Context, keepers map[int64]*upstream.Safekeeper, b *api.NeonBranch) string {
	read := func(id int64) (upstream.WAL, string) {
		w, err := keepers[id].Timeline(ctx, b.Status.TenantID, b.Status.TimelineID)
		if err != nil {
			return w, fmt.Sprintf("read timeline of NeonBranch %s on safekeeper %d: %v", b.Name, id, err)
		}
		return w, ""
	}
	var committed upstream.LSN
	flushed := map[int64]upstream.LSN{}
	for _, id := range b.Status.Safekeepers {
		if keepers[id] == nil {
			continue // it leaves, and another is in its place soon
		}
		w, problem := read(id)
		if problem != "" {
			return problem
		}
		committed, flushed[id] = max(committed, w.CommitLSN), w.FlushLSN
	}
	for id, lsn := range flushed {
		if lsn >= committed {
			continue
		}
		// It was asked before another one, and may have caught up.
		w, problem := read(id)
		if problem != "" {
			return problem
		}
		if w.FlushLSN < committed {
			return fmt.Sprintf("safekeeper %d has NeonBranch %s up to %s, and %s is committed", id, b.Name, w.FlushLSN, committed)
		}
	}
	return ""
}
