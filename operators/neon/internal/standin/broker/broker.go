// Package broker stands in for Neon's storage_broker in tests. It is no part of Neon. The real
// broker carries what safekeepers say about their timelines to pageservers by gRPC; this one
// does it by HTTP, under /standin. Like the real one it keeps nothing.
package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/safekeeper"
	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
)

// Broker is one stand-in. Its zero value is ready for use.
type Broker struct {
	Faults wire.Faults
	Log    *slog.Logger

	mu        sync.Mutex
	said      map[string]map[int64]safekeeper.Published
	broadcast int
}

// Run serves until ctx ends.
func (b *Broker) Run(ctx context.Context, listeners ...net.Listener) error {
	if b.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	b.Log.Info("stand-in for Neon's storage_broker, no part of Neon")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { failed <- wire.Serve(ctx, listener, b.Faults.Wrap(b.handler())) }()
	}
	var first error
	for range listeners {
		if err := <-failed; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

func (b *Broker) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /status", wire.Handler(func(*http.Request) (wire.Answer, error) {
		return wire.OK(wire.Raw{Type: "text/plain"}), nil
	}))
	mux.Handle("GET /metrics", wire.Handler(b.metrics))
	mux.Handle("POST /standin/publish", wire.Handler(b.publish))
	mux.Handle("GET /standin/timelines", wire.Handler(b.timelines))
	mux.Handle("GET /standin/timeline/{tenant}/{timeline}", wire.Handler(b.timeline))
	return mux
}

func (b *Broker) publish(r *http.Request) (wire.Answer, error) {
	var all []safekeeper.Published
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		return wire.Answer{}, wire.BadRequest("%v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == nil {
		b.said = map[string]map[int64]safekeeper.Published{}
	}
	for _, p := range all {
		key := p.Tenant + "/" + p.Timeline
		if b.said[key] == nil {
			b.said[key] = map[int64]safekeeper.Published{}
		}
		b.said[key][p.Safekeeper] = p
		b.broadcast++
	}
	return wire.Answer{Status: http.StatusNoContent}, nil
}

func (b *Broker) timelines(*http.Request) (wire.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []safekeeper.Published{}
	for _, said := range b.said {
		for _, p := range said {
			all = append(all, p)
		}
	}
	return wire.OK(all), nil
}

func (b *Broker) timeline(r *http.Request) (wire.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []safekeeper.Published{}
	for _, p := range b.said[r.PathValue("tenant")+"/"+r.PathValue("timeline")] {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b safekeeper.Published) int { return cmp.Compare(a.Safekeeper, b.Safekeeper) })
	return wire.OK(all), nil
}

func (b *Broker) metrics(*http.Request) (wire.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	publishers := map[int64]bool{}
	for _, said := range b.said {
		for id := range said {
			publishers[id] = true
		}
	}
	text := fmt.Sprintf("storage_broker_active_publishers %d\nstorage_broker_broadcasted_messages_total %d\n",
		len(publishers), b.broadcast)
	return wire.OK(wire.Raw{Type: "text/plain; version=0.0.4", Content: []byte(text)}), nil
}
