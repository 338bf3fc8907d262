package main

import (
	"fmt"
	"time"

	"github.com/pintle-go/pintle/bench/measure"
)

// figure is a line of the table.
type figure struct {
	name  string
	peer  string // subject, none if empty
	ours  string // subject
	value func(measure.Result) float64
	show  func(float64) string
	// What ours may be at most: a share of the peer's, or an amount, or
	// neither, for a line that only informs.
	share     float64
	shareText string
	limit     float64
}

// megabyte is the smaller one, of a million bytes, which makes the targets a little harder.
const megabyte = 1e6

// figures are the promises, in order; an empty name ends a group.
func figures() []figure {
	heap := func(r measure.Result) float64 { return float64(r.Heap) }
	peak := func(r measure.Result) float64 { return float64(r.PeakRSS) }
	sync := func(r measure.Result) float64 { return float64(r.Sync) }
	cpu := func(r measure.Result) float64 { return float64(r.CPU) }
	get := func(r measure.Result) float64 { return float64(r.Get) }
	look := func(r measure.Result) float64 { return float64(r.Lookup) }
	none := func(r measure.Result) float64 { return float64(r.LookupNone) }
	growth := func(r measure.Result) float64 { return float64(r.Lookup) / float64(r.LookupSmall) }
	bytes := func(v float64) string { return size(uint64(v)) }
	nanos := func(v float64) string { return duration(time.Duration(v)) }
	times := func(v float64) string { return fmt.Sprintf("%.2f×", v) }

	const listed, stripped, unstructured = ", vs streaming list off", ", vs managedFields stripped", ", vs unstructured"
	return []figure{
		{name: "full Pods: live heap", peer: peerPods, ours: oursPods, value: heap, show: bytes, share: 1. / 5, shareText: "1/5"},
		{name: "full Pods: live heap" + listed, peer: peerPodsListed, ours: oursPods, value: heap, show: bytes, share: 1. / 5, shareText: "1/5"},
		{name: "full Pods: live heap" + stripped, peer: peerPodsStripped, ours: oursPods, value: heap, show: bytes},
		{name: "full Pods: peak RSS", peer: peerPods, ours: oursPods, value: peak, show: bytes, share: 1. / 3, shareText: "1/3"},
		{name: "full Pods: peak RSS" + listed, peer: peerPodsListed, ours: oursPods, value: peak, show: bytes, share: 1. / 3, shareText: "1/3"},
		{name: "full Pods: peak RSS" + stripped, peer: peerPodsStripped, ours: oursPods, value: peak, show: bytes},
		{name: "full Pods: time to sync", peer: peerPods, ours: oursPods, value: sync, show: nanos, share: 0.7, shareText: "0.7"},
		{name: "full Pods: time to sync" + listed, peer: peerPodsListed, ours: oursPods, value: sync, show: nanos, share: 0.7, shareText: "0.7"},
		{name: "full Pods: CPU time of the sync", peer: peerPods, ours: oursPods, value: cpu, show: nanos},
		{name: "full Pods: CPU time of the sync" + listed, peer: peerPodsListed, ours: oursPods, value: cpu, show: nanos},
		{},
		{name: "view of Pods: live heap", peer: peerPods, ours: oursView, value: heap, show: bytes, share: 1. / 20, shareText: "1/20"},
		{name: "view of Pods: live heap" + listed, peer: peerPodsListed, ours: oursView, value: heap, show: bytes, share: 1. / 20, shareText: "1/20"},
		{name: "view of Pods: peak RSS", peer: peerPods, ours: oursView, value: peak, show: bytes, limit: 40 * megabyte},
		{name: "view of Pods: time to sync", peer: peerPods, ours: oursView, value: sync, show: nanos, share: 1, shareText: "1"},
		{name: "view of Pods: time to sync" + listed, peer: peerPodsListed, ours: oursView, value: sync, show: nanos, share: 1, shareText: "1"},
		{name: "view of Pods: CPU time of the sync", peer: peerPods, ours: oursView, value: cpu, show: nanos},
		{},
		{name: "custom resources: live heap, vs typed", peer: peerWidgets, ours: oursWidgets, value: heap, show: bytes, share: 0.55, shareText: "0.55"},
		{name: "custom resources: live heap" + unstructured, peer: peerUnstructured, ours: oursWidgets, value: heap, show: bytes, share: 1. / 6, shareText: "1/6"},
		{name: "custom resources: peak RSS, vs typed", peer: peerWidgets, ours: oursWidgets, value: peak, show: bytes},
		{name: "custom resources: time to sync, vs typed", peer: peerWidgets, ours: oursWidgets, value: sync, show: nanos, share: 1, shareText: "1"},
		{name: "custom resources: time to sync" + unstructured, peer: peerUnstructured, ours: oursWidgets, value: sync, show: nanos, share: 1, shareText: "1"},
		{name: "custom resources: CPU time of the sync, vs typed", peer: peerWidgets, ours: oursWidgets, value: cpu, show: nanos},
		{},
		{name: "read one full Pod by key, p50", peer: peerPods, ours: oursPods, value: get, show: nanos, limit: float64(40 * time.Microsecond)},
		{name: "read one view by key, p50", peer: peerPods, ours: oursView, value: get, show: nanos, limit: float64(5 * time.Microsecond)},
		{name: "read one custom resource by key, p50", peer: peerWidgets, ours: oursWidgets, value: get, show: nanos},
		{name: "index look-up of 100 full Pods, p50", peer: peerPods, ours: oursPods, value: look, show: nanos},
		{name: "… its time by that in a store a tenth the size", peer: peerPods, ours: oursPods, value: growth, show: times, limit: scanFree},
		{name: "… one that finds nothing, p50 (no scan is as quick)", peer: peerPods, ours: oursPods, value: none, show: nanos, limit: scanTime},
		{name: "index look-up of 100 views, p50", peer: peerPods, ours: oursView, value: look, show: nanos},
		{name: "… its time by that in a store a tenth the size", peer: peerPods, ours: oursView, value: growth, show: times, limit: scanFree},
	}
}

const (
	// scanFree is how many times longer a look-up may take in a store of ten
	// times the size: a scan takes ten times as long; what is left for an index
	// is that a larger store fits less well into the processor's caches.
	scanFree = 2
	// scanTime is less than it takes to look at 20,000 objects.
	scanTime = float64(10 * time.Microsecond)
)
