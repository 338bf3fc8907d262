package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/plan"
)

// shown is a member as in "4:b" or "2:b Lost".
func shown(members []api.Member) (all []string) {
	for _, m := range members {
		text := fmt.Sprintf("%d:%s", m.ID, m.Zone)
		if !stays(m) {
			text += " " + m.Reason
		}
		all = append(all, text)
	}
	return all
}

func TestSafekeeperIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   api.Safekeepers
		want []int64
	}{
		{api.Safekeepers{Count: 3}, []int64{1, 2, 3}},
		{api.Safekeepers{Count: 3, Lost: []int64{2}}, []int64{1, 3, 4}},
		{api.Safekeepers{Count: 4, Lost: []int64{4, 1, 9}}, []int64{2, 3, 5, 6}},
	} {
		n := sample()
		n.Spec.Safekeepers = c.of
		settleMembers(n, metav1.Now())
		if diff := cmp.Diff(c.want, safekeeperIDs(n)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.of, diff)
		}
	}
}

// TestMembership changes the spec of one cluster again and again.
func TestMembership(t *testing.T) {
	t.Parallel()
	zones := []string{"a", "b", "c"}
	c, now := sample(), metav1.NewTime(time.Unix(1e9, 0))
	step := func(spec api.Safekeepers, refused bool, want ...string) {
		t.Helper()
		c.Spec.Safekeepers = spec
		if why := settleMembers(c, now); (why != "") != refused {
			t.Errorf("%+v: refused because %q, want %t", spec, why, refused)
		}
		if diff := cmp.Diff(want, shown(c.Status.Safekeepers)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", spec, diff)
		}
	}
	evacuated := func(ids ...int64) {
		for i, m := range c.Status.Safekeepers {
			c.Status.Safekeepers[i].Evacuated = slices.Contains(ids, m.ID)
		}
	}
	step(api.Safekeepers{Count: 3, Zones: zones}, false, "1:a", "2:b", "3:c")
	// The one that takes the place of a lost one is in its zone.
	lost := []int64{2}
	step(api.Safekeepers{Count: 3, Zones: zones, Lost: lost}, false, "1:a", "2:b Lost", "3:c", "4:b")
	evacuated(2)
	c.Status.Nodes = []plan.NodeStatus{{Name: "safekeeper/2", Kind: "StatefulSet"}}
	step(api.Safekeepers{Count: 3, Zones: zones, Lost: lost}, false, "1:a", "2:b Lost", "3:c", "4:b")
	c.Status.Nodes = nil
	step(api.Safekeepers{Count: 3, Zones: zones, Lost: lost}, false, "1:a", "3:c", "4:b")
	// Zones stay the same when the spec names others, or none.
	step(api.Safekeepers{Count: 4, Zones: []string{"x", "y", "z"}}, false, "1:a", "3:c", "4:b", "5:x")
	step(api.Safekeepers{Count: 3}, false, "1:a", "3:c", "4:b", "5:x Removed")
	// The id of a safekeeper that has left is not used again, even while it is leaving.
	step(api.Safekeepers{Count: 4}, false, "1:a", "3:c", "4:b", "5:x Removed", "6:zone-6")
	evacuated(5)
	step(api.Safekeepers{Count: 5}, false, "1:a", "3:c", "4:b", "6:zone-6", "7:zone-7")
	// The youngest that leaves enough zones goes.
	c.Status.Safekeepers = []api.Member{{ID: 1, Zone: "a"}, {ID: 2, Zone: "a"}, {ID: 3, Zone: "b"}, {ID: 4, Zone: "c"}}
	step(api.Safekeepers{Count: 3}, false, "1:a", "2:a Removed", "3:b", "4:c")
	c.Status.Safekeepers = []api.Member{{ID: 1, Zone: "a"}, {ID: 2, Zone: "a"}, {ID: 3, Zone: "b"}, {ID: 4, Zone: "b"}}
	step(api.Safekeepers{Count: 3, Zones: []string{"a", "b"}}, true, "1:a", "2:a", "3:b", "4:b")
	// Those that are left by losses may be in too few zones: there is another one, and one that
	// is not needed goes.
	c.Status.Safekeepers = []api.Member{{ID: 1, Zone: "a"}, {ID: 2, Zone: "b"}, {ID: 3, Zone: "c"}, {ID: 4, Zone: "a"}}
	step(api.Safekeepers{Count: 3, Lost: []int64{2, 3}}, false,
		"1:a", "2:b Lost", "3:c Lost", "4:a Removed", "8:zone-8", "9:zone-9")

	for _, s := range []struct {
		count int32
		want  []string
	}{
		{2, []string{"1:zone-1", "2:zone-2"}}, {1, []string{"1:zone-1", "2:zone-2 Removed"}},
		{2, []string{"1:zone-1", "3:zone-3"}}, {1, []string{"1:zone-1", "3:zone-3 Removed"}},
	} {
		c.Spec.Pageservers = api.Pageservers{Count: s.count}
		settleMembers(c, now)
		if diff := cmp.Diff(s.want, shown(c.Status.Pageservers)); diff != "" {
			t.Errorf("%d pageservers (-want +got):\n%s", s.count, diff)
		}
	}
}

