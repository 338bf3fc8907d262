package plan

import (
	"fmt"
	"slices"
)

// The object of a node that has left stays until those that were made with its help are applied without it.
// If they need the node that takes its place, and its object cannot be made beside the former one, as with
// a node port, a host name or a quota, all three wait in a circle.

// DeleteBeforeCreate is for a node whose object or thing cannot exist beside the one that it replaces,
// which another node had. As long as it is not ready, the objects of its kind whose nodes have left the plan
// are deleted, also if others were made with their help and still use them. By default these are
// changed first. While another node of the kind was not built yet, which may want these objects, they stay.
func (n *Node[T]) DeleteBeforeCreate() *Node[T] {
	n.displaces = true
	return n
}

// isOf reports whether a recorded object is of the kind of the node, which was built and is not ready.
func (r *record) isOf(n *node) bool {
	return n.record != nil && n.record.built && !n.ready && n.makes(r.NodeStatus)
}

// isDisplaced reports whether an object that has left has to make room for that of a node.
func (r *record) isDisplaced(nodes []*node) bool {
	return slices.ContainsFunc(nodes, func(n *node) bool { return n.displaces && r.isOf(n) })
}

// circle says for which node of its kind an object that has left waits, and tells the node if it has failed.
func (r *run) circle(rec *record, later map[*record][]string) string {
	seen := make(map[string]bool)
	for next := slices.Clone(later[rec]); len(next) > 0; next = next[1:] {
		name := next[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		for o, waits := range later {
			if o.Name == name {
				next = append(next, waits...)
			}
		}
		for _, n := range r.plan.nodes {
			switch {
			case n.name != name:
			case !rec.isOf(n):
				next = append(next, n.unready()...)
			default:
				if s := n.record.State; s == Failed || s == Degraded {
					n.record.Message = short(n.record.Message + fmt.Sprintf("; the %s of %q, which has left the plan, stays until "+
						"others are changed that wait for this node: if it cannot be made beside that one, describe it with "+
						"DeleteBeforeCreate, or delete %s", rec.Kind, rec.Name, rec.ObjectName))
				}
				return ", until " + n.name + " is ready"
			}
		}
	}
	return ""
}
