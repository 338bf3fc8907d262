package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// The reasons why a member leaves.
const (
	isRemoved = "Removed"
	isLost    = "Lost"
	isEmptied = "Emptied"
)

// timelineZones is the number of safekeepers of a timeline. Each is in a zone of its own.
const timelineZones = 3

// settleMembers brings the members in a cluster's status in line with its spec. The status is
// stored before any of their children is made, so that ids and zones stay the same. It returns
// why the spec cannot be followed, empty if it can.
func settleMembers(c *api.NeonCluster, now metav1.Time) (refused string) {
	s := &c.Status
	gone := func(component string) func(api.Member) bool {
		return func(m api.Member) bool {
			leaves := !m.Leaving.IsZero() && (m.Evacuated || component == "pageserver")
			return leaves && !hasNodes(c, component, m.ID)
		}
	}
	s.Safekeepers = slices.DeleteFunc(slices.Clone(s.Safekeepers), gone("safekeeper"))
	s.Pageservers = slices.DeleteFunc(slices.Clone(s.Pageservers), gone("pageserver"))
	s.Safekeepers, s.NextSafekeeper, refused = chooseSafekeepers(c.Spec.Safekeepers, s.Safekeepers, s.NextSafekeeper, now)
	s.Pageservers, s.NextPageserver = choosePageservers(c.Spec.Pageservers, s.Pageservers, s.NextPageserver, now)
	for i, m := range s.Safekeepers {
		s.Safekeepers[i].Host = SafekeeperHost(c.Name, c.Namespace, m.ID)
	}
	for i, m := range s.Pageservers {
		s.Pageservers[i].Host = PageserverHost(c.Name, c.Namespace, m.ID)
	}
	return refused
}

// progress is a text that differs when the status of a cluster asks for another run.
func progress(c *api.NeonCluster) string {
	text := fmt.Sprint(c.Status.SafekeeperTurn, " ", stageOf(c), " ")
	if r := c.Status.PageserverRoll; r != nil {
		text += fmt.Sprint(r.ID, r.Step)
	}
	for _, m := range c.Status.Safekeepers {
		text += fmt.Sprint(" ", m.ID, stays(m), m.Evacuated, m.Evacuated && hasNodes(c, "safekeeper", m.ID))
	}
	for _, m := range c.Status.Pageservers {
		text += fmt.Sprint(" ", m.ID, stays(m), !stays(m) && hasNodes(c, "pageserver", m.ID))
	}
	return text
}

// hasNodes reports whether children of a member are there.
func hasNodes(c *api.NeonCluster, component string, id int64) bool {
	for _, n := range c.Status.Nodes {
		name, key, ok := strings.Cut(n.Name, "/")
		key, _, _ = strings.Cut(key, "~") // of an object that a node had before
		if ok && strings.HasPrefix(name, component) && key == strconv.FormatInt(id, 10) && n.Kind != "" {
			return true
		}
	}
	return false
}

func stays(m api.Member) bool { return m.Leaving.IsZero() }

func leave(m *api.Member, now metav1.Time, reason string) {
	if stays(*m) {
		m.Leaving, m.Reason = now, reason
	}
}

func count(members []api.Member, of func(api.Member) bool) (n int) {
	for _, m := range members {
		if of(m) {
			n++
		}
	}
	return n
}

// nextID returns the id that follows those that were ever used.
func nextID(members []api.Member, next int64) int64 {
	next = max(next, 1)
	for _, m := range members {
		next = max(next, m.ID+1)
	}
	return next
}

