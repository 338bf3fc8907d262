package own

import (
	"fmt"
	"slices"
	"strings"
)

// Print returns the memory besides the lanes' versions, or "".
func Print[K comparable, E any](s *State[K, E]) string {
	var lines []string
	for key, m := range s.marks.All() {
		line := fmt.Sprint(key, " doubt ", m.doubt.seq, " past ", m.past)
		if c := m.claim; c != nil {
			line += fmt.Sprint(" claim ", c.Object, c.own, c.seq)
		}
		for _, d := range m.dead {
			line += fmt.Sprint(" dead ", d.uid, d.told, d.floor)
		}
		lines = append(lines, line)
	}
	for i, l := range s.lanes {
		if l.doubt.seq > 0 {
			lines = append(lines, fmt.Sprint("lane ", i, " doubt ", l.doubt.seq))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
