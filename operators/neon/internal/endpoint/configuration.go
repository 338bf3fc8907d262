package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/cluster"
	"github.com/pintle-go/pintle/operators/neon/internal/place"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// configuration returns the Secret with a compute's configuration. A compute starts with it
// even while the operator is away.
func (op *Operator) configuration(
	ctx context.Context, e *api.NeonEndpoint, b *api.NeonBranch, secure *security,
) (*corev1.Secret, error) {
	in, err := op.input(ctx, e, b)
	if err != nil {
		return nil, err
	}
	secure.certify(&in)
	if err := op.readable(ctx, e, in.Timeline); err != nil {
		return nil, err
	}
	config, err := spec.Render(in)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	hash := spec.Hash(config)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: computeName(e), Labels: labels(e),
			Annotations: map[string]string{
				place.HashAnnotation: hash, restartAnnotation: hash,
				place.ShardsAnnotation:      place.Text(pageservers(in)),
				place.SafekeepersAnnotation: place.Text(b.Status.Safekeepers),
			},
		},
		Data: map[string][]byte{configFile: text},
	}
	before, err := op.Secrets.In(secret.Namespace).Cached().Get(ctx, secret.Name)
	switch {
	case apierrors.IsNotFound(err):
		return secret, nil
	case err != nil:
		return nil, err
	}
	if bytes.Equal(before.Data[configFile], text) {
		secret.Annotations[restartAnnotation] = before.Annotations[restartAnnotation]
		return secret, nil
	}
	var was spec.Config
	if json.Unmarshal(before.Data[configFile], &was) == nil {
		if hot, _ := spec.Hot(was, config); hot {
			secret.Annotations[restartAnnotation] = before.Annotations[restartAnnotation]
		}
	}
	return secret, nil
}

// input returns all that a compute's configuration follows from.
func (op *Operator) input(ctx context.Context, e *api.NeonEndpoint, b *api.NeonBranch) (spec.Input, error) {
	none := spec.Input{}
	if b.Spec.Archived {
		return none, fmt.Errorf("NeonBranch %s is archived: set spec.archived to false", b.Name)
	}
	if err := fits(e); err != nil {
		return none, err
	}
	p, err := op.Projects.In(e.Namespace).Cached().Get(ctx, b.Spec.Project)
	if err != nil {
		return none, err
	}
	key, err := op.Clients.Key(ctx, kube.Key{Namespace: e.Namespace, Name: p.Spec.Cluster})
	if err != nil {
		return none, err
	}
	in := spec.Input{
		Tenant: b.Status.TenantID, Timeline: b.Status.TimelineID,
		Project: p.Name, Branch: b.Name, Endpoint: e.Name,
		Mode: mode(e), PostgresVersion: int(p.Spec.PostgresVersion),
		Token:             key.Sign(token.Claims{Scope: token.Tenant, TenantID: b.Status.TenantID}),
		Keys:              []token.JWK{key.Public().JWK()},
		DropSubscriptions: b.Spec.From != nil && e.Spec.Type == api.ReadWrite,
		Port:              postgresPort, Settings: e.Spec.Settings,
		Memory: memory(e), FileCache: fileCache(e), TemporaryFiles: temporary(e),
		SafekeepersGeneration: uint32(b.Status.SafekeepersGeneration), // #nosec G115 -- counts migrations
	}
	for _, s := range p.Status.Shards {
		in.Shards = append(in.Shards, spec.Place{
			Pageserver: uint64(s.Pageserver), // #nosec G115 -- ids are positive
			Host:       cluster.PageserverHost(p.Spec.Cluster, e.Namespace, s.Pageserver), Port: cluster.PageserverPort,
		})
	}
	if e.Spec.Type != api.ReadWrite {
		if in.AtLeast, err = op.ofPrimary(ctx, e); err != nil {
			return none, err
		}
	}
	if len(in.Shards) > 1 {
		in.StripeSize = uint32(p.Status.StripeSize) // #nosec G115 -- a few thousand pages
	}
	for _, id := range b.Status.Safekeepers {
		host := cluster.SafekeeperHost(p.Spec.Cluster, e.Namespace, id)
		in.Safekeepers = append(in.Safekeepers, host+":"+strconv.Itoa(cluster.SafekeeperPort))
	}
	return in, op.contents(ctx, e, &in)
}

// ofPrimary returns the settings that a compute which reads must not have below those of its
// branch's writer. PostgreSQL would not start, or stop to replay.
func (op *Operator) ofPrimary(ctx context.Context, e *api.NeonEndpoint) (map[string]int, error) {
	least := map[string]int{}
	for other, err := range op.byBranch.Get(ctx, kube.Key{Namespace: e.Namespace, Name: e.Spec.Branch}) {
		if err != nil {
			return nil, err
		}
		if other.Spec.Type != api.ReadWrite {
			continue
		}
		for name, value := range spec.Floor(spec.Input{Memory: memory(other), Settings: other.Spec.Settings}) {
			least[name] = max(least[name], value)
		}
	}
	return least, nil
}

// pageservers returns the ids of an input's pageservers, by shard.
func pageservers(in spec.Input) []int64 {
	ids := make([]int64, len(in.Shards))
	for i, s := range in.Shards {
		ids[i] = int64(s.Pageserver) // #nosec G115 -- it was one
	}
	return ids
}

// contents adds the roles and databases. Only an endpoint that writes makes them.
func (op *Operator) contents(ctx context.Context, e *api.NeonEndpoint, in *spec.Input) error {
	names := map[string]string{} // in PostgreSQL, by the names of the objects
	roles, err := op.rolesOf(ctx, e)
	if err != nil {
		return err
	}
	for _, r := range roles {
		secret, err := op.Secrets.In(e.Namespace).Cached().Get(ctx, r.Status.Secret)
		if err != nil {
			return fmt.Errorf("get the password of NeonRole %s: %w", r.Name, err)
		}
		verifier := string(secret.Data[verifierKey])
		names[r.Name] = roleName(r)
		in.Roles = append(in.Roles, spec.Role{Name: roleName(r), EncryptedPassword: &verifier})
	}
	all, err := databases.usable(op.databasesOn(ctx, e.Namespace, e.Spec.Branch))
	if err != nil {
		return err
	}
	for _, d := range all {
		owner, ok := names[d.Spec.Owner]
		if !ok {
			continue // its own condition says so: see owned
		}
		in.Databases = append(in.Databases, spec.Database{Name: databaseName(d), Owner: owner})
	}
	return nil
}

func mode(e *api.NeonEndpoint) spec.Mode {
	switch e.Spec.Type {
	case api.ReadOnly:
		return spec.Replica()
	case api.Static:
		return spec.Static(string(e.Spec.LSN))
	}
	return spec.Primary()
}

// image returns the image of an endpoint's compute.
func (op *Operator) image(ctx context.Context, e *api.NeonEndpoint, b *api.NeonBranch) (image, error) {
	p, err := op.Projects.In(e.Namespace).Cached().Get(ctx, b.Spec.Project)
	if err != nil {
		return image{}, err
	}
	c, err := op.Clusters.In(e.Namespace).Cached().Get(ctx, p.Spec.Cluster)
	if err != nil {
		return image{}, err
	}
	version := strconv.Itoa(int(p.Spec.PostgresVersion))
	if name, ok := c.Spec.ComputeImages[version]; ok {
		return image{name, c.Spec.ImagePullSecrets}, nil
	}
	return image{}, fmt.Errorf("NeonCluster %s has no compute image for PostgreSQL %s: add it to spec.computeImages",
		c.Name, version)
}
