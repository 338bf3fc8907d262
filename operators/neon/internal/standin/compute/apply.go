package compute

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// apply brings roles and databases to those of a configuration. Those that are not in it stay.
func (n *node) apply(ctx context.Context, c spec.Config) error {
	conn, err := n.connect(ctx, "")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it was only read from
	if _, err := conn.Exec(ctx, prepare); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if c.Spec.DropSubscriptionsBeforeStart {
		if err := n.dropSubscriptions(ctx, conn); err != nil {
			return err
		}
	}
	for _, delta := range c.Spec.DeltaOperations {
		if err := n.delta(ctx, conn, c.Spec.Cluster, delta); err != nil {
			return fmt.Errorf("%s %q: %w", delta.Action, delta.Name, err)
		}
	}
	for _, role := range c.Spec.Cluster.Roles {
		if err := applyRole(ctx, conn, role); err != nil {
			return fmt.Errorf("role %q: %w", role.Name, err)
		}
	}
	for _, database := range c.Spec.Cluster.Databases {
		if err := n.applyDatabase(ctx, conn, database); err != nil {
			return fmt.Errorf("database %q: %w", database.Name, err)
		}
	}
	return nil
}

const prepare = `do $$ begin
	if not exists (select from pg_roles where rolname = 'neon_superuser') then
		create role neon_superuser createdb createrole nologin replication bypassrls
			in role pg_read_all_data, pg_write_all_data;
	end if;
end $$`

func exists(ctx context.Context, conn *pgx.Conn, query, name string) (bool, error) {
	var found bool
	err := conn.QueryRow(ctx, "select exists ("+query+")", name).Scan(&found)
	return found, err
}

const (
	isRole     = "select from pg_roles where rolname = $1"
	isDatabase = "select from pg_database where datname = $1"
)

func name(text string) string { return pgx.Identifier{text}.Sanitize() }

func applyRole(ctx context.Context, conn *pgx.Conn, role spec.Role) error {
	there, err := exists(ctx, conn, isRole, role.Name)
	if err != nil {
		return err
	}
	verb := "alter"
	if !there {
		verb = "create"
	}
	statement := verb + " role " + name(role.Name) + " login createrole createdb bypassrls replication inherit"
	for _, option := range role.Options {
		value := option.Value
		if option.Type == "string" {
			value = quoted(value)
		}
		statement += " " + option.Name + " " + value
	}
	switch password := role.EncryptedPassword; {
	case password == nil:
		statement += " password null"
	case strings.HasPrefix(*password, "SCRAM-SHA-256"):
		statement += " password " + quoted(*password)
	default:
		statement += " password " + quoted("md5"+*password)
	}
	_, err = conn.Exec(ctx, statement+"; grant neon_superuser to "+name(role.Name))
	return err
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func (n *node) applyDatabase(ctx context.Context, conn *pgx.Conn, database spec.Database) error {
	there, err := exists(ctx, conn, isDatabase, database.Name)
	if err != nil {
		return err
	}
	statement := "alter database " + name(database.Name) + " owner to " + name(database.Owner)
	if !there {
		statement = "create database " + name(database.Name) + " owner " + name(database.Owner)
	}
	if _, err := conn.Exec(ctx, statement); err != nil {
		return err
	}
	return n.inside(ctx, database.Name, "alter schema public owner to "+name(database.Owner))
}

// inside runs a statement in a database.
func (n *node) inside(ctx context.Context, database, statement string) error {
	conn, err := n.connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // its statement has ended
	_, err = conn.Exec(ctx, statement)
	return err
}

// dropSubscriptions keeps a branch from taking its parent's subscriptions.
func (n *node) dropSubscriptions(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "select datname, subname from pg_subscription s join pg_database d on d.oid = s.subdbid")
	if err != nil {
		return err
	}
	type subscription struct{ database, name string }
	var all []subscription
	var s subscription
	if _, err := pgx.ForEachRow(rows, []any{&s.database, &s.name}, func() error {
		all = append(all, s)
		return nil
	}); err != nil {
		return err
	}
	for _, s := range all {
		for _, statement := range []string{" disable", " set (slot_name = none)"} {
			if err := n.inside(ctx, s.database, "alter subscription "+name(s.name)+statement); err != nil {
				return fmt.Errorf("drop subscription %q: %w", s.name, err)
			}
		}
		if err := n.inside(ctx, s.database, "drop subscription "+name(s.name)); err != nil {
			return fmt.Errorf("drop subscription %q: %w", s.name, err)
		}
	}
	return nil
}

// delta makes one change that the lists cannot say.
func (n *node) delta(ctx context.Context, conn *pgx.Conn, cluster spec.Cluster, d spec.DeltaOperation) error {
	switch d.Action {
	case spec.DeleteDatabase:
		_, err := conn.Exec(ctx, "drop database if exists "+name(d.Name)+" with (force)")
		return err
	case spec.RenameDatabase:
		there, err := exists(ctx, conn, isDatabase, d.Name)
		if err == nil && there {
			_, err = conn.Exec(ctx, "alter database "+name(d.Name)+" rename to "+name(d.NewName))
		}
		return err
	case spec.DeleteRole:
		return n.deleteRole(ctx, conn, cluster, d.Name)
	case "rename_role":
		there, err := exists(ctx, conn, isRole, d.Name)
		if err == nil && !there {
			n.log.Error("rename_role: panic: called `Option::unwrap()` on a `None` value")
			<-ctx.Done() // upstream's thread is gone, and nobody answers any more
			return ctx.Err()
		}
		return err // of a role that is there nothing becomes
	}
	return fmt.Errorf("unknown delta operation %q", d.Action)
}

// deleteRole gives the property of a role to the owner of the first database, and drops the role.
func (n *node) deleteRole(ctx context.Context, conn *pgx.Conn, cluster spec.Cluster, role string) error {
	there, err := exists(ctx, conn, isRole, role)
	if err != nil || !there {
		return err
	}
	heir := "cloud_admin"
	if len(cluster.Databases) > 0 {
		heir = cluster.Databases[0].Owner
	}
	rows, err := conn.Query(ctx, "select datname from pg_database where datallowconn")
	if err != nil {
		return err
	}
	databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, database := range databases {
		statement := "reassign owned by " + name(role) + " to " + name(heir) + "; drop owned by " + name(role)
		if err := n.inside(ctx, database, statement); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "drop role "+name(role))
	return err
}
