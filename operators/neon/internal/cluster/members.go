package cluster

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// A member is a safekeeper or a pageserver as the storage controller knows it, as a thing of
// the plan. T is upstream's form of it.
type member[T any] struct {
	cluster kube.Key
	id      int64
	T       T
	// volume is that of a safekeeper.
	volume volume
}

func (m *member[T]) name() string { return m.cluster.String() + "/" + strconv.FormatInt(m.id, 10) }

// parseMember returns the cluster and the id of a member's name.
func parseMember(name string) (cluster kube.Key, id int64, err error) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return kube.Key{}, 0, fmt.Errorf("parse %q: not the name of a member", name)
	}
	if id, err = strconv.ParseInt(name[i+1:], 10, 64); err != nil {
		return kube.Key{}, 0, fmt.Errorf("parse %q: %w", name, err)
	}
	cluster, err = ParseKey(name[:i])
	return cluster, id, err
}

// ParseKey parses the text of a key, which is namespace/name.
func ParseKey(text string) (kube.Key, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return kube.Key{}, fmt.Errorf("parse %q: not namespace/name", text)
	}
	return kube.Key{Namespace: namespace, Name: name}, nil
}

// memberOf returns the storage controller, the cluster and the id of a member. It returns no
// storage controller if the whole cluster is being deleted: its members end with it, and have
// nobody to hand their data to.
func (op *Operator) memberOf(
	ctx context.Context, r plan.Ref,
) (sc *upstream.Controller, cluster kube.Key, id int64, err error) {
	if cluster, id, err = parseMember(r.Name); err != nil {
		return nil, cluster, id, err
	}
	c, err := op.Clusters.In(cluster.Namespace).Cached().Get(ctx, cluster.Name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && c.DeletionTimestamp != nil:
		return nil, cluster, id, nil
	case err != nil:
		return nil, cluster, id, err
	}
	sc, err = op.Clients.Controller(ctx, cluster)
	return sc, cluster, id, err
}

type (
	registration = member[upstream.Registration]
	node         = member[upstream.Node]
)

// registrations registers safekeepers at the storage controller.
func (op *Operator) registrations() *plan.Things[registration] {
	observe := func(ctx context.Context, r plan.Ref) (*registration, error) {
		sc, cluster, id, err := op.memberOf(ctx, r)
		if err != nil || sc == nil {
			return nil, err
		}
		is, err := sc.Registration(ctx, id)
		switch {
		case upstream.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		v, err := op.lookAtVolume(ctx, sc, cluster, id)
		return &registration{cluster: cluster, id: id, T: is, volume: v}, err
	}
	// A registration overwrites another one: it is repeated if the answer is lost.
	register := func(ctx context.Context, r plan.Ref, want *registration) (*registration, error) {
		sc, err := op.Clients.Controller(ctx, want.cluster)
		if err != nil {
			return nil, err
		}
		if err := sc.Register(ctx, want.T); err != nil {
			return nil, err
		}
		return observe(ctx, r)
	}
	return &plan.Things[registration]{
		Kind:    "Safekeeper",
		Target:  op.controllerTarget,
		Name:    func(r *registration) string { return r.name() },
		Observe: observe,
		Create:  register,
		// The zone stays as it was registered.
		Differs: func(is, want *registration) bool {
			i, w := is.T, want.T
			return i.Host != w.Host || i.Port != w.Port || i.HTTPPort != w.HTTPPort ||
				!reflect.DeepEqual(i.HTTPSPort, w.HTTPSPort)
		},
		Update: func(ctx context.Context, r plan.Ref, _, want *registration) (*registration, error) {
			return register(ctx, r, want)
		},
		// The storage controller cannot forget a safekeeper.
		Delete: func(ctx context.Context, r plan.Ref) error {
			sc, _, id, err := op.memberOf(ctx, r)
			if err != nil || sc == nil {
				return err
			}
			err = sc.SetSafekeeperPolicy(ctx, id, upstream.SafekeeperDecommissioned)
			if upstream.IsNotFound(err) {
				return nil
			}
			return err
		},
		Idempotent: true,
		Adopt:      func(plan.Ref, *registration) bool { return true },
		Poll:       time.Minute,
	}
}

// registered returns the registration that a safekeeper with a StatefulSet should have. While TLS is added
// or removed, some serve it at another port than the others.
func registered(c *api.NeonCluster, id int64, is *appsv1.StatefulSet) *registration {
	name, _ := zoneOf(c.Spec.Safekeepers.Zones, c.Status.Safekeepers, id)
	return &registration{cluster: kube.KeyOf(c), id: id, T: upstream.Registration{
		ID: id, Region: "neon", Version: 1, Host: SafekeeperHost(c.Name, c.Namespace, id), Port: SafekeeperPort,
		HTTPPort: SafekeeperHTTPPort, HTTPSPort: servedPort(is), Zone: name,
	}}
}

// registrationReady judges a safekeeper. One that leaves needs only be registered.
func registrationReady(r *registration, leaves bool) ready.State {
	switch {
	case leaves, r.T.Policy == upstream.SafekeeperActive && r.volume.missing == "":
		return ready.State{Phase: ready.Ready}
	case r.volume.missing != "":
		return ready.State{Phase: ready.Waiting, Message: "its volume lacks timeline " + r.volume.missing}
	}
	return ready.State{Phase: ready.Waiting, Message: "the storage controller says that it is " + string(r.T.Policy)}
}

// nodes watches pageservers register themselves, and removes them.
func (op *Operator) nodes() *plan.Things[node] {
	observe := func(ctx context.Context, r plan.Ref) (*node, error) {
		sc, cluster, id, err := op.memberOf(ctx, r)
		if err != nil || sc == nil {
			return nil, err
		}
		is, err := sc.Node(ctx, id)
		if upstream.IsNotFound(err) {
			return nil, nil
		}
		return &node{cluster: cluster, id: id, T: is}, err
	}
	return &plan.Things[node]{
		Kind:    "Pageserver",
		Target:  op.controllerTarget,
		Name:    func(n *node) string { return n.name() },
		Observe: observe,
		// A pageserver registers itself at its start.
		Create: func(_ context.Context, _ plan.Ref, want *node) (*node, error) {
			return &node{cluster: want.cluster, id: want.id}, nil
		},
		Delete: func(ctx context.Context, r plan.Ref) error {
			sc, cluster, id, err := op.memberOf(ctx, r)
			if err != nil || sc == nil {
				return err
			}
			removal, err := op.removalOf(ctx, cluster, id, r.Name)
			if err != nil {
				return err
			}
			return removal.remove(ctx, sc, id)
		},
		Idempotent: true,
		Adopt:      func(plan.Ref, *node) bool { return true },
		Poll:       30 * time.Second,
	}
}

func nodeReady(n *node) ready.State {
	switch n.T.Availability {
	case upstream.NodeActive:
		return ready.State{Phase: ready.Ready}
	case "":
		return ready.State{Phase: ready.Waiting, Message: "it has not registered itself"}
	}
	return ready.State{Phase: ready.Waiting, Message: "the storage controller says that it is " + string(n.T.Availability)}
}
