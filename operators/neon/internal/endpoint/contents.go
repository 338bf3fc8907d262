package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

func roleName(r *api.NeonRole) string               { return cmp.Or(r.Spec.Name, r.Name) }
func databaseName(d *api.NeonBranchDatabase) string { return cmp.Or(d.Spec.Name, d.Name) }

// contents are NeonRoles or NeonBranchDatabases. The configuration of a compute is invalid as a whole if it
// has a name twice, or one that PostgreSQL refuses. So such an object is left out, and its own condition
// says why.
type contents[T any, P interface {
	*T
	metav1.Object
}] struct {
	kind string
	name func(*T) string // in PostgreSQL
	bad  func(name string) string
	has  func(*T) bool // it has its name already
}

var (
	roles = contents[api.NeonRole, *api.NeonRole]{
		"NeonRole", roleName, spec.BadRole, func(r *api.NeonRole) bool { return r.Status.Secret != "" },
	}
	databases = contents[api.NeonBranchDatabase, *api.NeonBranchDatabase]{
		"NeonBranchDatabase", databaseName, spec.BadDatabase,
		func(d *api.NeonBranchDatabase) bool {
			return meta.IsStatusConditionTrue(d.Status.Conditions.Conditions, "Ready")
		},
	}
)

// before orders objects of one name: the first has it.
func (c contents[T, P]) before(a, b *T) bool {
	if c.has(a) != c.has(b) {
		return c.has(a)
	}
	at, bt := P(a).GetCreationTimestamp(), P(b).GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), cmp.Compare(P(a).GetUID(), P(b).GetUID())) < 0
}

// usable returns the objects that can be in a configuration, by their names.
func (c contents[T, P]) usable(objects iter.Seq2[*T, error]) ([]*T, error) {
	first := map[string]*T{}
	for o, err := range objects {
		if err != nil {
			return nil, err // without it, others would leave the configuration
		}
		name := c.name(o)
		if P(o).GetDeletionTimestamp() != nil || c.bad(name) != "" {
			continue
		}
		if other := first[name]; other == nil || c.before(o, other) {
			first[name] = o
		}
	}
	all := slices.Collect(maps.Values(first))
	slices.SortFunc(all, func(a, b *T) int { return cmp.Compare(c.name(a), c.name(b)) })
	return all, nil
}

// refusal says why an object is not among those that are usable.
func (c contents[T, P]) refusal(of *T, usable []*T) (said metav1.Condition, refused bool) {
	said = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse}
	name := c.name(of)
	if why := c.bad(name); why != "" {
		said.Reason, said.Message = "BadName", fmt.Sprintf("%q: %s", name, why)
		return said, true
	}
	for _, o := range usable {
		if c.name(o) == name && P(o).GetUID() != P(of).GetUID() {
			said.Reason = "NameTaken"
			said.Message = fmt.Sprintf("%s %s has the name %s in PostgreSQL: delete one of the two",
				c.kind, P(o).GetName(), name)
			return said, true
		}
	}
	return said, false
}

// namesakes returns those of a branch's objects that wait for the name of another one.
func (c contents[T, P]) namesakes(of *T, objects iter.Seq2[*T, error]) (keys []kube.Key) {
	for o, err := range objects {
		if err == nil && P(o).GetUID() != P(of).GetUID() && c.name(o) == c.name(of) {
			keys = append(keys, kube.KeyOf(P(o)))
		}
	}
	return keys
}

// rolesOn returns the roles of a branch.
func (op *Operator) rolesOn(ctx context.Context, namespace, branch string) iter.Seq2[*api.NeonRole, error] {
	return op.roles.Get(ctx, kube.Key{Namespace: namespace, Name: branch})
}

// databasesOn returns the databases of a branch.
func (op *Operator) databasesOn(
	ctx context.Context, namespace, branch string,
) iter.Seq2[*api.NeonBranchDatabase, error] {
	return op.databases.Get(ctx, kube.Key{Namespace: namespace, Name: branch})
}

// rolesOf returns the roles of an endpoint's branch whose passwords are there.
func (op *Operator) rolesOf(ctx context.Context, e *api.NeonEndpoint) ([]*api.NeonRole, error) {
	all, err := roles.usable(op.rolesOn(ctx, e.Namespace, e.Spec.Branch))
	return slices.DeleteFunc(all, func(r *api.NeonRole) bool { return r.Status.Secret == "" }), err
}
