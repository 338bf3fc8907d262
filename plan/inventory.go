package plan

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pintle-go/pintle/kube"
)

// inventory knows every object that the plan of an owner has made, or may have made. It is
// kept in the owner's status. An object is recorded before the request that creates it,
// without a uid, because the process may end before the answer is recorded.
type inventory struct {
	records []*record
	by      map[object]*record
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

func newInventory(status []NodeStatus, nodes []*node) *inventory {
	inv := &inventory{by: make(map[object]*record)}
	named := make(map[string]*node, len(nodes))
	for _, n := range nodes {
		named[n.name] = n
	}
	for _, s := range status {
		if s.Kind == "" {
			// There is no object. The record tells since when the node waits.
			if n := named[s.Name]; n != nil && n.record == nil {
				s.Needs = nil
				inv.add(n, s)
			}
			continue
		}
		r := &record{NodeStatus: s, stored: true}
		r.Needs = slices.Clone(s.Needs)
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

func (inv *inventory) add(n *node, s NodeStatus) {
	n.record = &record{NodeStatus: s, node: n}
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
	switch r := inv.by[want.object()]; {
	case r != nil && r.built:
		return fmt.Errorf("%w: %q and %q describe the same object, %s %s", ErrGraph, r.node.name, n.name, n.kind.Kind, key)
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
	r := n.record
	inv.by[want.object()] = r
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
		for i, need := range o.Needs {
			if need == r.Name {
				o.Needs[i] = name
			}
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
	return all
}

// leaves reports that nothing wants the object of a record any more.
func (r *record) leaves() bool {
	return r.Kind != "" && (r.node == nil || r.node.visited && r.node.isAbsent)
}

// leaving returns the objects that may be deleted now, and those that have left but must
// stay for the moment.
//
// The object of a node that has left may be wanted by a node of another name that was not
// built yet: then it stays. It also stays while an object that was made with its help was
// not applied without it.
func (inv *inventory) leaving(nodes []*node) (now, later []*record) {
	unbuilt := make(map[object]bool)
	for _, n := range nodes {
		if !n.isAbsent && !n.record.built && !n.reads {
			unbuilt[object{outside: n.outside, group: n.kind.Group, kind: n.kind.Kind}] = true
		}
	}
	holds := func(r, o *record) bool {
		return o != r && !o.applied && slices.Contains(o.Needs, r.Name) && (!o.leaves() || slices.Contains(later, o))
	}
	for _, r := range inv.records {
		o := r.object()
		o.namespace, o.name = "", ""
		if r.leaves() && unbuilt[o] {
			later = append(later, r)
		}
	}
	// An object that stays keeps those that it was made with.
	for more := true; more; {
		more, now = false, nil
		for _, r := range inv.records {
			switch {
			case !r.leaves() || slices.Contains(later, r):
			case slices.ContainsFunc(inv.records, func(o *record) bool { return holds(r, o) }):
				later, more = append(later, r), true
			default:
				now = append(now, r)
			}
		}
	}
	return now, later
}
