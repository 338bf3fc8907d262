package branch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/recent"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
)

// users are those who need a branch.
type users struct {
	kind  string
	names []string
	// unseen says that no watch tells when they go.
	unseen bool
}

// users returns those who need a branch that is being deleted. If the cache knows of none, the
// API server is asked, and then the storage.
func (op *Operator) users(ctx context.Context, b *api.NeonBranch) (users, error) {
	asked := time.Now()
	owns := op.owns(b) // a branch that was refused leaves the timeline of others to them
	serves := func(e *api.NeonEndpoint) bool {
		return e.Spec.Branch == b.Name || owns && e.Status.Timeline == current(b)
	}
	child := func(c *api.NeonBranch) bool { return mayBeChild(c, b) }

	endpoints, err := op.endpointsOf(ctx, b)
	if err != nil {
		return users{}, err
	}
	branches, err := cached(op.byParent.Get(ctx, kube.KeyOf(b)))
	if err != nil {
		return users{}, err
	}
	if by, some := first(matching(endpoints, serves), matching(branches, child)); some {
		return by, nil
	}
	if endpoints, err = op.live.ofEndpoints(ctx, op.Endpoints, b.Namespace, asked); err != nil {
		return users{}, err
	}
	if branches, err = op.live.ofBranches(ctx, op.Branches, b.Namespace, asked); err != nil {
		return users{}, err
	}
	if by, some := first(matching(endpoints, serves), matching(branches, child)); some {
		return by, nil
	}
	if b.Spec.DeletionPolicy == api.Retain || !owns {
		return users{}, nil
	}
	return op.childTimelines(ctx, b)
}

// first returns the endpoints, or if there are none, the branches.
func first(endpoints []*api.NeonEndpoint, branches []*api.NeonBranch) (by users, some bool) {
	by = users{kind: "NeonEndpoints", names: namesOf(endpoints)}
	if len(by.names) == 0 {
		by = users{kind: "NeonBranches", names: namesOf(branches)}
	}
	return by, len(by.names) > 0
}

// childTimelines returns the children that the storage knows of a branch. The promotion of a branch
// moves its siblings, and others may use the storage too.
func (op *Operator) childTimelines(ctx context.Context, b *api.NeonBranch) (users, error) {
	p, err := op.Projects.In(b.Namespace).Cached().Get(ctx, b.Spec.Project)
	if apierrors.IsNotFound(err) {
		return users{}, nil
	} else if err != nil {
		return users{}, err
	}
	t := wanted(b, p, current(b))
	children, err := op.catalogOf(t).children(ctx, t.id, time.Now().Add(-brisk))
	if upstream.IsNotFound(err) || apierrors.IsNotFound(err) {
		return users{}, nil // with its tenant, or its cluster
	} else if err != nil {
		return users{}, fmt.Errorf("look for child timelines: %w", err)
	}
	by := users{kind: "NeonBranches", unseen: true}
	for _, c := range children {
		by.names = append(by.names, op.nameOf(ctx, t, c.ID))
	}
	return by, nil
}

// owns reports that a branch has made a timeline, or may have.
func (op *Operator) owns(b *api.NeonBranch) bool {
	return slices.ContainsFunc(b.Status.Nodes, func(n plan.NodeStatus) bool { return n.Kind == op.timelineKind.Kind })
}

// mayBeChild reports that a branch may become a child of another: it is not made yet, or a reset
// makes it again. Of those that are made the storage tells who their parents are.
func mayBeChild(c, of *api.NeonBranch) bool {
	return c.Spec.From != nil && c.Spec.From.Branch == of.Name && (!made(c) || timelineID(c) != current(c))
}

// held says why a branch cannot be archived yet, or nothing: a compute on it would not stop.
func (op *Operator) held(ctx context.Context, b *api.NeonBranch, want *timeline) (string, error) {
	if !b.Spec.Archived {
		return "", nil
	}
	endpoints, err := op.endpointsOf(ctx, b)
	if err != nil {
		return "", err
	}
	names := namesOf(matching(endpoints, func(e *api.NeonEndpoint) bool { return uses(e, want) }))
	if len(names) == 0 {
		return "", nil
	}
	return "no NeonEndpoint uses it: suspend or delete " + listed(names), nil
}

