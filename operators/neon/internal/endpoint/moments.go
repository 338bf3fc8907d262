package endpoint

import (
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/internal/replica"
)

// moments are what this process remembers of endpoints. Other replicas of the operator do not
// know it, and it is gone after a restart.
type moments struct {
	mu sync.Mutex
	// woken has the times at which clients were last sent to computes. It keeps a compute from
	// being suspended before it has seen its client.
	woken map[kube.Key]time.Time
	// stopped has the times at which computes were last seen to be unwanted. Answers from before
	// say nothing about computes that were started since.
	stopped map[kube.Key]time.Time
	// states have the last seen status of each compute, and since when it has it.
	states map[kube.Key]state
	// ready has whether the pod of each compute counted as ready when it was last wanted.
	ready map[kube.Key]bool
	// replicas say how far replicas are behind.
	replicas map[kube.Key]follows
}

// follows is the last look at the position of a replica.
type follows struct {
	start  string // of its compute
	looked time.Time
	lag    replica.Lag
	behind string // why it is not of use
}

// followed returns the last look at a replica, nothing if its compute was started since.
func (m *moments) followed(key kube.Key, start string) follows {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is := m.replicas[key]; is.start == start {
		return is
	}
	return follows{}
}

func (m *moments) follow(key kube.Key, is follows) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replicas == nil {
		m.replicas = make(map[kube.Key]follows)
	}
	m.replicas[key] = is
}

// state is a status of one compute.
type state struct {
	name  string
	since time.Time
	made  string // see compute
}

// entered returns the time since when a compute is in a state, and how its pod was made.
func (m *moments) entered(key kube.Key, name string, now time.Time) (since time.Time, made string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is, ok := m.states[key]; ok && is.name == name {
		return is.since, is.made
	}
	if m.states == nil {
		m.states = make(map[kube.Key]state)
	}
	m.states[key] = state{name: name, since: now}
	return now, ""
}

// made keeps how the pod of a compute was made, while the compute stays in its state.
func (m *moments) made(key kube.Key, made string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is, ok := m.states[key]; ok {
		is.made = made
		m.states[key] = is
	}
}

func (m *moments) pod(key kube.Key, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ready == nil {
		m.ready = make(map[kube.Key]bool)
	}
	m.ready[key] = ready
}

func (m *moments) podReady(key kube.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready[key]
}

func (m *moments) wake(key kube.Key, now time.Time) { m.note(&m.woken, key, now) }
func (m *moments) stop(key kube.Key, now time.Time) {
	m.note(&m.stopped, key, now)
	m.leave(key)
}

// leave forgets the status of a compute: the next one is a new one.
func (m *moments) leave(key kube.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.states, key)
}

func (m *moments) note(in *map[kube.Key]time.Time, key kube.Key, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *in == nil {
		*in = make(map[kube.Key]time.Time)
	}
	(*in)[key] = now
}

func (m *moments) of(key kube.Key) (woken, stopped time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.woken[key], m.stopped[key]
}

func (m *moments) forget(key kube.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.woken, key)
	delete(m.stopped, key)
	delete(m.states, key)
	delete(m.ready, key)
	delete(m.replicas, key)
}
