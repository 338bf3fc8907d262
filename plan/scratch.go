package plan

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scratch has the maps and records of a run. Runs follow one another closely, and use them
// again.
type scratch struct {
	records []record
	by      map[object]*record
	named   map[string]*node
	wanted  map[metav1.Object]*node
}

var scratches = sync.Pool{New: func() any {
	return &scratch{by: make(map[object]*record), named: make(map[string]*node), wanted: make(map[metav1.Object]*node)}
}}

// room returns empty records.
func (s *scratch) room(n int) []record {
	if cap(s.records) < n {
		s.records = make([]record, n)
	}
	s.records = s.records[:n]
	return s.records
}

// release leaves all of it to another run.
func (s *scratch) release(nodes []*node) {
	for _, n := range nodes {
		n.record = nil
	}
	clear(s.records)
	clear(s.by)
	clear(s.named)
	clear(s.wanted)
	scratches.Put(s)
}