// chooseSafekeepers returns the safekeepers that follow from the ones that are there. The id of
// one that has left is never used again: an empty safekeeper of the same id has forgotten its
// votes, and the storage controller forgets none.
func chooseSafekeepers(
	s api.Safekeepers, is []api.Member, next int64, now metav1.Time,
) (members []api.Member, following int64, refused string) {
	members, next = slices.Clone(is), nextID(is, next)
	for i := range members {
		if slices.Contains(s.Lost, members[i].ID) {
			leave(&members[i], now, isLost)
		}
	}
	for {
		for slices.Contains(s.Lost, next) {
			next++
		}
		zone := freeZone(s.Zones, members, next)
		// Those that are left may be in too few zones.
		more := len(zonesOf(members)) < timelineZones && !zonesOf(members)[zone]
		if count(members, stays) >= int(s.Count) && !more {
			break
		}
		members = append(members, api.Member{ID: next, Zone: zone})
		next++
	}
	for n := count(members, stays); n > int(s.Count); n-- {
		i := dispensable(members)
		if i < 0 {
			return members, next, fmt.Sprintf("%d safekeepers cannot be in %d zones: none of the %d is removed",
				s.Count, timelineZones, n)
		}
		leave(&members[i], now, isRemoved)
	}
	return members, next, ""
}

// dispensable returns the index of the youngest safekeeper without which the others are in
// enough zones for a timeline, -1 if there is none.
func dispensable(members []api.Member) int {
	for i := len(members) - 1; i >= 0; i-- {
		if !stays(members[i]) {
			continue
		}
		if len(zonesOf(slices.Delete(slices.Clone(members), i, i+1))) >= timelineZones {
			return i
		}
	}
	return -1
}

// zonesOf returns the zones of the members that stay.
func zonesOf(members []api.Member) map[string]bool {
	zones := map[string]bool{}
	for _, m := range members {
		if stays(m) {
			zones[m.Zone] = true
		}
	}
	return zones
}

// choosePageservers returns the pageservers that follow from the ones that are there. The
// storage controller accepts no pageserver with the id of one that was removed.
func choosePageservers(
	p api.Pageservers, is []api.Member, next int64, now metav1.Time,
) (members []api.Member, following int64) {
	members, next = slices.Clone(is), nextID(is, next)
	for count(members, stays) < int(p.Count) {
		members = append(members, api.Member{ID: next, Zone: freeZone(p.Zones, members, next)})
		next++
	}
	// Those that are dead leave first: the data of a healthy one would have no place.
	for _, healthy := range []bool{false, true} {
		for i := len(members) - 1; i >= 0 && count(members, stays) > int(p.Count); i-- {
			if healthy || members[i].State == string(upstream.NodeOffline) {
				leave(&members[i], now, isRemoved)
			}
		}
	}
	return members, next
}

// madeUpZone is the zone of a member of a cluster without zones.
func madeUpZone(id int64) string { return "zone-" + strconv.FormatInt(id, 10) }

// freeZone returns the zone for another member: the one with the fewest of those that stay.
func freeZone(zones []string, members []api.Member, id int64) string {
	if len(zones) == 0 {
		return madeUpZone(id)
	}
	return slices.MinFunc(zones, func(a, b string) int {
		in := func(zone string) int {
			return count(members, func(m api.Member) bool { return stays(m) && m.Zone == zone })
		}
		return in(a) - in(b)
	})
}

// zoneOf returns the zone of a member, by which the storage controller tells members apart,
// and the label that its node must have, empty for any node.
func zoneOf(zones []string, members []api.Member, id int64) (name, label string) {
	i := slices.IndexFunc(members, func(m api.Member) bool { return m.ID == id })
	if i < 0 {
		name = freeZone(zones, members, id)
	} else {
		name = members[i].Zone
	}
	if name == madeUpZone(id) && !slices.Contains(zones, name) {
		return name, ""
	}
	return name, name
}

// safekeeperIDs returns the ids of the safekeepers that run: also of those that leave, until no
// timeline is on them.
func safekeeperIDs(c *api.NeonCluster) (ids []int64) {
	for _, m := range c.Status.Safekeepers {
		if !m.Evacuated {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// pageserverIDs returns the ids of the pageservers that run and stay. One that leaves runs until
// the storage controller has taken its data away.
func pageserverIDs(c *api.NeonCluster) (ids []int64) {
	for _, m := range c.Status.Pageservers {
		if stays(m) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// keysOf returns ids as the keys of a collection of nodes.
func keysOf(ids []int64) (keys []string, numbers map[string]int64) {
	numbers = make(map[string]int64, len(ids))
	for _, id := range ids {
		key := strconv.FormatInt(id, 10)
		keys, numbers[key] = append(keys, key), id
	}
	return keys, numbers
}
