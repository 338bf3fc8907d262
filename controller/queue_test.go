package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pintle-go/pintle/kube"
)

func named(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

// modelQueue keeps a queue's promises in the plainest form: a list of the waiting
// requests, in the order in which they became ready.
type modelQueue struct {
	waiting []modelItem
	running map[kube.Key]bool
	seq     int
	passed  [priorities]int
}

type modelItem struct {
	key      kube.Key
	priority priority
	due      time.Time
	order    int  // when it became ready, in its priority; 0 if it is not
	put      bool // it was taken, and put off
	stays    bool // even if its object is gone
}

func (m *modelQueue) find(key kube.Key) *modelItem {
	for i := range m.waiting {
		if m.waiting[i].key == key {
			return &m.waiting[i]
		}
	}
	return nil
}

func (m *modelQueue) add(r request, now time.Time) {
	if r.due.Before(now) {
		r.due = now
	}
	it := m.find(r.key)
	switch {
	case it == nil:
		m.waiting = append(m.waiting, modelItem{
			key: r.key, priority: r.priority, due: r.due, stays: r.cause.Reason == Triggered,
		})
		return
	case !it.due.After(now) && !r.due.After(now):
		if r.priority < it.priority {
			it.priority, it.order = r.priority, 0
		}
	case r.due.Before(it.due) && it.put:
		it.due, it.priority, it.order = r.due, min(it.priority, r.priority), 0
	case r.due.Before(it.due):
		it.due, it.priority, it.order = r.due, r.priority, 0
	}
	it.stays = it.stays || r.cause.Reason == Triggered
}

// place gives a position to the requests that have become ready.
func (m *modelQueue) place(now time.Time) {
	var fresh []*modelItem
	for i := range m.waiting {
		if it := &m.waiting[i]; it.order == 0 && !m.running[it.key] && !it.due.After(now) {
			fresh = append(fresh, it)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *modelItem) int { return a.due.Compare(b.due) })
	for _, it := range fresh {
		m.seq++
		it.order = m.seq
	}
}

func (m *modelQueue) first(p priority) int {
	best := -1
	for i, it := range m.waiting {
		if it.order > 0 && it.priority == p && (best < 0 || it.order < m.waiting[best].order) {
			best = i
		}
	}
	return best
}

func (m *modelQueue) take() (it modelItem, ok bool) {
	at, from := -1, high
	for p := range priorities {
		first := m.first(p)
		if first < 0 {
			m.passed[p] = 0
		} else if at < 0 || m.passed[p] >= lowShare {
			at, from = first, p
		}
	}
	if at < 0 {
		return it, false
	}
	m.passed[from] = 0
	for p := from + 1; p < priorities; p++ {
		if m.first(p) >= 0 {
			m.passed[p]++
		}
	}
	it = m.waiting[at]
	m.waiting = slices.Delete(m.waiting, at, at+1)
	m.running[it.key] = true
	return it, true
}

// A queue does the same as its model, for all requests.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		q, m := newQueue(now), &modelQueue{running: make(map[kube.Key]bool)}
		var running []kube.Key
		delayed := 0
		key := rapid.Custom(func(t *rapid.T) kube.Key { return named(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))) })
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				r := request{key: key.Draw(t, "key"),
					cause: Cause{Reason: rapid.SampledFrom([]Reason{Triggered, Retried, Requested, Resynced}).Draw(t, "reason")}}
				r.priority = priority(rapid.IntRange(0, int(priorities)-1).Draw(t, "priority"))
				if in := rapid.IntRange(-2, 5).Draw(t, "in"); in > -2 {
					// No two are due at the same time, so that the order is known.
					delayed++
					r.due = now.Add(time.Duration(in)*time.Second + time.Duration(delayed)*time.Microsecond)
					if in <= 0 {
						r.due = now
					}
				}
				if r.cause.Reason == Requested || r.cause.Reason == Resynced {
					r.cause.due = r.due
				}
				if added := q.add(r, now); added != (m.find(r.key) == nil) {
					t.Fatalf("add of %s returned %t", r.key, added)
				}
				m.add(r, now)
				m.place(now)
			},
			"take": func(t *rapid.T) {
				m.place(now)
				want, ok := m.take()
				it := q.take(now)
				switch {
				case it == nil && ok:
					t.Fatalf("took nothing, want %s", want.key)
				case it == nil:
					return
				case !ok || it.key != want.key:
					t.Fatalf("took %s, want %s, %t", it.key, want.key, ok)
				case slices.Contains(running, it.key):
					t.Fatalf("%s is worked on already", it.key)
				}
				if rapid.IntRange(0, 3).Draw(t, "put off") > 0 {
					running = append(running, it.key)
					return
				}
				delayed++
				want.due, want.order, want.put = now.Add(time.Second+time.Duration(delayed)*time.Microsecond), 0, true
				delete(m.running, want.key)
				m.waiting = append(m.waiting, want)
				q.postpone(it, want.due)
			},
			"done": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip("nothing is running")
				}
				at := rapid.IntRange(0, len(running)-1).Draw(t, "running")
				q.done(running[at], now)
				delete(m.running, running[at])
				running = slices.Delete(running, at, at+1)
				m.place(now)
			},
			"drop": func(t *rapid.T) {
				k := key.Draw(t, "key")
				q.drop(k, kube.Change{}, now)
				m.waiting = slices.DeleteFunc(m.waiting, func(it modelItem) bool { return it.key == k && !it.stays })
				if it := m.find(k); it != nil {
					it.due, it.order = now, 0
				}
				m.place(now)
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
				q.promote(now)
				m.place(now)
			},
			"": func(t *rapid.T) {
				ready, later := 0, 0
				for _, it := range m.waiting {
					switch {
					case m.running[it.key]:
					case it.order > 0:
						ready++
					default:
						later++
					}
				}
				if got := q.depth(high) + q.depth(live) + q.depth(low); got != ready {
					t.Fatalf("%d keys are ready, want %d", got, ready)
				}
				waits, asleep := len(q.waiting)+q.asleep.n, q.asleep.n
				for _, key := range running {
					if _, ok := q.asleep.find(key); ok {
						asleep--
					}
				}
				if len(q.later)+asleep != later || waits != len(m.waiting) || len(q.running) != len(running) {
					t.Fatalf("%d later, %d waiting, %d running; want %d, %d, %d", len(q.later)+asleep, waits, len(q.running),
						later, len(m.waiting), len(running))
				}
			},
		})
	})
}

