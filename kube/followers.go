package kube

import (
	"math"
	"slices"
	"sort"
	"sync"
)

// followers holds the loops over the changes of a table. It also holds the ends of objects that
// some loops have not been shown yet, and the snapshots that loops over steps have not been shown
// yet. It holds no lock while a loop works.
type followers struct {
	mu  sync.Mutex
	all map[*subscription]struct{}
	// ends are in the order of their numbers.
	ends []numbered
	// merges is how many of the ends are of objects that this process did not write.
	merges int
	// decoded holds objects for the loops that decode changes.
	decoded decodedObjects
}

// numbered is an end with the number of the first snapshot after it.
type numbered struct {
	end
	number uint64
}

// endsKept bounds how many ends are kept for loops that are behind. The ends of objects that this
// process wrote are kept besides: somebody relies on each loop being shown them.
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
	s.from = &origin{handle: s.table.handle, followers: f}
	now := s.table.now()
	s.number, s.decodes = now.number, true // until a round shows whether it does
	if s.every {
		s.behind = []*snapshot{now}
	}
}

// publish makes a draft the content of a table, and tells the loops if it is another content.
func (f *followers) publish(t *table, d *draft) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !d.changed {
		t.content.Store(d.next)
		return
	}
	d.next.number++
	t.content.Store(d.next)
	if len(f.all) == 0 {
		return
	}
	for _, e := range d.ends {
		f.ends = append(f.ends, numbered{e, d.next.number})
		if !e.own {
			f.merges++
		}
	}
	if f.merges > endsKept {
		f.ends = slices.DeleteFunc(f.ends, func(e numbered) bool {
			over := !e.own && f.merges > endsKept
			if over {
				f.merges--
			}
			return over
		})
	}
	decodes := false
	for s := range f.all {
		if s.every {
			s.keep(d.next)
		}
		decodes = decodes || s.decodes
		s.awake()
	}
	if decodes {
		f.decoded.join(d.known.rest(), d.next.number)
	}
}

// take removes the decoded object of an entry, which then belongs to the caller.
func (f *followers) take(e *entry) (o decodedObject, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decoded.take(e)
}

// next returns the snapshot that a loop is to be shown, and the ends before it that the loop was
// not shown. A loop that is shown every snapshot gets the oldest one that it has not been shown.
func (f *followers) next(s *subscription) (to *snapshot, ends []end) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !s.every:
		to = s.table.now()
	case len(s.behind) == 0:
		return nil, nil
	default:
		to = s.behind[0]
		s.behind = slices.Delete(s.behind, 0, 1)
		if len(s.behind) == 0 && cap(s.behind) > 8 {
			s.behind = nil
		}
		if s.merged {
			s.merged, s.synced = false, false
		}
	}
	from := sort.Search(len(f.ends), func(i int) bool { return f.ends[i].number > s.number })
	for _, e := range f.ends[from:] {
		if e.number > to.number {
			break
		}
		ends = append(ends, e.end)
	}
	return to, ends
}

func (f *followers) remove(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, s)
	f.trim()
}

// reached notes that a loop was shown all changes up to a snapshot, and whether it has changed something.
func (f *followers) reached(s *subscription, number uint64, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.number = number; changed {
		s.decodes = s.from.decodes.Swap(false)
	}
	f.trim()
}

// trim forgets the ends that all loops were shown, and the objects that no loop will decode.
func (f *followers) trim() {
	if len(f.decoded.list) > 0 {
		f.decoded.forget(f.shown(func(s *subscription) bool { return s.decodes }))
	}
	if len(f.ends) == 0 {
		return
	}
	shown := f.shown(func(*subscription) bool { return true })
	n := 0
	for ; n < len(f.ends) && f.ends[n].number <= shown; n++ {
		if !f.ends[n].own {
			f.merges--
		}
	}
	if f.ends = slices.Delete(f.ends, 0, n); len(f.ends) == 0 {
		f.ends = nil
	}
}

// shown returns the number of the latest snapshot that all loops of a sort were shown.
func (f *followers) shown(which func(*subscription) bool) uint64 {
	number := uint64(math.MaxUint64)
	for s := range f.all {
		if which(s) {
			number = min(number, s.number)
		}
	}
	return number
}
