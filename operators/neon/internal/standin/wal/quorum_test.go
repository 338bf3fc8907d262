package wal

import "testing"

func TestDurable(t *testing.T) {
	t.Parallel()
	q := quorumOf(1, []string{"a", "b", "c", "a"})
	joint := q.after(Configuration{Generation: 2, Members: []Member{{1, "a"}, {2, "b"}, {3, "c"}}, NewMembers: []Member{{2, "b"}, {3, "c"}, {4, "d"}}})
	list := quorumOf(2, []string{"a", "b", "c", "d"}) // of a compute that starts while the set changes
	told := list.after(Configuration{
		Generation: 2, Members: []Member{{1, "a"}, {2, "b"}, {3, "c"}}, NewMembers: []Member{{2, "b"}, {3, "c"}, {4, "d"}},
	})
	for name, of := range map[string]struct {
		quorum  quorum
		flushed map[string]LSN
		want    LSN
	}{
		"none":                         {q, nil, 0},
		"one":                          {q, map[string]LSN{"a": 9}, 0},
		"two":                          {q, map[string]LSN{"a": 9, "b": 5}, 5},
		"three":                        {q, map[string]LSN{"a": 9, "b": 5, "c": 7}, 7},
		"a stranger":                   {q, map[string]LSN{"a": 9, "x": 9, "c": 7}, 7},
		"joint: the old ones only":     {joint, map[string]LSN{"a": 9, "b": 9}, 0},
		"joint: both":                  {joint, map[string]LSN{"a": 9, "b": 9, "d": 4}, 4},
		"joint: the two in the middle": {joint, map[string]LSN{"b": 8, "c": 6}, 6},
		"a list: two of four":          {list, map[string]LSN{"b": 8, "c": 6}, 0},
		"a list that is told":          {told, map[string]LSN{"b": 8, "c": 6}, 6},
	} {
		if got := of.quorum.durable(of.flushed); got != of.want {
			t.Errorf("%s: durable up to %s, want %s", name, got, of.want)
		}
	}
	if same := joint.after(Configuration{Generation: 2}); same.generation != 2 || len(same.joint) != 3 {
		t.Errorf("an old configuration is taken: %+v", same)
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	history := []TermStart{{1, 100}, {3, 200}, {5, 300}}
	for name, of := range map[string]struct {
		state State
		want  LSN
	}{
		"behind":            {State{History: []TermStart{{1, 100}}, Flush: 150}, 150},
		"left at term 3":    {State{History: []TermStart{{1, 100}}, Flush: 250}, 200},
		"another term":      {State{History: []TermStart{{1, 100}, {2, 180}}, Flush: 250}, 180},
		"a vote behind":     {State{History: history[:2], Flush: 250}, 250},
		"longer":            {State{History: history[:2], Flush: 400}, 300},
		"it has voted only": {State{Flush: 100}, 100},
	} {
		if got := shared(of.state, history); got != of.want {
			t.Errorf("%s: shared up to %s, want %s", name, got, of.want)
		}
	}
}

// A log that a proposer has taken over, and that still lacks older WAL, must not win against
// one that has it.
func TestLastTermIsThatOfTheWAL(t *testing.T) {
	t.Parallel()
	s := State{History: []TermStart{{1, 100}, {5, 300}}, Flush: 299}
	if s.lastTerm() != 1 || s.elected() != 5 {
		t.Errorf("last term %d, elected %d", s.lastTerm(), s.elected())
	}
	if s.Flush = 300; s.lastTerm() != 5 {
		t.Errorf("last term %d", s.lastTerm())
	}
}
