package kube

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// followers holds the loops over the changes of a table. It also holds the last states of
// objects whose end some loops have not been shown yet, and the snapshots that loops over
// steps have not been shown yet. It holds no lock while a loop works.
type followers struct {
	mu  sync.Mutex
	all map[*subscription]struct{}
	// ends has the last states of each object, the oldest first. There are several if the
	// object has left the selection of the table and come back.
	ends map[identity][]ended
	// order has the keys of ends, once for each state, the oldest first.
	order []identity
}

// ended has the last state of an object, and the number of the first snapshot without it.
type ended struct {
	last   *entry
	number uint64
}

// identity tells an object from all others. The uid alone does not, because some kinds
// have no uids.
type identity struct {
	key Key
	uid types.UID
}

// endsKept bounds how many last states are kept for loops that are behind.
const endsKept = 1024

// stepsKept bounds how many snapshots are kept for a loop that is shown every one.
const stepsKept = 1024

func (f *followers) add(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[*subscription]struct{})
	}
	f.all[s] = struct{}{}
	if s.every {
		s.behind = []*snapshot{s.table.now()}
	}
}

// publish makes next the content of a table in place of base, and tells the loops. It
// returns false if base is not the content any more.
func (f *followers) publish(t *table, base, next *snapshot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !t.content.CompareAndSwap(base, next) {
		return false
	}
	for s := range f.all {
		if s.every {
			s.keep(next)
		}
		s.awake()
	}
	return true
}

// next returns the snapshot that a loop is to be shown, and before that the objects for
// showVanished. A loop that is shown every snapshot gets the oldest one that it has not
// been shown. If there is none, it gets the objects.
func (f *followers) next(s *subscription) (to *snapshot, vanished map[Key]*entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !s.every:
		return s.table.now(), s.takeVanished()
	case len(s.behind) == 0:
		return nil, s.takeVanished()
	}
	to = s.behind[0]
	s.behind = slices.Delete(s.behind, 0, 1)
	if len(s.behind) == 0 && cap(s.behind) > 8 {
		s.behind = nil
	}
	if s.merged {
		s.merged, s.synced = false, false
	}
	return to, nil
}

func (f *followers) remove(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, s)
	f.trim()
}

// wake wakes the loops.
func (f *followers) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.all {
		s.awake()
	}
}

func (f *followers) vanished(key Key, e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.all {
		s.vanished(key, e, true)
	}
}

// keep keeps the last states of objects that a snapshot lacks.
func (f *followers) keep(removed []keyed, number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 {
		return
	}
	if f.ends == nil {
		f.ends = make(map[identity][]ended)
	}
	for _, k := range removed[max(0, len(removed)-endsKept):] {
		id := identity{k.key, k.entry.UID()}
		f.ends[id] = append(f.ends[id], ended{k.entry, number})
		f.order = append(f.order, id)
	}
	for len(f.order) > endsKept {
		f.forget()
	}
}

// last returns the last state of an object that a snapshot, or one of those before it,
// does not have any more. It returns nil if that state is not known.
func (f *followers) last(key Key, uid types.UID, number uint64) *entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range slices.Backward(f.ends[identity{key, uid}]) {
		if end.number <= number {
			return end.last
		}
	}
	return nil
}

// reached notes that a loop was shown all changes up to a snapshot.
func (f *followers) reached(s *subscription, number uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.number = number
	f.trim()
}

// trim forgets the last state of each object whose end all loops were shown.
func (f *followers) trim() {
	if len(f.order) == 0 {
		return
	}
	shown := uint64(1<<64 - 1)
	for s := range f.all {
		shown = min(shown, s.number)
	}
	for len(f.order) > 0 && f.ends[f.order[0]][0].number <= shown {
		f.forget()
	}
}

// forget forgets the oldest last state.
func (f *followers) forget() {
	first := f.order[0]
	if f.ends[first] = f.ends[first][1:]; len(f.ends[first]) == 0 {
		delete(f.ends, first)
	}
	if f.order = f.order[1:]; len(f.order) == 0 {
		f.order = nil
	}
}
