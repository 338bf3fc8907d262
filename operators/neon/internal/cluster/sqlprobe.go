package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// controllerDatabase is the storage controller's database, as a thing of the plan.
type controllerDatabase struct {
	cluster kube.Key
	login   string // the digest of the URL by which it was asked, or is to be asked
	failure string // why it does not answer, empty if it does
}

// databases asks the storage controllers' databases. The readiness of a storage controller
// says nothing about its database: without one it answers as ever, and hangs at the first
// tenant.
func (op *Operator) databases() *plan.Things[controllerDatabase] {
	return &plan.Things[controllerDatabase]{
		Kind:    "Database",
		Target:  &plan.Target{Name: "the storage controller's database", Timeout: 10 * time.Second},
		Name:    func(d *controllerDatabase) string { return d.cluster.String() },
		Observe: op.observeDatabase,
		Create: func(context.Context, plan.Ref, *controllerDatabase) (*controllerDatabase, error) {
			return nil, fmt.Errorf("%w: a database is only observed", plan.ErrRefused)
		},
		// Another URL is tried before the storage controller is restarted with it.
		Differs: func(is, want *controllerDatabase) bool { return is.login != want.login },
		Update: func(ctx context.Context, r plan.Ref, _, _ *controllerDatabase) (*controllerDatabase, error) {
			return op.observeDatabase(ctx, r)
		},
		Delete:     func(context.Context, plan.Ref) error { return nil },
		Idempotent: true,
		Adopt:      func(plan.Ref, *controllerDatabase) bool { return true },
		Poll:       15 * time.Second,
	}
}

// observeDatabase asks a database.
func (op *Operator) observeDatabase(ctx context.Context, r plan.Ref) (*controllerDatabase, error) {
	key, err := ParseKey(r.Name)
	if err != nil {
		return nil, err
	}
	c, err := op.Clusters.In(key.Namespace).Cached().Get(ctx, key.Name)
	if err != nil {
		return nil, err
	}
	login, err := op.digest(ctx, c, databaseLogin(c)) // first: the database is asked by this URL, or a later one
	if err != nil {
		return nil, err
	}
	is := &controllerDatabase{cluster: key, login: login}
	if err := op.askDatabase(ctx, c); err != nil {
		is.failure = err.Error()
	}
	return is, nil
}

func (op *Operator) askDatabase(ctx context.Context, c *api.NeonCluster) error {
	from := databaseURL(c)
	secret, err := op.Secrets.In(c.Namespace).Cached().Get(ctx, from.Name)
	if err != nil {
		return fmt.Errorf("get the URL of the database: %w", err)
	}
	if len(secret.Data[from.Key]) == 0 {
		// An empty URL is that of a database which the environment of the operator names.
		return fmt.Errorf("get the URL of the database: Secret %s has no key %q", from.Name, from.Key)
	}
	config, err := pgconn.ParseConfig(string(secret.Data[from.Key]))
	if err != nil {
		return fmt.Errorf("key %q of Secret %s is not the URL of a database", from.Key, from.Name)
	}
	if op.Dial != nil {
		config.DialFunc = op.Dial
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	db, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", withoutPassword(err))
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }() // it was only asked
	if _, err := db.Exec(ctx, "select 1").ReadAll(); err != nil {
		return fmt.Errorf("ask the database: %w", err)
	}
	return nil
}

// withoutPassword drops the URL from an error that has one.
func withoutPassword(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
