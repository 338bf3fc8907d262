package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
)

// attached records where a tenant's shards are.
func (h *Hooks) attached(ctx context.Context, caller kube.Key, a Attachment) error {
	p, err := h.project(ctx, caller, a.TenantID)
	if err != nil || p == nil {
		return err
	}
	nodes := make([]int64, len(a.Shards))
	for _, s := range a.Shards {
		nodes[s.Number] = s.Node
	}
	told := place.Shards{At: metav1.NowMicro(), Nodes: nodes}
	if a.StripeSize != nil {
		told.StripeSize = *a.StripeSize
	}
	if err := annotate(ctx, h.Projects.In(p.Namespace), p.Name, place.ShardsAnnotation, told); err != nil {
		return err
	}
	return h.await(ctx, func(b *api.NeonBranch) bool { return b.Spec.Project == p.Name }, p.Namespace,
		func(s map[string]string) bool { return s[place.ShardsAnnotation] == place.Text(nodes) })
}

// moved records which safekeepers have a timeline. A call that comes late, after one about a
// later generation, changes nothing.
func (h *Hooks) moved(ctx context.Context, caller kube.Key, m Membership) error {
	b, err := h.branch(ctx, caller, m)
	if err != nil || b == nil {
		return err
	}
	told := place.Safekeepers{Timeline: m.TimelineID, Generation: m.Generation}
	for _, s := range m.Safekeepers {
		told.IDs = append(told.IDs, s.ID)
	}
	slices.Sort(told.IDs)
	text, err := json.Marshal(told)
	if err != nil {
		return fmt.Errorf("encode safekeepers: %w", err)
	}
	late := false
	_, err = h.Branches.In(b.Namespace).Modify(ctx, b.Name, func(is *api.NeonBranch) error {
		known, ok := place.ToldSafekeepers(is)
		if late = ok && known.Generation > m.Generation; late {
			return nil
		}
		if is.Annotations == nil {
			is.Annotations = map[string]string{}
		}
		is.Annotations[place.SafekeepersAnnotation] = string(text)
		return nil
	})
	switch {
	case apierrors.IsNotFound(err) || err == nil && late:
		return nil
	case err != nil:
		return fmt.Errorf("record safekeepers: %w", err)
	}
	return h.await(ctx, func(other *api.NeonBranch) bool { return other.UID == b.UID }, b.Namespace,
		func(s map[string]string) bool { return s[place.SafekeepersAnnotation] == place.Text(told.IDs) })
}

// project returns the project of a tenant, nil if there is none: then nobody has to know.
func (h *Hooks) project(ctx context.Context, caller kube.Key, tenant string) (*api.NeonProject, error) {
	for p, err := range h.Projects.In(caller.Namespace).Cached().All(ctx) {
		if err != nil {
			return nil, err
		}
		if p.Spec.Cluster == caller.Name && p.Status.TenantID == tenant {
			return p, nil
		}
	}
	return nil, nil
}

// branch returns the branch of a timeline, nil if there is none. A storage controller has no
// say about branches of another cluster.
func (h *Hooks) branch(ctx context.Context, caller kube.Key, m Membership) (*api.NeonBranch, error) {
	for b, err := range h.Branches.In(caller.Namespace).Cached().All(ctx) {
		if err != nil {
			return nil, err
		}
		if b.Status.TimelineID != m.TimelineID {
			continue
		}
		p, err := h.Projects.In(b.Namespace).Cached().Get(ctx, b.Spec.Project)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		case p.Spec.Cluster == caller.Name && p.Status.TenantID == m.TenantID:
			return b, nil
		}
	}
	return nil, nil
}

// annotate records a value in an object. An object that is gone has nothing to record.
func annotate[T any](ctx context.Context, objects kube.Resource[T], name, annotation string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", annotation, err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{annotation: string(text)},
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if _, err := objects.Patch(ctx, name, types.MergePatchType, patch); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("record %s: %w", annotation, err)
	}
	return nil
}

// await returns when the computes that run on some branches have applied a configuration that
// knows the change, or errBusy shortly before the context ends.
func (h *Hooks) await(
	ctx context.Context, on func(*api.NeonBranch) bool, namespace string, knows func(map[string]string) bool,
) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last := ""
	for {
		waits, err := h.waits(ctx, on, namespace, knows)
		switch {
		case err != nil && last != "" && ctx.Err() != nil:
			return fmt.Errorf("%w: NeonEndpoint %s", errBusy, last)
		case err != nil:
			return err
		case waits == "":
			return nil
		}
		last = waits
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: NeonEndpoint %s", errBusy, waits)
		case <-ticker.C:
		}
	}
}

// waits returns the name of an endpoint whose compute runs and does not know a change.
func (h *Hooks) waits(
	ctx context.Context, on func(*api.NeonBranch) bool, namespace string, knows func(map[string]string) bool,
) (string, error) {
	for e, err := range h.Endpoints.In(namespace).Cached().All(ctx) {
		if err != nil {
			return "", err
		}
		b, err := h.Branches.In(namespace).Cached().Get(ctx, e.Spec.Branch)
		if apierrors.IsNotFound(err) || err == nil && !on(b) || e.Status.Timeline == "" {
			continue
		} else if err != nil {
			return "", err
		}
		secret, err := h.Secrets.In(namespace).Cached().Get(ctx, place.ComputeName(e.Name))
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		if secret == nil || !knows(secret.Annotations) || !place.Applied(e, secret.Annotations) {
			return e.Name, nil
		}
	}
	return "", nil
}