// A live key that is put off stays live, whatever else asks for it meanwhile.
func TestQueuePutOff(t *testing.T) {
	now := time.Unix(1, 0)
	q := newQueue(now)
	q.add(request{key: named("a"), priority: live, cause: Cause{Reason: Triggered}}, now)
	q.postpone(q.take(now), now.Add(time.Minute))
	q.add(request{key: named("b"), priority: low, cause: Cause{Reason: Listed}}, now)
	q.add(request{key: named("a"), priority: low, cause: Cause{Reason: Resynced}}, now)
	if it := q.take(now); it.key != named("a") || it.priority != live {
		t.Errorf("took %s with priority %d, want the live key", it.key, it.priority)
	}
}

// Live keys go ahead of the others, and the others still advance.
func TestQueueShare(t *testing.T) {
	now := time.Unix(1, 0)
	q := newQueue(now)
	for i := range 10 {
		q.add(request{key: named(fmt.Sprint("low", i)), priority: low}, now)
	}
	taken := 0
	for i := 0; q.depth(low) > 0; i++ {
		q.add(request{key: named(fmt.Sprint("live", i))}, now)
		it := q.take(now)
		if it.priority == low && i < lowShare {
			t.Fatalf("%s went ahead of a live key", it.key)
		}
		q.done(it.key, now)
		if taken++; taken > 10*(lowShare+1) {
			t.Fatal("a key of low priority makes no progress")
		}
	}
}

// A cause that is due later is not among the causes of an earlier reconcile.
func TestCausesDue(t *testing.T) {
	now := time.Unix(1, 0)
	q := newQueue(now)
	later := now.Add(time.Minute)
	q.add(request{key: named("a"), due: later, cause: Cause{Reason: Requested, due: later}}, now)
	q.add(request{key: named("a"), cause: Cause{Reason: Triggered, Source: "test"}}, now)
	it := q.take(now)
	it.causes.dueBy(now)
	if got := it.causes.String(); got != "triggered by test" {
		t.Errorf("the causes are %q", got)
	}
	if _, ok := q.next(); ok {
		t.Error("the later request is still there")
	}
}

func BenchmarkQueue(b *testing.B) {
	now := time.Unix(1, 0)
	q := newQueue(now)
	keys := make([]kube.Key, 5000)
	for i := range keys {
		keys[i] = named(fmt.Sprint(i))
		q.add(request{key: keys[i], cause: Cause{Reason: Triggered}}, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		it := q.take(now)
		q.add(request{key: it.key, cause: Cause{Reason: Requested}}, now)
		q.done(it.key, now)
	}
}
