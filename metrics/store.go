package metrics

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pintle-go/pintle/kube"
)

// Store is a [kube.Store] of any type.
type Store interface {
	Stats() kube.StoreStats
	Synced() bool
	Done() <-chan struct{}
}

var (
	storeSynced  = prometheus.NewDesc("pintle_store_synced", "Whether the store has been filled.", []string{"store"}, nil)
	storeObjects = prometheus.NewDesc("pintle_store_objects", "Number of objects in the store.", []string{"store"}, nil)
	storeBytes   = prometheus.NewDesc("pintle_store_bytes", "Size of the store's objects in bytes, as it keeps them.", []string{"store"}, nil)
	storeAge     = prometheus.NewDesc("pintle_store_last_event_age_seconds",
		"Time since the store last heard of the server: an object, a bookmark, a listing.", []string{"store"}, nil)
)

// stores asks the stores only when somebody asks for the metrics.
type stores struct {
	mu     sync.Mutex
	byName map[string]Store
}

func (s *stores) add(name string, store Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = make(map[string]Store)
	}
	s.byName[name] = store
}

// running returns the stores that have not stopped, and forgets the others.
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

func (s *stores) Describe(ch chan<- *prometheus.Desc) {
	ch <- storeSynced
	ch <- storeObjects
	ch <- storeBytes
	ch <- storeAge
}

func (s *stores) Collect(ch chan<- prometheus.Metric) {
	for name, store := range s.running() {
		gauge := func(desc *prometheus.Desc, value float64) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name)
		}
		synced := 0.0
		if store.Synced() {
			synced = 1
		}
		stats := store.Stats()
		gauge(storeSynced, synced)
		gauge(storeObjects, float64(stats.Objects))
		gauge(storeBytes, float64(stats.Bytes))
		if !stats.LastEvent.IsZero() {
			gauge(storeAge, time.Since(stats.LastEvent).Seconds())
		}
	}
}
