package wal

import "slices"

// quorum is a set of safekeepers by their addresses.
type quorum struct {
	generation uint32
	members    []string
	// joint are asked too while the set changes.
	joint []string
	// told says that the set is a safekeeper's. The list of a compute's configuration has the old
	// members and the new ones while the set changes, and does not tell them apart. As the real
	// walproposer, this one takes the set of the first safekeeper that has one. Otherwise the list
	// is the set, and has the addresses that the compute can reach.
	told bool
}

func quorumOf(generation uint32, addresses []string) quorum {
	return quorum{generation: generation, members: slices.Compact(slices.Sorted(slices.Values(addresses)))}
}

// after returns the set that a safekeeper's configuration asks for, if it is a later one, or one
// that changes, of the generation that is known by a list only.
func (q quorum) after(c Configuration) quorum {
	changes := c.Generation == q.generation && !q.told && len(c.NewMembers) > 0
	if c.Generation <= q.generation && !changes || len(c.Members) == 0 {
		return q
	}
	next := quorum{generation: c.Generation, told: true}
	for _, m := range c.Members {
		next.members = append(next.members, m.Address)
	}
	for _, m := range c.NewMembers {
		next.joint = append(next.joint, m.Address)
	}
	return next
}

// same reports that the other set is of the same generation, and has the same source.
func (q quorum) same(other quorum) bool {
	return q.generation == other.generation && q.told == other.told
}

// all returns the addresses of all members.
func (q quorum) all() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(q.members, q.joint))))
}

// reached tells whether those for whom has is true are enough.
func (q quorum) reached(has func(address string) bool) bool {
	return majority(q.members, has) && (len(q.joint) == 0 || majority(q.joint, has))
}

func majority(members []string, has func(string) bool) bool {
	count := 0
	for _, m := range members {
		if has(m) {
			count++
		}
	}
	return count > len(members)/2
}

// durable returns the highest LSN that enough members have flushed.
func (q quorum) durable(flushed map[string]LSN) LSN {
	var best LSN
	for _, lsn := range flushed {
		if lsn > best && q.reached(func(address string) bool { return flushed[address] >= lsn }) {
			best = lsn
		}
	}
	return best
}

// shared returns the end of the WAL that a log has in common with that of a proposer, whose
// history ends with its own term.
func shared(s State, history []TermStart) LSN {
	common := 0
	for common < len(s.History) && common < len(history) && s.History[common] == history[common] {
		common++
	}
	at := s.Flush
	if common < len(s.History) {
		at = min(at, s.History[common].LSN)
	}
	if common < len(history) {
		at = min(at, history[common].LSN)
	}
	return at
}
