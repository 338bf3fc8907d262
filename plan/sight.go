package plan

import (
	"cmp"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sight is a thing as it was last seen. A thing is not observed at each reconcile: the
// process remembers it until it is due.
type sight[T any] struct {
	is      *T                // nil: it was not there
	sent    *T                // what Create was to make; nil: it is not known
	ended   bool              // it was deleted, and was not there then
	asked   bool              // its deletion was asked for
	token   string            // of its record
	outcome map[string]string // nil: it is not known
	at      time.Time
	poll    time.Duration // with its random part
	every   time.Duration // how long the sight is good
}

type sightKey struct {
	owner types.UID
	name  string
}

func (p *Plan) sightOf(s NodeStatus) sightKey {
	return sightKey{p.owner.GetUID(), s.Kind + " " + s.ObjectName}
}

const soonest = 2 * time.Second

// judged sets how long the sight is good for a thing that is ready, or has not been ready
// for some time.
func (s *sight[T]) judged(ready bool, unready time.Duration) {
	every := s.poll
	if !ready {
		every = min(max(soonest, unready/4), s.poll)
	}
	s.every = every
}

func (s *sight[T]) due() time.Time { return s.at.Add(s.every) }

// remember replaces the sight of a thing.
func (t *Things[T]) remember(key sightKey, is *T, token string, outcome map[string]string) *sight[T] {
	now := time.Now()
	poll := cmp.Or(t.Poll, 5*time.Minute)
	if t.Next != nil && is != nil {
		if next := t.Next(is); next > 0 {
			poll = min(poll, max(next, soonest))
		}
	}
	s := &sight[T]{is: is, token: token, outcome: outcome, at: now, poll: poll + rand.N(poll/10+1)}
	s.judged(false, 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = make(map[sightKey]*sight[T])
	}
	if _, again := t.known[key]; !again && len(t.known)%64 == 63 {
		// An owner may go away without a deletion of its plan.
		for k, old := range t.known {
			if now.Sub(old.at) > 3*old.poll+24*time.Hour {
				t.drop(k)
			}
		}
	}
	if old := t.known[key]; old != nil {
		s.sent = old.sent
	}
	t.known[key] = s
	return s
}

// last returns the last sight of a thing, nil if there is none.
func (t *Things[T]) last(key sightKey) *sight[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[key]
}

func (t *Things[T]) forget(key sightKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(key)
}

func (t *Things[T]) drop(key sightKey) {
	delete(t.known, key)
	if t.holders[key.name].owner == key.owner {
		delete(t.holders, key.name)
	}
}

func (t *Things[T]) letGo(p *Plan, s NodeStatus) {
	key := p.sightOf(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders[key.name].owner == key.owner {
		delete(t.holders, key.name)
	}
}

// holder is an owner that has a thing or creates it.
type holder struct {
	owner types.UID
	at    time.Time // when it last looked
}

// hold reports that no other owner of this process has the thing or creates it. Two owners
// that look for the same thing at the same time both find none. An owner that has not looked for
// several polls is gone, such as one that was deleted without its finalizer.
func (t *Things[T]) hold(key sightKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, last := time.Now(), t.holders[key.name]
	lasts := 3*cmp.Or(t.Poll, 5*time.Minute) + t.doubtLasts()
	if !last.at.IsZero() && last.owner != key.owner && now.Sub(last.at) < lasts {
		return false
	}
	if t.holders == nil {
		t.holders = make(map[string]holder)
	}
	t.holders[key.name] = holder{key.owner, now}
	return true
}
