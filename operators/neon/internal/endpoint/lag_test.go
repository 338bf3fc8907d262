package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/pgtest"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// TestReplicaThatStandsStill has a real PostgreSQL that replays its own WAL, and nothing more.
func TestReplicaThatStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	role := new(api.NeonRole)
	role.Name, role.Spec.Branch = "app", "trunk"
	_, err := w.roles.Create(w.soon(), role)
	w.ok(err)
	server := pgtest.Start(t)
	w.operate(func(op *Operator) {
		op.limits.lag, op.limits.followed = 2*time.Second, time.Second
		op.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", server.Port))
		}
	})
	secret, err := w.secrets.Until(w.soon(), "app-password", func(s *corev1.Secret) bool { return len(s.Data) > 0 })
	w.ok(err)
	sql := func(query string) (text string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), server.Local("cloud_admin", "postgres"))
		w.ok(err)
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		return text
	}
	sql("do $$ begin create role app login password '" + string(secret.Data["verifier"]) + "'; end $$")
	server.Follow(t)
	at, err := upstream.ParseLSN(sql("select pg_last_wal_replay_lsn()::text"))
	w.ok(err)
	w.outside.set(func() { w.outside.timeline.LastRecordLSN = at + 1000 })
	e := endpointOf("reader", "trunk")
	e.Spec.Type = api.ReadOnly
	w.create(e)
	w.says("reader", fmt.Sprintf("it has replayed the history up to %s, and the storage has it up to %s", at, at+1000))

	w.ok(w.endpoints.Delete(w.soon(), "reader"))
	w.ok(w.endpoints.UntilGone(w.soon(), "reader"))
	w.outside.set(func() { w.outside.timeline.LastRecordLSN = at })
	w.create(e)
	w.ready("reader")
	w.outside.set(func() { w.outside.timeline.LastRecordLSN = at + 1000 })
	w.says("reader", fmt.Sprintf("it has not replayed the history up to %s for longer than 2s", at+1000))
}

// TestStaticLSN asks for positions that the storage has not, and then for one that it has.
func TestStaticLSN(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.outside.timeline = upstream.Timeline{LastRecordLSN: 0x2000, MinReadableLSN: 0x1000}
	w.operate()
	for name, want := range map[string]string{
		"0/3000": "branch trunk has no LSN 0/3000 yet: its history ends at 0/2000",
		"0/800":  "branch trunk has LSN 0/800 no more: its history begins at 0/1000",
	} {
		e := endpointOf("past", "trunk")
		e.Spec.Type, e.Spec.LSN = api.Static, api.LSN(name)
		w.create(e)
		w.says("past", want)
		w.noPod("past")
		w.ok(w.endpoints.Delete(w.soon(), "past"))
		w.ok(w.endpoints.UntilGone(w.soon(), "past"))
	}
	e := endpointOf("past", "trunk")
	e.Spec.Type, e.Spec.LSN = api.Static, "0/1800"
	w.create(e)
	w.ready("past")
}

// TestReplicaHasThePrimarysSettings sees that a replica with less memory than its primary has the
// settings without which it could not replay the primary's WAL.
func TestReplicaHasThePrimarysSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.branch("trunk", "1")
	w.operate()
	primary := endpointOf("shop", "trunk")
	primary.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}
	w.create(primary)
	reader := endpointOf("reader", "trunk")
	reader.Spec.Type = api.ReadOnly
	w.create(reader)
	of := func(endpoint, setting string) int {
		t.Helper()
		for _, o := range w.outside.process(w.pod(endpoint, "").UID).config.Spec.Cluster.Settings {
			if o.Name == setting {
				n, err := strconv.Atoi(o.Value)
				w.ok(err)
				return n
			}
		}
		return -1
	}
	w.ready("shop")
	w.ready("reader")
	if p, r := of("shop", "max_connections"), of("reader", "max_connections"); p < 500 || r != p {
		t.Errorf("max_connections is %d, and %d of the replica", p, r)
	}
	was := w.pod("reader", "")
	w.modify("shop", func(e *api.NeonEndpoint) { e.Spec.Settings = map[string]string{"max_worker_processes": "32"} })
	w.pod("reader", was.UID)
	w.eventually("the replica has the setting", func() bool { return of("reader", "max_worker_processes") == 32 })
	w.ready("reader")
}
