package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/lab"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestNewSet(t *testing.T) {
	t.Parallel()
	all := func(zones ...string) (list []upstream.Registration) {
		for i, zone := range zones {
			list = append(list, upstream.Registration{ID: int64(i) + 1, Zone: zone, Policy: upstream.SafekeeperActive})
		}
		return list
	}
	paused := all("a", "b", "c", "d")
	paused[3].Policy = upstream.SafekeeperPause
	for name, c := range map[string]struct {
		is, leaving []int64
		registered  []upstream.Registration
		want        []int64
	}{
		"another one":          {[]int64{3, 1, 2}, []int64{2}, all("a", "b", "c", "d"), []int64{1, 3, 4}},
		"two at once":          {[]int64{1, 2, 3}, []int64{2, 3}, all("a", "b", "c", "d", "e"), []int64{1, 4, 5}},
		"a zone of its own":    {[]int64{1, 2, 3}, []int64{2}, all("a", "b", "c", "a", "c", "b"), []int64{1, 3, 6}},
		"no zone is left":      {[]int64{1, 2, 3}, []int64{2}, all("a", "b", "c", "a", "c"), nil},
		"none is active":       {[]int64{1, 2, 3}, []int64{2}, paused, nil},
		"not to one that goes": {[]int64{1, 2, 3}, []int64{2, 4}, all("a", "b", "c", "d", "e"), []int64{1, 3, 5}},
		"all leave":            {[]int64{1, 2, 3}, []int64{1, 2, 3}, all("a", "b", "c", "a", "b", "c"), []int64{4, 5, 6}},
	} {
		got, err := newSet(c.is, c.leaving, c.registered)
		if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != (c.want == nil) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestMoveOff moves a timeline while the hooks of the control plane fail: half-way, a migration
// stays in the storage controller, which refuses another one then.
func TestMoveOff(t *testing.T) {
	t.Parallel()
	var fails atomic.Int64 // the calls about a joint set that are answered with 423
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		joint := strings.Count(string(text), `"hostname"`) > 3
		if err != nil || strings.HasSuffix(r.URL.Path, "/notify-safekeepers") && joint && fails.Add(-1) >= 0 {
			w.WriteHeader(http.StatusLocked)
		}
	}))
	t.Cleanup(hooks.Close)
	l := lab.New(t, lab.Config{Hooks: hooks.URL})
	l.StartController(t)
	sc := upstream.NewController(upstream.Config{URL: l.URL(t, "controller"), HTTP: l.HTTP, Sign: l.Key.Sign, Timeout: 2 * time.Minute})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l.StartPageserver(t, 1)
	l.WaitPageserver(t, 1)
	for id := 1; id <= 5; id++ {
		l.StartSafekeeper(t, id)
		name := "safekeeper-" + string(rune('0'+id))
		ok(sc.Register(t.Context(), upstream.Registration{
			ID: int64(id), Region: "neon", Version: 1, Host: "127.0.0.1", Port: l.Port(t, name+"-pg"), HTTPPort: l.Port(t, name),
			Zone: madeUpZone(int64(id)),
		}))
	}
	l.Controller.Heartbeat(t.Context())
	ok(sc.CreateTenant(t.Context(), upstream.NewTenant{ID: tenantID, Placement: upstream.Attached(0)}))
	kubetest.Eventually(t, "the timeline is made", func() error { // a busy machine exceeds the request's limit
		_, err := sc.CreateTimeline(t.Context(), tenantID, upstream.NewTimeline{ID: otherID})
		return err
	})
	located := func() upstream.Location {
		t.Helper()
		at, err := sc.Locate(t.Context(), tenantID, otherID)
		ok(err)
		return at
	}
	key := timelineKey{tenantID, otherID}
	leaving := located().Set[:1]
	registered, err := sc.Registrations(t.Context())
	ok(err)

	fails.Store(1)
	if found, err := moveOff(t.Context(), sc, key, leaving, registered); err == nil || !found {
		t.Fatalf("a hook fails, and the timeline is moved: %t, %v", found, err)
	}
	half := located()
	if len(half.NewSet) == 0 {
		t.Fatalf("no migration is under way: %+v", half)
	}
	// It goes on with the migration that is under way.
	if found, err := moveOff(t.Context(), sc, key, leaving, registered); err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	whole := located()
	if slices.Contains(whole.Set, leaving[0]) || len(whole.NewSet) > 0 || !slices.Equal(whole.Set, half.NewSet) {
		t.Errorf("the timeline is at %+v, want %v", whole, half.NewSet)
	}
	if found, err := moveOff(t.Context(), sc, key, leaving, registered); err != nil || found {
		t.Errorf("it is moved again: %t, %v", found, err)
	}

	// The goal of the migration that is under way leaves too: the migration is given up.
	leaving = append(leaving, whole.Set[0])
	fails.Store(1)
	if _, err := moveOff(t.Context(), sc, key, leaving[1:], append(registered[:0:0], registered...)); err == nil {
		t.Fatal("a hook fails, and the timeline is moved")
	}
	half = located()
	comes := slices.DeleteFunc(slices.Clone(half.NewSet), func(id int64) bool { return slices.Contains(half.Set, id) })
	if len(comes) != 1 {
		t.Fatalf("the migration is %+v", half)
	}
	leaving = []int64{leaving[1], comes[0]}
	if found, err := moveOff(t.Context(), sc, key, leaving, registered); err != nil || !found {
		t.Fatalf("%t, %v", found, err)
	}
	leaves := func(id int64) bool { return slices.Contains(leaving, id) }
	if last := located(); slices.ContainsFunc(last.Set, leaves) || len(last.NewSet) > 0 {
		t.Errorf("the timeline is at %+v, and %v leave", last, leaving)
	}

	// A storage controller that cannot give a migration up finishes it, and moves the timeline again.
	settled := located().Set
	fails.Store(1)
	if err := sc.MigrateSafekeepers(t.Context(), tenantID, otherID, []int64{leaving[0], settled[1], settled[2]}); err == nil {
		t.Fatal("a hook fails, and the timeline is moved")
	}
	l.Controller.Faults.Add(wire.Fault{Method: "POST", Path: "/safekeeper_migrate_abort", Status: 404})
	rounds := 0
	for found := true; found; rounds++ {
		if found, err = moveOff(t.Context(), sc, key, leaving, registered); err != nil {
			t.Fatal(err)
		}
	}
	if last := located(); rounds != 3 || slices.ContainsFunc(last.Set, leaves) || len(last.NewSet) > 0 {
		t.Errorf("after %d rounds the timeline is at %+v, and %v leave", rounds, last, leaving)
	}

	// A whole search, in slices of time, finds nothing more.
	s := new(search)
	for range 10 {
		e := &evacuation{cluster: kube.Key{Namespace: "data", Name: "main"}, id: leaving[0], leaving: leaving}
		if err := s.goOn(t.Context(), sc, e, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	e := &evacuation{id: leaving[0], leaving: leaving}
	if err := s.goOn(t.Context(), sc, e, time.Now().Add(time.Minute)); err != nil || !s.done {
		t.Errorf("the search does not end: %+v, %v", s, err)
	}
	if r, err := sc.Registration(t.Context(), leaving[0]); err != nil || r.Policy != upstream.SafekeeperPause {
		t.Errorf("safekeeper %d is %q, %v", leaving[0], r.Policy, err)
	}
}
