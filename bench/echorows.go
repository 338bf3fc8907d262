package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// echoRows returns the promises about the Echo operator.
func echoRows(o options, sizes map[string]built, results map[string]echoResults) []row {
	only := func(v float64) []float64 {
		if v == 0 {
			return nil
		}
		return []float64{v}
	}
	measured := func(name string, of func(echoResult) float64, show func(float64) string, t target) row {
		return row{name: name, peer: results[peerEcho].values(of), ours: results[oursEcho].values(of), show: show, target: t}
	}
	answer := func(share float64) func(echoResult) float64 {
		return func(r echoResult) float64 { return quantile(r.answers, share) }
	}
	sent := func(share float64) func(echoResult) float64 {
		return func(r echoResult) float64 { return quantile(r.fromSent, share) }
	}
	many := fmt.Sprintf("Echo: %d to ready Deployments: ", o.echoes)
	one := fmt.Sprintf("Echo: change of one among %d to the request that answers it", o.echoes)
	peer, ours := sizes[peerEcho], sizes[oursEcho]
	return []row{
		{
			name: "Echo: image, compressed", peer: only(peer.image), ours: only(ours.image), show: asSize,
			target: under(7 * megabyte),
		},
		{
			name: "Echo: binary, stripped", peer: only(peer.binary), ours: only(ours.binary), show: asSize,
			target: under(20 * megabyte),
		},
		measured("Echo: idle RSS", func(r echoResult) float64 { return r.idle }, asSize, shareOf("2/3", 2./3)),
		measured(
			"Echo: process start to first reconcile", func(r echoResult) float64 { return r.start }, asTime,
			shareOf("1/2", 1./2),
		),
		measured(many+"CPU time of the operator", func(r echoResult) float64 { return r.cpu }, asTime, shareOf("1/2", 1./2)),
		measured(many+"peak RSS", func(r echoResult) float64 { return r.peak }, asSize, shareOf("1/2", 1./2)),
		measured(many+"requests", func(r echoResult) float64 { return r.requests }, asCount, shareOf("1", 1)),
		measured(
			"… without those for the lease", func(r echoResult) float64 { return r.requests - r.leases }, asCount, target{},
		),
		measured(many+"time", func(r echoResult) float64 { return r.ready }, asTime, target{}),
		measured(one+", p50", answer(0.5), asTime, under(float64(5*time.Millisecond))),
		measured(one+", p99", answer(0.99), asTime, under(float64(25*time.Millisecond))),
		measured("… from sending the change on, p50", sent(0.5), asTime, target{}),
		measured("… p99", sent(0.99), asTime, target{}),
	}
}

// summary lists the kinds of requests, most frequent first.
func summary(requests []request) string {
	counts := map[string]int{}
	for _, q := range requests {
		if !q.watch {
			counts[q.method+" "+q.resource()]++
		}
	}
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return fmt.Sprintf("%d requests (%s)", counted(requests), strings.Join(kinds, ", "))
}

// echoSetup describes the measurement and its setup.
func echoSetup(o options) string {
	return fmt.Sprintf(
		`Echo: a whole control plane with simulated nodes on this machine; peer: the same operator on controller-runtime %s (bench/peerecho): a manager with its defaults, that is metrics on,
protobuf for built-in kinds, no client-side rate limit; controllerutil.CreateOrUpdate, which reads from the cache and sends nothing when nothing changes; status by patch; a finalizer;
log/slog; 16 reconciles at a time; leader election. Ours: operators/echo as it is shipped: server-side apply, a finalizer, 16 reconciles at a time, a lease. Same kind, same children, same status.
Both go through one recording proxy in the bench (TLS and HTTP/2 on either hand); Echoes are written past it. Images: made of either program by the same command.
Start: from starting the process, one Echo being there, to its first request that writes about it; idle RSS: VmRSS ten seconds after that one is ready (medians of %d runs in turn).
%d Echoes of one replica, created by %d writers while the operator runs: CPU (user and system) and requests, watches aside, until the operator has been still for %s; peak RSS: VmHWM then (%d runs).
Change: replicas of one Echo, %d of them one after another, from the moment its write was confirmed to the moment the write of its Deployment reached the proxy.
`,
		moduleVersion("sigs.k8s.io/controller-runtime"),
		o.runs,
		o.echoes,
		writers,
		echoCalm,
		o.echoRuns,
		min(echoChanges, o.echoes),
	)
}
