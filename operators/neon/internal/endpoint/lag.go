package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/replica"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// lagging says why a replica that runs does not follow its branch, if it does not. A login as one of
// the branch's roles tells its position; a branch without roles has no clients either.
//
// A session of the operator's own can count as a use of the compute. So a replica that follows is
// asked once a minute only.
func (op *Operator) lagging(ctx context.Context, e *api.NeonEndpoint, start string, now time.Time) string {
	key := kube.KeyOf(e)
	before := op.moments.followed(key, start)
	if before.behind == "" && now.Sub(before.looked) < op.limits.followed {
		return ""
	}
	next := follows{start: start, looked: now, lag: before.lag}
	at, err := op.replayed(ctx, e)
	var end upstream.LSN
	if err == nil {
		end, err = op.storageEnd(ctx, e)
	}
	switch {
	case errors.Is(err, errNoRole), errors.Is(err, replica.ErrLogin):
	case err != nil:
		next.behind = err.Error()
	default:
		next.lag = before.lag.See(now, at, end)
		next.behind = next.lag.Behind(now, op.limits.lag)
	}
	op.moments.follow(key, next)
	return next.behind
}

var errNoRole = errors.New("the branch has no role")

// replayed returns the position of a replica.
func (op *Operator) replayed(ctx context.Context, e *api.NeonEndpoint) (upstream.LSN, error) {
	roles, err := op.rolesOf(ctx, e)
	switch {
	case err != nil:
		return 0, err
	case len(roles) == 0:
		return 0, errNoRole
	}
	secret, err := op.Secrets.In(e.Namespace).Cached().Get(ctx, roles[0].Status.Secret)
	if err != nil {
		return 0, fmt.Errorf("get the password of NeonRole %s: %w", roles[0].Name, err)
	}
	config, err := pgconn.ParseConfig("sslmode=disable dbname=postgres")
	if err != nil {
		return 0, fmt.Errorf("prepare to ask the replica: %w", err)
	}
	_, p, err := op.placeOf(ctx, e)
	if err != nil {
		return 0, err
	}
	if config.TLSConfig, err = op.Clients.TLS(ctx, kube.Key{Namespace: e.Namespace, Name: p.Spec.Cluster}); err != nil {
		return 0, err
	}
	if config.TLSConfig != nil {
		config.TLSConfig.ServerName = hostName(e)
	}
	config.Host, config.Port = hostName(e), postgresPort
	config.User, config.Password = roleName(roles[0]), string(secret.Data[passwordKey])
	config.RuntimeParams["application_name"] = "neon-operator"
	config.ConnectTimeout = 5 * time.Second
	if op.Dial != nil {
		config.DialFunc = op.Dial
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	return replica.Position(ctx, config)
}

// storageEnd returns the end of a branch's history in the storage.
func (op *Operator) storageEnd(ctx context.Context, e *api.NeonEndpoint) (upstream.LSN, error) {
	t, err := op.history(ctx, e)
	return t.LastRecordLSN, err
}

// history returns the timeline of an endpoint's branch as the storage has it.
func (op *Operator) history(ctx context.Context, e *api.NeonEndpoint) (upstream.Timeline, error) {
	b, p, err := op.placeOf(ctx, e)
	if err != nil {
		return upstream.Timeline{}, err
	}
	sc, err := op.Clients.Controller(ctx, kube.Key{Namespace: e.Namespace, Name: p.Spec.Cluster})
	if err != nil {
		return upstream.Timeline{}, err
	}
	t, err := sc.Timeline(ctx, b.Status.TenantID, b.Status.TimelineID)
	if err != nil {
		return upstream.Timeline{}, fmt.Errorf("look at the history of branch %s: %w", b.Name, err)
	}
	return t, nil
}

// readable returns an error unless the storage has the position that a Static endpoint shows. A
// compute there would look for it for ever, and say nothing.
func (op *Operator) readable(ctx context.Context, e *api.NeonEndpoint, timeline string) error {
	if e.Spec.Type != api.Static || e.Status.Timeline == timeline { // one that runs keeps its position alive
		return nil
	}
	at, err := upstream.ParseLSN(string(e.Spec.LSN))
	if err != nil {
		return err
	}
	t, err := op.history(ctx, e)
	switch {
	case err != nil:
		return err
	case at > t.LastRecordLSN:
		return fmt.Errorf("branch %s has no LSN %s yet: its history ends at %s. Make another endpoint with an LSN up to that",
			e.Spec.Branch, at, t.LastRecordLSN)
	case at < t.MinReadableLSN:
		return fmt.Errorf("branch %s has LSN %s no more: its history begins at %s. Make another endpoint with an LSN "+
			"from there on, or have the project keep more history (spec.historyRetention)", e.Spec.Branch, at, t.MinReadableLSN)
	}
	return nil
}
