package metrics

import (
	"maps"
	"sync"
	"time"

	"github.com/pintle-go/pintle/kube"
)

// Store is the store of a [kube.Informer].
type Store interface {
	Stats() kube.StoreStats
	Synced() bool
	Done() <-chan struct{}
}

// AddStore adds a store under a name. It replaces an earlier store of this name. A store
// that has stopped is left out.
func (m *Metrics) AddStore(name string, s Store) { m.stores.add(name, s) }

// stores reads the stores at each scrape only.
type stores struct {
	synced, objects, bytes, age *Family[Gauge]

	mu     sync.Mutex
	byName map[string]Store
}

func newStores(m *Metrics) *stores {
	s := &stores{
		synced:  m.Gauge("pintle_store_synced", "Whether the store has been filled.", "store"),
		objects: m.Gauge("pintle_store_objects", "Number of objects in the store.", "store"),
		bytes:   m.Gauge("pintle_store_bytes", "Size of the store's objects in bytes, as it keeps them.", "store"),
		age: m.Gauge(
			"pintle_store_last_event_age_seconds",
			"Time since the store last received an object, a bookmark or a list from the server.", "store",
		),
		byName: make(map[string]Store),
	}
	m.Collect(s.collect)
	return s
}

func (s *stores) add(name string, store Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name] = store
}

// running returns the stores that have not stopped, and removes the others.
func (s *stores) running() map[string]Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byName, func(_ string, store Store) bool {
		select {
		case <-store.Done():
			return true
		default:
			return false
		}
	})
	return maps.Clone(s.byName)
}

func (s *stores) collect(scrape *Scrape) {
	for name, store := range s.running() {
		stats := store.Stats()
		scrape.Gauge(s.synced, number(store.Synced()), name)
		scrape.Gauge(s.objects, float64(stats.Objects), name)
		scrape.Gauge(s.bytes, float64(stats.Bytes), name)
		if !stats.LastHeard.IsZero() {
			scrape.Gauge(s.age, time.Since(stats.LastHeard).Seconds(), name)
		}
	}
}

// number returns 1 for true and 0 for false.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