// TestMembershipRandomly holds any history of a spec to the rules: an id is used once, a zone
// never changes, and those that stay are in three zones.
func TestMembershipRandomly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, used := sample(), map[int64]string{}
		here := map[int64]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			c.Spec.Safekeepers.Count = rapid.Int32Range(3, 7).Draw(t, "count")
			c.Spec.Safekeepers.Zones = rapid.SampledFrom([][]string{nil, {"a", "b", "c"}, {"a", "b", "c", "d"}}).Draw(t, "zones")
			for _, m := range c.Status.Safekeepers {
				if rapid.IntRange(0, 5).Draw(t, "lost") == 0 {
					c.Spec.Safekeepers.Lost = append(c.Spec.Safekeepers.Lost, m.ID)
				}
			}
			refused := settleMembers(c, metav1.Now())
			zones, now := map[string]bool{}, map[int64]bool{}
			for _, m := range c.Status.Safekeepers {
				if zone, ok := used[m.ID]; ok && (zone != m.Zone || !here[m.ID]) {
					t.Fatalf("safekeeper %d is in zone %q again, and was in %q", m.ID, m.Zone, zone)
				}
				used[m.ID], now[m.ID] = m.Zone, true
				if stays(m) {
					zones[m.Zone] = true
				}
			}
			here = now
			if n := count(c.Status.Safekeepers, stays); len(zones) < timelineZones || refused == "" && n != int(c.Spec.Safekeepers.Count) {
				t.Fatalf("%d safekeepers in %d zones: %q", n, len(zones), refused)
			}
			for i, m := range c.Status.Safekeepers {
				c.Status.Safekeepers[i].Evacuated = !stays(m) && rapid.Bool().Draw(t, "evacuated")
			}
		}
	})
}

func TestZones(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zones       []string
		members     []api.Member
		id          int64
		name, label string
	}{
		{nil, nil, 4, "zone-4", ""},
		{[]string{"a", "b", "c"}, []api.Member{{ID: 3, Zone: "c"}}, 3, "c", "c"},
		{nil, []api.Member{{ID: 3, Zone: "c"}}, 3, "c", "c"},
		{[]string{"a", "b", "c"}, []api.Member{{ID: 3, Zone: "zone-3"}}, 3, "zone-3", ""},
		{[]string{"zone-3", "b", "c"}, []api.Member{{ID: 3, Zone: "zone-3"}}, 3, "zone-3", "zone-3"},
	} {
		if name, label := zoneOf(c.zones, c.members, c.id); name != c.name || label != c.label {
			t.Errorf("%+v: %q, %q", c, name, label)
		}
	}
}

// TestPageserverThatLeaves lowers the count of pageservers. Those that are dead leave first: the data of a healthy
// one would have no place.
func TestPageserverThatLeaves(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, c := range map[string]struct {
		states []string
		want   []string
	}{
		"all are healthy":        {[]string{"Active", "Active", "Active"}, []string{"1:", "2:", "3: Removed"}},
		"an old one is dead":     {[]string{"Offline", "Active", "Active"}, []string{"1: Removed", "2:", "3:"}},
		"the youngest of two":    {[]string{"Offline", "Offline", "Active"}, []string{"1:", "2: Removed", "3:"}},
		"one that is not known":  {[]string{"Active", "Active", ""}, []string{"1:", "2:", "3: Removed"}},
		"one that is warming up": {[]string{"WarmingUp", "Active", "Active"}, []string{"1:", "2:", "3: Removed"}},
	} {
		var is []api.Member
		for i, state := range c.states {
			is = append(is, api.Member{ID: int64(i) + 1, State: state})
		}
		members, _ := choosePageservers(api.Pageservers{Count: 2}, is, 4, now)
		if diff := cmp.Diff(c.want, shown(members)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
