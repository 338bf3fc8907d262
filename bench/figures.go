package main

import (
	"fmt"
	"time"

	"github.com/pintle-go/pintle/bench/measure"
)

// figure is a line of the table that is about stores.
type figure struct {
	name   string
	peer   string // subject
	ours   string // subject
	value  func(measure.Result) float64
	show   func(float64) string
	target target
}

// row fills in the results of the subjects' runs.
func (f figure) row(results map[string][]measure.Result) row {
	values := func(subject string) (all []float64) {
		for _, r := range results[subject] {
			all = append(all, f.value(r))
		}
		return all
	}
	return row{name: f.name, peer: values(f.peer), ours: values(f.ours), show: f.show, target: f.target}
}

// storeRows returns all figures about stores.
func storeRows(results map[string][]measure.Result) []row {
	var rows []row
	for _, f := range figures() {
		rows = append(rows, f.row(results))
	}
	return rows
}

// megabyte is a million bytes. The smaller of the two units makes the targets a little
// harder.
const megabyte = 1e6

// figures returns the promises, in order. An empty name ends a group.
func figures() []figure {
	heap := func(r measure.Result) float64 { return float64(r.Heap) }
	peak := func(r measure.Result) float64 { return float64(r.PeakRSS) }
	sync := func(r measure.Result) float64 { return float64(r.Sync) }
	cpu := func(r measure.Result) float64 { return float64(r.CPU) }
	server := func(r measure.Result) float64 { return float64(r.Server) }
	get := func(r measure.Result) float64 { return float64(r.Get) }
	look := func(r measure.Result) float64 { return float64(r.Lookup) }
	none := func(r measure.Result) float64 { return float64(r.LookupNone) }
	growth := func(r measure.Result) float64 { return float64(r.Lookup) / float64(r.LookupSmall) }
	times := func(v float64) string { return fmt.Sprintf("%.2f×", v) }

	const listed, stripped, unstructured = ", vs streaming list off", ", vs managedFields stripped", ", vs unstructured"
	const three = ", vs three fields by a transform"
	return []figure{
		{
			name: "full Pods: live heap", peer: peerPods, ours: oursPods, value: heap, show: asSize,
			target: shareOf("1/5", 1./5),
		},
		{
			name: "full Pods: live heap" + listed, peer: peerPodsListed, ours: oursPods, value: heap, show: asSize,
			target: shareOf("1/5", 1./5),
		},
		{name: "full Pods: live heap" + stripped, peer: peerPodsStripped, ours: oursPods, value: heap, show: asSize},
		{
			name: "full Pods: peak RSS", peer: peerPods, ours: oursPods, value: peak, show: asSize,
			target: shareOf("1/3", 1./3),
		},
		{
			name: "full Pods: peak RSS" + listed, peer: peerPodsListed, ours: oursPods, value: peak, show: asSize,
			target: shareOf("1/3", 1./3),
		},
		{name: "full Pods: peak RSS" + stripped, peer: peerPodsStripped, ours: oursPods, value: peak, show: asSize},
		{
			name: "full Pods: time to sync", peer: peerPods, ours: oursPods, value: sync, show: asTime,
			target: shareOf("0.7", 0.7),
		},
		{
			name: "full Pods: time to sync" + listed, peer: peerPodsListed, ours: oursPods, value: sync, show: asTime,
			target: shareOf("0.7", 0.7),
		},
		{name: "full Pods: CPU time of the sync", peer: peerPods, ours: oursPods, value: cpu, show: asTime},
		{name: "full Pods: CPU time of the sync" + listed, peer: peerPodsListed, ours: oursPods, value: cpu, show: asTime},
		{},
		{
			name: "view of Pods: live heap", peer: peerPods, ours: oursView, value: heap, show: asSize,
			target: shareOf("1/20", 1./20),
		},
		{
			name: "view of Pods: live heap" + listed, peer: peerPodsListed, ours: oursView, value: heap, show: asSize,
			target: shareOf("1/20", 1./20),
		},
		{
			name: "view of Pods: peak RSS", peer: peerPods, ours: oursView, value: peak, show: asSize,
			target: atMost(40 * megabyte),
		},
		{name: "view of Pods: peak RSS" + three, peer: peerThree, ours: oursView, value: peak, show: asSize},
		{name: "view of Pods: CPU time of the sync" + three, peer: peerThree, ours: oursView, value: cpu, show: asTime},
		{
			name: "view of Pods: time to sync", peer: peerPods, ours: oursView, value: sync, show: asTime,
			target: shareOf("1", 1),
		},
		{
			name: "view of Pods: time to sync" + listed, peer: peerPodsListed, ours: oursView, value: sync, show: asTime,
			target: shareOf("1", 1),
		},
		{name: "view of Pods: CPU time of the sync", peer: peerPods, ours: oursView, value: cpu, show: asTime},
		{},
		{
			name: "custom resources: live heap, vs typed", peer: peerWidgets, ours: oursWidgets, value: heap, show: asSize,
			target: shareOf("0.55", 0.55),
		},
		{
			name: "custom resources: live heap" + unstructured, peer: peerUnstructured, ours: oursWidgets, value: heap,
			show: asSize, target: shareOf("1/6", 1./6),
		},
		{name: "custom resources: peak RSS, vs typed", peer: peerWidgets, ours: oursWidgets, value: peak, show: asSize},
		{
			name: "custom resources: time to sync, vs typed", peer: peerWidgets, ours: oursWidgets, value: sync, show: asTime,
			target: shareOf("1", 1),
		},
		{
			name: "custom resources: time to sync" + unstructured, peer: peerUnstructured, ours: oursWidgets, value: sync,
			show: asTime, target: shareOf("1", 1),
		},
		{
			name: "custom resources: CPU time of the sync, vs typed", peer: peerWidgets, ours: oursWidgets, value: cpu,
			show: asTime,
		},
		{},
		{
			name: "full Pods, vs kube-rs: peak RSS", peer: kubersPods, ours: oursPods, value: peak, show: asSize,
			target: shareOf("1/5", 1./5),
		},
		{
			name: "full Pods, vs kube-rs: time to sync", peer: kubersPods, ours: oursPods, value: sync, show: asTime,
			target: shareOf("1", 1),
		},
		{name: "full Pods, vs kube-rs: CPU time of the sync", peer: kubersPods, ours: oursPods, value: cpu, show: asTime},
		{
			name: "full Pods, vs kube-rs: CPU time of the server", peer: kubersPods, ours: oursPods, value: server,
			show: asTime,
		},
		{name: "view of Pods, vs kube-rs: peak RSS", peer: kubersView, ours: oursView, value: peak, show: asSize},
		{
			name: "view of Pods, vs kube-rs: time to sync", peer: kubersView, ours: oursView, value: sync, show: asTime,
			target: shareOf("1", 1),
		},
		{name: "view of Pods, vs kube-rs: CPU time of the sync", peer: kubersView, ours: oursView, value: cpu, show: asTime},
		{
			name: "view of Pods, vs kube-rs: CPU time of the server", peer: kubersView, ours: oursView, value: server,
			show: asTime,
		},
		{name: "custom resources, vs kube-rs: peak RSS", peer: kubersWidgets, ours: oursWidgets, value: peak, show: asSize},
		{
			name: "custom resources, vs kube-rs: time to sync", peer: kubersWidgets, ours: oursWidgets, value: sync,
			show: asTime, target: shareOf("1", 1),
		},
		{
			name: "custom resources, vs kube-rs: CPU time of the sync", peer: kubersWidgets, ours: oursWidgets, value: cpu,
			show: asTime,
		},
		{
			name: "custom resources, vs kube-rs: CPU time of the server", peer: kubersWidgets, ours: oursWidgets,
			value: server, show: asTime,
		},
		{},
		{
			name: "read one full Pod by key, p50", peer: peerPods, ours: oursPods, value: get, show: asTime,
			target: atMost(float64(40 * time.Microsecond)),
		},
		{
			name: "read one view by key, p50", peer: peerPods, ours: oursView, value: get, show: asTime,
			target: atMost(float64(5 * time.Microsecond)),
		},
		{name: "read one custom resource by key, p50", peer: peerWidgets, ours: oursWidgets, value: get, show: asTime},
		{name: "index look-up of 100 full Pods, p50", peer: peerPods, ours: oursPods, value: look, show: asTime},
		{
			name: "… its time by that in a store a tenth the size", peer: peerPods, ours: oursPods, value: growth, show: times,
			target: atMost(scanFree),
		},
		{
			name: "… one that finds nothing, p50 (no scan is as quick)", peer: peerPods, ours: oursPods, value: none,
			show: asTime, target: atMost(scanTime),
		},
		{name: "index look-up of 100 views, p50", peer: peerPods, ours: oursView, value: look, show: asTime},
		{
			name: "… its time by that in a store a tenth the size", peer: peerPods, ours: oursView, value: growth, show: times,
			target: atMost(scanFree),
		},
	}
}

const (
	// scanFree is the largest ratio of the time of a look-up to that in a store of a
	// tenth of the size. A scan takes ten times as long. An index may take longer because
	// a larger store fits less well into the processor's caches.
	scanFree = 2
	// scanTime is less than the time of looking at 20,000 objects.
	scanTime = float64(10 * time.Microsecond)
)
