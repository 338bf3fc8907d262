package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

const (
	tenant = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1"
	root   = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb1"
	child  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2"
	other  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb3"
)

// storage starts the stand-ins: two pageservers and four safekeepers.
func storage(t *testing.T) (*lab.Lab, *upstream.Controller) {
	t.Helper()
	l := lab.New(t, lab.Config{Quiet: true, TenantRate: 11})
	l.StartController(t)
	c := upstream.NewController(upstream.Config{URL: l.URL(t, "controller"), HTTP: l.HTTP, Sign: l.Key.Sign, Timeout: 2 * time.Minute})
	for id := 1; id <= 2; id++ {
		l.StartPageserver(t, id)
		l.WaitPageserver(t, id)
	}
	for id, name := range []string{"safekeeper-1", "safekeeper-2", "safekeeper-3", "safekeeper-4"} {
		l.StartSafekeeper(t, id+1)
		must(t, c.Register(t.Context(), upstream.Registration{
			ID: int64(id + 1), Region: "r", Version: 1, Host: "127.0.0.1", Port: l.Port(t, name+"-pg"), HTTPPort: l.Port(t, name),
			Zone: name,
		}))
	}
	l.Controller.Heartbeat(t.Context())
	return l, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// TestNodes makes the calls about pageservers and safekeepers.
func TestNodes(t *testing.T) {
	t.Parallel()
	l, c := storage(t)
	ctx := t.Context()
	must(t, c.Ready(ctx))
	if n := value(c.Nodes(ctx))(t); len(n) != 2 || n[0].Availability != upstream.NodeActive || n[0].HTTPPort != l.Port(t, "pageserver-1") {
		t.Errorf("nodes are %+v", n)
	}
	if _, err := c.Node(ctx, 7); !upstream.IsNotFound(err) {
		t.Errorf("a node that is not there: %v", err)
	}
	err := c.RegisterNode(ctx, upstream.NodeRegistration{ID: 1, PGHost: "h", HTTPHost: "127.0.0.1", HTTPPort: 1, Zone: "z"})
	if !upstream.IsConflict(err) || upstream.Folded(err) != 0 || upstream.Retryable(err) {
		t.Errorf("another address: %v", err)
	}
	must(t, c.SetSafekeeperPolicy(ctx, 4, upstream.SafekeeperPause))
	if r := value(c.Registration(ctx, 4))(t); r.Policy != upstream.SafekeeperPause || r.Zone != "safekeeper-4" {
		t.Errorf("registration is %+v", r)
	}
	if all := value(c.Registrations(ctx))(t); len(all) != 4 {
		t.Errorf("registrations are %+v", all)
	}

	must(t, c.CreateTenant(ctx, upstream.NewTenant{ID: tenant, Placement: upstream.Attached(1)}))
	must(t, c.DrainNode(ctx, 1))
	kubetest.Eventually(t, "the node is drained", func() error {
		n, err := c.Node(ctx, 1)
		if err == nil && n.Scheduling != upstream.SchedulePauseForRestart {
			err = fmt.Errorf("%+v", n)
		}
		return err
	})
	if err := c.CancelDrain(ctx, 1); upstream.Status(err) != http.StatusPreconditionFailed {
		t.Errorf("cancel of no drain: %v", err)
	}
	must(t, c.ConfigureNode(ctx, 1, upstream.ScheduleActive))
	must(t, c.FillNode(ctx, 1))
	kubetest.Eventually(t, "the node is filled", func() error {
		n, err := c.Node(ctx, 1)
		d, describeErr := c.DescribeTenant(ctx, tenant)
		if err := errors.Join(err, describeErr); err != nil {
			return err
		}
		if n.Scheduling != upstream.ScheduleActive || *d.Shards[0].Attached != 1 {
			return fmt.Errorf("%+v, the tenant is on node %d", n, *d.Shards[0].Attached)
		}
		return nil
	})
	if err := c.CancelFill(ctx, 1); upstream.Status(err) != http.StatusPreconditionFailed {
		t.Errorf("cancel of no fill: %v", err)
	}
	if s := value(c.NodeShards(ctx, 2))(t); len(s) != 1 || s[0].IntendedSecondary == nil || !*s[0].IntendedSecondary {
		t.Errorf("shards are %+v", s)
	}
	must(t, c.ForceDeleteNode(ctx, 2))
	kubetest.Eventually(t, "the node is gone", func() error {
		n, err := c.Node(ctx, 2)
		if upstream.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		return fmt.Errorf("%+v", n)
	})
	if dead := value(c.Tombstones(ctx))(t); len(dead) != 1 || dead[0].ID != 2 {
		t.Errorf("tombstones are %+v", dead)
	}
	must(t, c.DeleteTombstone(ctx, 2))
	if err := c.CancelDeleteNode(ctx, 1); upstream.Status(err) != http.StatusPreconditionFailed {
		t.Errorf("cancel of no deletion: %v", err)
	}
	p := upstream.NewPageserver(upstream.Config{URL: l.URL(t, "pageserver-1"), HTTP: l.HTTP, Sign: l.Key.Sign, Timeout: 2 * time.Minute})
	if id := value(p.ID(ctx))(t); id != 1 {
		t.Errorf("pageserver's ID is %d", id)
	}
	if all := value(p.Tenants(ctx))(t); len(all) != 1 || all[0].ID != tenant || all[0].State.Slug != "Active" {
		t.Errorf("pageserver's tenants are %+v", all)
	}
	must(t, p.ReloadKeys(ctx))
}

// TestTimelines makes the calls about tenants and timelines.
func TestTimelines(t *testing.T) {
	t.Parallel()
	l, c := storage(t)
	ctx := t.Context()
	must(t, c.CreateTenant(ctx, upstream.NewTenant{
		ID: tenant, Placement: upstream.Attached(0), Config: upstream.TenantConfig{"pitr_interval": "7 days"},
	}))
	must(t, c.SetPlacement(ctx, tenant, upstream.Attached(1)))
	must(t, c.PatchTenantConfig(ctx, tenant, upstream.TenantConfig{"gc_horizon": 5, "pitr_interval": nil}))
	if got := value(c.TenantConfig(ctx, tenant))(t); !cmp.Equal(got, upstream.TenantConfig{"gc_horizon": 5.0}) {
		t.Errorf("configuration is %v", got)
	}
	must(t, c.SetTenantConfig(ctx, tenant, nil))
	if all := value(c.Tenants(ctx))(t); len(all) != 1 || all[0].Placement != upstream.Attached(1) || len(all[0].Config) != 0 {
		t.Errorf("tenants are %+v", all)
	}

	made := value(c.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: root, PGVersion: 17}))(t)
	again := value(c.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: root, PGVersion: 17}))(t)
	if made.State != upstream.TimelineActive || made.Safekeepers == nil || len(made.Safekeepers.Safekeepers) != 3 ||
		again.Safekeepers.Generation != made.Safekeepers.Generation {
		t.Errorf("timeline is %+v, then %+v", made, again)
	}
	low := made.MinReadableLSN - 1
	for name, c := range map[string]struct {
		err    error
		folded int
	}{
		"another version":    {second(c.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: root, PGVersion: 16})), 409},
		"collected":          {second(c.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: other, Ancestor: root, StartLSN: &low})), 406},
		"no such ancestor":   {second(c.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: other, Ancestor: other})), 500},
		"no such PostgreSQL": {second(c.CreateTimeline(ctx, tenant, upstream.NewTimeline{ID: other, PGVersion: 99})), 500},
	} {
		if !upstream.IsConflict(c.err) || upstream.Folded(c.err) != c.folded || upstream.Retryable(c.err) {
			t.Errorf("%s: %v", name, c.err)
		}
	}

	// An LSN in the future has no answer.
	high := made.LastRecordLSN + 1
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := c.CreateTimeline(short, tenant, upstream.NewTimeline{ID: other, Ancestor: root, StartLSN: &high}); !upstream.Retryable(err) ||
		upstream.Status(err) != 0 {
		t.Errorf("a branch from the future: %v", err)
	}

	// A lost answer leaves the timeline there, and a repeat finds it.
	l.Controller.Faults.Add(wire.Fault{Method: http.MethodPost, Path: "/timeline", Times: 1, Lost: true})
	branch := upstream.NewTimeline{ID: child, Ancestor: root}
	if _, err := c.CreateTimeline(ctx, tenant, branch); !upstream.Retryable(err) || upstream.Status(err) != 0 {
		t.Errorf("a lost answer: %v", err)
	}
	if got := value(c.CreateTimeline(ctx, tenant, branch))(t); *got.Ancestor != root || *got.AncestorLSN != made.LastRecordLSN {
		t.Errorf("branch is %+v", got)
	}
	if all := value(c.Timelines(ctx, tenant))(t); len(all) != 2 {
		t.Errorf("timelines are %+v", all)
	}
	if all, _, err := c.TimelinesAndOffloaded(ctx, tenant); err != nil || len(all) != 2 {
		t.Errorf("timelines are %+v, %v", all, err)
	}
	if err := c.Archive(ctx, tenant, root); !upstream.HasChildren(err) || upstream.Retryable(err) {
		t.Errorf("archival of a parent: %v", err)
	}
	must(t, c.Archive(ctx, tenant, child))
	if got := value(c.Timeline(ctx, tenant, child))(t); !*got.Archived {
		t.Error("the timeline is not archived")
	}
	must(t, c.Unarchive(ctx, tenant, child))
	if at := value(c.LSNByTime(ctx, tenant, root, time.Now()))(t); at.Kind != upstream.LSNNoData || time.Until(at.ValidUntil) < 30*time.Second {
		t.Errorf("LSN by time is %+v", at)
	}
	must(t, c.LeaseLSN(ctx, tenant, root, made.LastRecordLSN))

	keeper(ctx, t, l, c)
	if moved := value(c.DetachAncestor(ctx, tenant, child))(t); len(moved) != 0 {
		t.Errorf("reparented timelines are %v", moved)
	}
	must(t, c.DeleteTimeline(ctx, tenant, root))
	must(t, c.DeleteTimeline(ctx, tenant, root))
	if _, err := c.Timeline(ctx, tenant, root); !upstream.IsNotFound(err) {
		t.Errorf("a timeline that was deleted: %v", err)
	}
	if got := value(c.SplitTenant(ctx, tenant, 2))(t); !slices.Equal(got, []string{tenant + "-0002", tenant + "-0102"}) {
		t.Errorf("shards are %v", got)
	}
	if err := c.MigrateShard(ctx, tenant+"-0002", 2); upstream.Status(err) != http.StatusPreconditionFailed {
		t.Errorf("migration to another zone: %v", err)
	}
	must(t, c.DeleteTenant(ctx, tenant))
	if _, err := c.DescribeTenant(ctx, tenant); !upstream.IsNotFound(err) {
		t.Errorf("a tenant that was deleted: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// keeper moves the root's WAL to other safekeepers.
func keeper(ctx context.Context, t *testing.T, l *lab.Lab, c *upstream.Controller) {
	t.Helper()
	must(t, c.MigrateSafekeepers(ctx, tenant, root, []int64{2, 3, 4}))
	want := upstream.Location{Generation: 3, Set: []int64{2, 3, 4}}
	if diff := cmp.Diff(want, value(c.Locate(ctx, tenant, root))(t)); diff != "" {
		t.Errorf("location (-want +got):\n%s", diff)
	}
	must(t, c.AbortSafekeeperMigration(ctx, tenant, root))
	first := upstream.NewSafekeeper(upstream.Config{URL: l.URL(t, "safekeeper-1"), HTTP: l.HTTP, Sign: l.Key.Sign, Timeout: 2 * time.Minute})
	fourth := upstream.NewSafekeeper(upstream.Config{URL: l.URL(t, "safekeeper-4"), HTTP: l.HTTP, Sign: l.Key.Sign, Timeout: 2 * time.Minute})
	if id := value(fourth.ID(ctx))(t); id != 4 {
		t.Errorf("safekeeper's ID is %d", id)
	}
	if n := value(fourth.TimelineCount(ctx))(t); n != 1 {
		t.Errorf("safekeeper holds %d timelines, want 1", n)
	}
	if got := value(fourth.Timeline(ctx, tenant, root))(t); got.Membership.Generation != 3 || len(got.Membership.Members) != 3 {
		t.Errorf("WAL is %+v", got)
	}
	if _, err := first.Timeline(ctx, tenant, root); !upstream.IsNotFound(err) {
		t.Errorf("the safekeeper that was left: %v", err)
	}
}

// TestRate checks that the storage controller never has to refuse requests about a tenant.
func TestRate(t *testing.T) {
	t.Parallel()
	l, c := storage(t)
	must(t, c.CreateTenant(t.Context(), upstream.NewTenant{ID: tenant}))
	begin := time.Now()
	const calls = 25
	failed := make(chan error, calls)
	for range calls {
		go func() { failed <- second(c.DescribeTenant(t.Context(), tenant)) }()
	}
	for range calls {
		must(t, <-failed)
	}
	if took := time.Since(begin); took < (calls-1)*time.Second/upstream.TenantRate {
		t.Errorf("%d calls took %s", calls, took)
	}
	for _, r := range l.Controller.Faults.Requests() {
		if r.Status == http.StatusTooManyRequests {
			t.Errorf("refused: %+v", r)
		}
	}
}

// TestAbandonedRequest has a client give up while its tenant is attached, as an operator that is
// killed does. The storage controller attaches it all the same.
func TestAbandonedRequest(t *testing.T) {
	t.Parallel()
	l, c := storage(t)
	for _, p := range l.Pageservers {
		p.Faults.Add(wire.Fault{Method: "PUT", Path: "/location_config", Delay: 6 * time.Second})
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if err := c.CreateTenant(ctx, upstream.NewTenant{ID: tenant, Placement: upstream.Attached(0)}); err == nil {
		t.Fatal("the client has not given up")
	}
	kubetest.Eventually(t, "the tenant is attached", func() error {
		_, err := c.CreateTimeline(t.Context(), tenant, upstream.NewTimeline{ID: root})
		return err
	})
}
