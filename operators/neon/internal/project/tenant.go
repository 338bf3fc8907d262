package project

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// tenant is a project's tenant in the storage, as a thing of the plan.
type tenant struct {
	cluster kube.Key
	id      string
	shards  int
	// imported says that it is somebody else's at first, and made that it was there before.
	imported, made bool
	// former are the names of settings that the operator has made.
	former []string
	is     upstream.Tenant
	seen   time.Time // when the storage controller was asked
}

// wanted returns the tenant that a project should have in a cluster.
func wanted(p *api.NeonProject, key kube.Key, c *api.NeonCluster) *tenant {
	config := upstream.TenantConfig{"pitr_interval": p.Spec.HistoryRetention}
	for name, value := range p.Spec.TenantConfig {
		if value.Type == intstr.Int {
			config[name] = float64(value.IntVal) // as JSON is decoded
		} else {
			config[name] = value.StrVal
		}
	}
	// A second copy on another pageserver lets that take over.
	secondaries := 0
	if c.Spec.Pageservers.Count > 1 {
		secondaries = 1
	}
	return &tenant{
		cluster: key, id: p.Status.TenantID, shards: int(p.Spec.Shards),
		imported: p.Status.TenantID != ID(p.UID), made: made(p), former: p.Status.Settings,
		is: upstream.Tenant{ID: p.Status.TenantID, Placement: upstream.Attached(secondaries), Config: config},
	}
}

// made reports that the tenant of a project was there.
func made(p *api.NeonProject) bool { return len(p.Status.Shards) > 0 }

// admit refuses a tenant that is not the project's to have, before anything of it is recorded:
// otherwise the end of the project would be its end.
func (op *Operator) admit(ctx context.Context, p *api.NeonProject, want *tenant) error {
	if !want.imported || want.made {
		return nil
	}
	for other, err := range op.byTenant.Get(ctx, kube.Key{Namespace: p.Namespace, Name: want.id}) {
		if err != nil {
			return err
		}
		older := cmp.Or(other.CreationTimestamp.Compare(p.CreationTimestamp.Time), cmp.Compare(other.UID, p.UID)) < 0
		if other.UID != p.UID && other.Spec.Cluster == p.Spec.Cluster && (older || made(other)) {
			return fmt.Errorf("NeonProject %s has tenant %s: delete one of the two", other.Name, want.id)
		}
	}
	sc, err := op.Clients.Controller(ctx, want.cluster)
	if err != nil {
		return err
	}
	_, err = sc.DescribeTenant(ctx, want.id)
	switch {
	case upstream.IsNotFound(err) && p.Spec.TenantID == "":
		return fmt.Errorf("tenant %s, which NeonProject %s has had, is not in the storage of NeonCluster %s: bring it back, or "+
			"remove the annotation %s of Secret %s to make an empty one",
			want.id, p.Name, want.cluster.Name, cluster.AnnotationOf(cluster.TenantOf, p.Name), cluster.KeysName(want.cluster.Name))
	case upstream.IsNotFound(err):
		return fmt.Errorf("tenant %s is not in the storage of NeonCluster %s: "+
			"delete this NeonProject; one without spec.tenantID makes a tenant", want.id, want.cluster.Name)
	case err != nil:
		return fmt.Errorf("look for tenant %s: %w", want.id, err)
	}
	return nil
}

// tenants handles the tenants of all clusters.
func (op *Operator) tenants() *plan.Things[tenant] {
	observe := func(ctx context.Context, r plan.Ref) (*tenant, error) {
		sc, key, id, err := op.tenantOf(ctx, r)
		if err != nil || sc == nil {
			return nil, err
		}
		seen := time.Now()
		is, err := sc.DescribeTenant(ctx, id)
		if upstream.IsNotFound(err) {
			return nil, nil
		}
		return &tenant{cluster: key, id: id, shards: len(is.Shards), is: is, seen: seen}, err
	}
	return &plan.Things[tenant]{
		Kind:    "Tenant",
		Target:  &plan.Target{Name: "the storage controller", Concurrency: 16, Timeout: 40 * time.Second},
		Name:    func(t *tenant) string { return t.cluster.String() + "/" + t.id },
		Observe: observe,
		Create: func(ctx context.Context, r plan.Ref, want *tenant) (*tenant, error) {
			if want.imported || want.made {
				return nil, fmt.Errorf("%w: tenant %s is gone from the storage, with its data: delete this NeonProject",
					plan.ErrRefused, want.id)
			}
			sc, err := op.Clients.Controller(ctx, want.cluster)
			if err != nil {
				return nil, err
			}
			err = sc.CreateTenant(ctx, upstream.NewTenant{
				ID: want.id, Placement: want.is.Placement, Shards: shardCount(want.shards), Config: want.is.Config,
				StripeSize: stripe,
			})
			if err != nil {
				return nil, refused(err)
			}
			// Success says neither that the tenant is placed nor that it is as wanted.
			return observe(ctx, r)
		},
		Differs: differs,
		Update: func(ctx context.Context, r plan.Ref, is, want *tenant) (*tenant, error) {
			sc, err := op.Clients.Controller(ctx, want.cluster)
			if err != nil {
				return nil, err
			}
			if err := change(ctx, sc, is, want); err != nil {
				return nil, err
			}
			return observe(ctx, r)
		},
		Delete: func(ctx context.Context, r plan.Ref) error {
			sc, _, id, err := op.tenantOf(ctx, r)
			if err != nil || sc == nil {
				return err
			}
			err = sc.DeleteTenant(ctx, id)
			if upstream.IsNotFound(err) {
				return nil
			}
			return err
		},
		Idempotent: true,
		Adopt:      func(plan.Ref, *tenant) bool { return true }, // its id is the project's own, or is imported
		Poll:       time.Minute,
	}
}