// uses reports that the compute of an endpoint runs on a timeline, or may at any time.
func uses(e *api.NeonEndpoint, t *timeline) bool {
	stopped := e.Spec.Suspended && e.Status.Phase == suspended
	return e.Status.Timeline == t.id || e.Spec.Branch == t.branch.Name && !stopped
}

// suspended is the phase of an endpoint that has no pod.
const suspended = "Suspended"

// runsOn reports that a compute runs on a former timeline of a branch, or may. An endpoint that
// is starting does not say on which it is.
func (op *Operator) runsOn(ctx context.Context, b *api.NeonBranch, id string) bool {
	endpoints, err := op.endpointsOf(ctx, b)
	if err != nil {
		return true
	}
	former, err := cached(op.computes.Get(ctx, kube.Key{Namespace: b.Namespace, Name: id}))
	return err != nil || len(former) > 0 || slices.ContainsFunc(endpoints, func(e *api.NeonEndpoint) bool {
		return e.Spec.Branch == b.Name && e.Status.Timeline == "" && e.Status.Phase != "" && e.Status.Phase != suspended
	})
}

// endpointsOf returns the endpoints that serve a branch, or whose computes still run on it.
func (op *Operator) endpointsOf(ctx context.Context, b *api.NeonBranch) ([]*api.NeonEndpoint, error) {
	all, err := cached(op.endpoints.Get(ctx, kube.KeyOf(b)))
	if err != nil {
		return nil, err
	}
	others, err := cached(op.computes.Get(ctx, kube.Key{Namespace: b.Namespace, Name: current(b)}))
	for _, e := range others {
		if e.Spec.Branch != b.Name {
			all = append(all, e)
		}
	}
	return all, err
}

// liveUsers asks the API server for the endpoints whose computes run on a timeline, or may.
func (op *Operator) liveUsers(ctx context.Context, t *timeline) ([]string, error) {
	all, err := op.live.ofEndpoints(ctx, op.Endpoints, t.cluster.Namespace, time.Now())
	if err != nil {
		return nil, fmt.Errorf("look for endpoints: %w", err)
	}
	return namesOf(matching(all, func(e *api.NeonEndpoint) bool { return uses(e, t) })), nil
}

// nameOf returns the name of the branch that has a timeline, or else its id.
func (op *Operator) nameOf(ctx context.Context, of *timeline, id string) string {
	for b, err := range op.byTimeline.Get(ctx, kube.Key{Namespace: of.cluster.Namespace, Name: id}) {
		if err == nil {
			return b.Name
		}
	}
	return "timeline " + id
}

// liveLists share the lists that are read from the API server, by their namespaces.
type liveLists struct {
	mu        sync.Mutex
	branches  map[string]*recent.Reader[[]*api.NeonBranch]
	endpoints map[string]*recent.Reader[[]*api.NeonEndpoint]
}

func (l *liveLists) ofBranches(
	ctx context.Context, objects kube.Resource[api.NeonBranch], namespace string, since time.Time,
) ([]*api.NeonBranch, error) {
	l.mu.Lock()
	if l.branches == nil {
		l.branches = make(map[string]*recent.Reader[[]*api.NeonBranch])
	}
	r := reader(l.branches, objects, namespace)
	l.mu.Unlock()
	all, _, err := r.Since(ctx, since)
	return all, err
}

func (l *liveLists) ofEndpoints(
	ctx context.Context, objects kube.Resource[api.NeonEndpoint], namespace string, since time.Time,
) ([]*api.NeonEndpoint, error) {
	l.mu.Lock()
	if l.endpoints == nil {
		l.endpoints = make(map[string]*recent.Reader[[]*api.NeonEndpoint])
	}
	r := reader(l.endpoints, objects, namespace)
	l.mu.Unlock()
	all, _, err := r.Since(ctx, since)
	return all, err
}

func reader[T any](
	by map[string]*recent.Reader[[]*T], objects kube.Resource[T], namespace string,
) *recent.Reader[[]*T] {
	if by[namespace] == nil {
		by[namespace] = &recent.Reader[[]*T]{Read: func(ctx context.Context) ([]*T, error) {
			all, err := cached(objects.In(namespace).List(ctx))
			if errors.Is(err, kube.ErrNotServed) {
				return nil, nil // with the definition of a kind its objects are gone
			}
			return all, err
		}}
	}
	return by[namespace]
}
