package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pintle-go/pintle/kube"
)

// inventory knows every object that the plan of an owner has made, or may have made. It is
// kept in the owner's status. An object is recorded before the request that creates it,
// without a uid, because the process may end before the answer is recorded.
type inventory struct {
	records []*record
	by      map[object]*record
	room    []record // for more records
}

// record is an object, or a node that has none yet.
type record struct {
	NodeStatus
	// node has the record in this run; nil: its node has left the plan.
	node *node
	// built says that the node was built in this run and wants this object.
	built bool
	// applied says that the object was applied in this run.
	applied bool
	// stored says that the owner's status in the cluster has the record as far as a
	// deletion of the object needs it.
	stored bool
}

// newInventory takes the inventory from a status. A time in it that is yet to come is that
// of a clock which was wrong.
func newInventory(status []NodeStatus, nodes []*node, now time.Time, s *scratch) *inventory {
	inv := &inventory{by: s.by, records: make([]*record, 0, max(len(status), len(nodes))), room: s.room(len(status) + len(nodes))}
	named := s.named
	for _, n := range nodes {
		named[n.name] = n
	}
	for _, s := range status {
		if s.Since.After(now) {
			s.Since = metav1.NewTime(now.Truncate(time.Second))
		}
		if s.Kind == "" {
			// There is no object. The record tells since when the node waits.
			if n := named[s.Name]; n != nil && n.record == nil {
				s.Needs = nil
				inv.add(n, s)
			}
			continue
		}
		if !s.identifies() {
			continue
		}
		if twin := inv.by[s.object()]; twin != nil {
			twin.merge(s) // two records of an object would let one delete the other's
			continue
		}
		r := inv.newRecord()
		r.NodeStatus, r.stored = s, true
		if s.Thing != nil {
			thing := *s.Thing
			r.Thing = &thing
			for _, at := range []*metav1.Time{&r.Thing.Called, &r.Thing.Answered} {
				if latest := calledAt(now); at.After(latest.Time) {
					*at = latest
				}
			}
		}
		inv.records = append(inv.records, r)
		inv.by[s.object()] = r
		if n := named[s.Name]; n != nil && n.record == nil && !n.reads {
			n.record, r.node = r, n
		}
	}
	for _, r := range inv.records {
		// Its node only reads now: the object has left, under another name.
		if n := named[r.Name]; r.node == nil && n != nil && n.reads {
			inv.rename(r, inv.formerName(r.Name))
		}
	}
	for _, n := range nodes {
		if n.record == nil {
			inv.add(n, NodeStatus{Name: n.name})
		}
	}
	return inv
}

// identifies reports that a record identifies an object or thing. A plan writes no other
// record.
func (s *NodeStatus) identifies() bool {
	if s.Thing != nil {
		return s.ObjectName != ""
	}
	gv, err := schema.ParseGroupVersion(s.APIVersion)
	return err == nil && gv.Version != "" && s.ObjectName != "" && len(content.IsPathSegmentName(s.ObjectName)) == 0
}

// merge adds a second record of the object.
func (r *record) merge(s NodeStatus) {
	r.Needs = slices.Clone(r.Needs)
	for _, need := range s.Needs {
		if !slices.Contains(r.Needs, need) {
			r.Needs = append(r.Needs, need)
		}
	}
	if len(r.Orphans) == 0 {
		r.Orphans = s.Orphans
	}
	if s.Undo == undoRetain || r.Undo == "" {
		r.Undo = s.Undo
	}
	if s.Thing != nil && !r.Thing.ours() {
		*r.Thing = *s.Thing
	}
}

// newRecord returns an empty record. Most records of a run are in one piece of memory.
func (inv *inventory) newRecord() *record {
	if len(inv.room) == 0 {
		return new(record)
	}
	r := &inv.room[0]
	inv.room = inv.room[1:]
	return r
}

func (inv *inventory) add(n *node, s NodeStatus) {
	n.record = inv.newRecord()
	n.record.NodeStatus, n.record.node = s, n
	inv.records = append(inv.records, n.record)
}

// unlink takes its record from a node. A record of an object stays in the inventory.
func (inv *inventory) unlink(n *node) {
	r := n.record
	n.record, r.node = nil, nil
	if r.Kind == "" {
		inv.drop(r)
	}
}

// former is in the names of objects that their node has given up for others: the former
// objects of node "a" are "a~1", "a~2" and so on.
const former = "~"

// part takes its record from a node that wants another object.
func (inv *inventory) part(n *node) {
	r := n.record
	inv.unlink(n)
	if r.Kind != "" {
		inv.rename(r, inv.formerName(n.name))
	}
}

// formerName returns a free name for a former object of a node.
func (inv *inventory) formerName(node string) string {
	for i := 1; ; i++ {
		name := node + former + strconv.Itoa(i)
		if !slices.ContainsFunc(inv.records, func(o *record) bool { return o.Name == name }) {
			return name
		}
	}
}

func (inv *inventory) drop(r *record) {
	inv.records = slices.DeleteFunc(inv.records, func(o *record) bool { return o == r })
	if inv.by[r.object()] == r {
		delete(inv.by, r.object())
	}
}