// tenantOf returns the storage controller and the id of a tenant. It returns no storage
// controller if the cluster is gone: then its tenants are too.
func (op *Operator) tenantOf(
	ctx context.Context, r plan.Ref,
) (sc *upstream.Controller, key kube.Key, id string, err error) {
	parts := strings.Split(r.Name, "/")
	if len(parts) != 3 {
		return nil, key, "", fmt.Errorf("parse %q: not the name of a tenant", r.Name)
	}
	key, id = kube.Key{Namespace: parts[0], Name: parts[1]}, parts[2]
	sc, err = op.Clients.Controller(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, key, id, nil
	}
	return sc, key, id, err
}

// stripe is the number of pages in a stripe of a tenant with several shards. Upstream has no
// default for the request. It is that of its libs/pageserver_api/src/shard.rs.
const stripe = 2048

// shardCount returns the number of shards to create: a tenant with one shard is made without
// a number, so that it can be split later.
func shardCount(n int) int {
	if n == 1 {
		return 0
	}
	return n
}

func differs(is, want *tenant) bool {
	return is.is.Placement != want.is.Placement || is.shards < want.shards || len(changed(is, want)) > 0
}

// changed returns the settings that differ. Those that the operator made and that are no longer
// wanted are nil.
func changed(is, want *tenant) upstream.TenantConfig {
	set := upstream.TenantConfig{}
	for name, value := range want.is.Config {
		if !same(is.is.Config[name], value) {
			set[name] = value
		}
	}
	for _, name := range want.former {
		if _, wanted := want.is.Config[name]; !wanted && is.is.Config[name] != nil {
			set[name] = nil
		}
	}
	return set
}

// settings returns the names of the settings that a project has made, with those that are not
// unset yet. They are kept so that it can unset them, and leaves the settings of others.
func settings(p *api.NeonProject, is *tenant) []string {
	names := []string{"pitr_interval"}
	for name := range p.Spec.TenantConfig {
		names = append(names, name)
	}
	for _, name := range p.Status.Settings {
		if is.is.Config[name] != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// change makes a tenant as wanted, one request after the other.
func change(ctx context.Context, sc *upstream.Controller, is, want *tenant) error {
	if is.is.Placement != want.is.Placement {
		if err := sc.SetPlacement(ctx, want.id, want.is.Placement); err != nil {
			return fmt.Errorf("place tenant: %w", err)
		}
	}
	if set := changed(is, want); len(set) > 0 {
		if err := sc.PatchTenantConfig(ctx, want.id, set); err != nil {
			return fmt.Errorf("configure tenant: %w", err)
		}
	}
	if is.shards < want.shards {
		if _, err := sc.SplitTenant(ctx, want.id, want.shards); err != nil {
			return fmt.Errorf("split tenant: %w", err)
		}
	}
	return nil
}

// same reports whether two values of a setting mean the same. The storage controller writes
// durations in its own way: "7 days" comes back as "7days".
func same(is, want any) bool {
	a, ok := is.(string)
	b, also := want.(string)
	if !ok || !also {
		return reflect.DeepEqual(is, want)
	}
	da, oka := parseDuration(a)
	db, okb := parseDuration(b)
	if oka && okb {
		return da == db
	}
	return a == b
}

func tenantReady(t *tenant) ready.State {
	wait := func(format string, args ...any) ready.State {
		return ready.State{Phase: ready.Waiting, Message: fmt.Sprintf(format, args...)}
	}
	if len(t.is.Shards) == 0 {
		return wait("it has no shards")
	}
	for i, s := range t.is.Shards {
		switch {
		case s.Splitting:
			return wait("shard %d is being split", i)
		case s.Attached == nil && s.LastError != "":
			return wait("no pageserver has shard %d: %s", i, s.LastError)
		case s.Attached == nil:
			return wait("no pageserver has shard %d", i)
		case s.Reconciling:
			return wait("shard %d is being moved", i)
		}
	}
	return ready.State{Phase: ready.Ready}
}

// places returns the pageservers of the shards, nil while one has none.
func (t *tenant) places() []api.Shard {
	var all []api.Shard
	for _, s := range t.is.Shards {
		if s.Attached == nil {
			return nil
		}
		all = append(all, api.Shard{Pageserver: *s.Attached})
	}
	return all
}

// refused marks the error of a creation that certainly had no effect.
func refused(err error) error {
	if s := upstream.Status(err); s == 400 || s == 401 || s == 403 || s == 404 || s == 412 {
		return fmt.Errorf("%w: %w", plan.ErrRefused, err)
	}
	return err
}
