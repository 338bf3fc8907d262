package own

import (
	"fmt"
	"slices"
	"strings"
)

// Print returns the memory besides the lanes' versions, or "".
func Print[K comparable](s *State[K]) string {
	var lines []string
	for key, m := range s.marks.All() {
		line := append(fmt.Append(nil, key, " doubt ", m.doubt.seq, " past "), m.past...)
		if c := m.claim; c != nil {
			line = append(append(append(append(line, " claim "...), c.UID...), ' '), c.Version...)
			line = fmt.Append(line, c.Deleting, c.own, c.seq, c.since, c.shown)
		}
		for _, d := range m.dead {
			line = append(append(append(append(line, " dead "...), d.uid...), ' '), d.floor...)
			line = fmt.Append(line, d.told, d.known, d.seq)
		}
		lines = append(lines, string(line))
	}
	for i, l := range s.lanes {
		if l.doubt.seq > 0 {
			lines = append(lines, fmt.Sprint("lane ", i, " doubt ", l.doubt.seq))
		}
		if l.unnamed.seq > 0 {
			lines = append(lines, fmt.Sprint("lane ", i, " unnamed ", l.unnamed.seq))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