// claim gives a node the record of the object that it wants. The object may have been
// another node's in the last run.
func (inv *inventory) claim(n *node, key kube.Key) error {
	want := NodeStatus{
		Name: n.name, APIVersion: n.kind.GroupVersion().String(), Kind: n.kind.Kind, Namespace: key.Namespace, ObjectName: key.Name,
	}
	if n.outside {
		want.Thing = new(ThingStatus)
	}
	o := want.object()
	r := n.record
	if r.Kind == "" || r.object() != o {
		r = inv.by[o]
	}
	switch {
	case r != nil && r.built:
		return fmt.Errorf("%w: %q and %q describe the same object, %s %s", errGraph, r.node.name, n.name, n.kind.Kind, key)
	case r != nil && r.node != n:
		inv.part(n)
		was := r.node
		inv.rename(r, n.name)
		if was != nil {
			was.record = nil
			inv.add(was, NodeStatus{Name: was.name})
		}
		n.record, r.node = r, n
	case r == nil && n.record.Kind != "":
		inv.part(n)
		inv.add(n, want)
	case r == nil:
		state, message, since := n.record.State, n.record.Message, n.record.Since
		n.record.NodeStatus = want
		n.record.State, n.record.Message, n.record.Since = state, message, since
	}
	if r != n.record {
		r = n.record
		inv.by[o] = r
	}
	r.APIVersion, r.built = want.APIVersion, true
	// Until the apply has succeeded, both the former needs and those of this run hold.
	for _, need := range n.needed() {
		if !slices.Contains(r.Needs, need) {
			r.Needs, r.stored = append(r.Needs, need), false
		}
	}
	if undo := n.undo(); r.Undo != undo {
		r.Undo, r.stored = undo, false
	}
	return nil
}

// rename gives a record another name. Names in the needs of other records mean the same
// objects as before: a node is built before those that need it, so no need of this run
// names the record yet.
func (inv *inventory) rename(r *record, name string) {
	for _, o := range inv.records {
		if i := slices.Index(o.Needs, r.Name); i >= 0 {
			o.Needs = slices.Clone(o.Needs) // the status as it was written has the former ones
			o.Needs[i] = name
		}
	}
	r.Name = name
}

// status returns the inventory as it is stored: the nodes in the order of their
// description, and then the objects of nodes that have left.
func (inv *inventory) status(nodes []*node) []NodeStatus {
	all := make([]NodeStatus, 0, len(inv.records))
	for _, n := range nodes {
		if n.record == nil {
			continue
		}
		s := n.record.NodeStatus
		if s.Kind == "" {
			s.Needs = n.needed()
		}
		all = append(all, s)
	}
	for _, r := range inv.records {
		if r.node == nil {
			all = append(all, r.NodeStatus)
		}
	}
	for i := range all {
		if t := all[i].Thing; t != nil {
			thing := *t
			all[i].Thing = &thing
		}
	}
	return all
}

// isStored reports that a status has the inventory as it is.
func (inv *inventory) isStored(status []NodeStatus, nodes []*node) bool {
	place := 0
	same := func(s *NodeStatus, needs []string) bool {
		if place == len(status) {
			return false
		}
		was := &status[place]
		place++
		return s.State == was.State && s.Message == was.Message && s.UID == was.UID && s.sameBut(was) && slices.Equal(needs, was.Needs)
	}
	for _, n := range nodes {
		if n.record == nil {
			continue
		}
		needs := n.record.Needs
		if n.record.Kind == "" {
			needs = n.needed()
		}
		if !same(&n.record.NodeStatus, needs) {
			return false
		}
	}
	for _, r := range inv.records {
		if r.node == nil && !same(&r.NodeStatus, r.Needs) {
			return false
		}
	}
	return place == len(status)
}

// leaves reports that nothing wants the object of a record any more.
func (r *record) leaves() bool {
	return r.Kind != "" && (r.node == nil || r.node.visited && r.node.isAbsent)
}

// leaving returns the objects that may be deleted now, and those that have left but must
// stay for the moment, with the names of the nodes that they wait for.
//
// The object of a node that has left may be wanted by a node of another name that was not
// built yet: then it stays. It also stays while an object that was made with its help was
// not applied without it, unless a node displaces it.
func (inv *inventory) leaving(nodes []*node) (now []*record, later map[*record][]string) {
	later = make(map[*record][]string)
	unbuilt := make(map[object][]string)
	for _, n := range nodes {
		if !n.isAbsent && !n.record.built && !n.reads {
			o := object{outside: n.outside, group: n.kind.Group, kind: n.kind.Kind}
			unbuilt[o] = append(unbuilt[o], n.name)
		}
	}
	// holders are the nodes whose objects keep an object.
	holders := func(r *record) (names []string) {
		for _, o := range inv.records {
			if o != r && !o.applied && slices.Contains(o.Needs, r.Name) && (!o.leaves() || later[o] != nil) {
				names = append(names, o.Name)
			}
		}
		return names
	}
	for _, r := range inv.records {
		o := r.object()
		o.namespace, o.name = "", ""
		if waits := unbuilt[o]; r.leaves() && len(waits) > 0 {
			later[r] = waits
		}
	}
	// An object that stays keeps those that it was made with.
	for more := true; more; {
		more, now = false, nil
		for _, r := range inv.records {
			if !r.leaves() || later[r] != nil {
				continue
			}
			if waits := holders(r); len(waits) > 0 && !r.isDisplaced(nodes) {
				later[r], more = waits, true
			} else {
				now = append(now, r)
			}
		}
	}
	return now, later
}
