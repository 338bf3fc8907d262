package controller

import (
	"hash/maphash"
	"sync"
	"time"
)

// memory remembers values by hashes for one or two periods, and for a shorter time if there
// are very many of them.
type memory[V any] struct {
	period     time.Duration
	most       int // values in one period
	seed       maphash.Seed
	mu         sync.Mutex
	began      time.Time
	young, old map[uint64]V
}

func newMemory[V any](period time.Duration, most int) *memory[V] {
	return &memory[V]{period: period, most: most, seed: maphash.MakeSeed(), young: make(map[uint64]V)}
}

// update replaces a value, which is zero at first, by what f makes of it.
func (m *memory[V]) update(hash uint64, now time.Time, f func(V) V) {
	m.fade(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[hash]
	if !ok {
		v = m.old[hash]
	}
	m.young[hash] = f(v)
}

// fade forgets the values of the period before the last one. It returns whether any are
// left.
func (m *memory[V]) fade(now time.Time) (left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now.Sub(m.began); age >= m.period || len(m.young) >= m.most {
		if age >= 2*m.period { // nobody has asked for so long
			m.young = nil
		}
		m.old, m.young, m.began = m.young, make(map[uint64]V), now
	}
	return len(m.young)+len(m.old) > 0
}

// get returns a value, zero if there is none.
func (m *memory[V]) get(hash uint64) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.young[hash]; ok {
		return v
	}
	return m.old[hash]
}
