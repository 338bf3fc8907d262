package metrics

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// runtimeMetric is the sum of some metrics of the Go runtime. Reading them does not stop
// the program.
type runtimeMetric struct {
	kind       kind
	name, help string
	sum        []string
}

// collectGo declares the metrics of the runtime that Prometheus' own Go library has by
// default, with the same names and help texts.
func collectGo(m *Metrics) {
	goroutines := m.Gauge("go_goroutines", "Number of goroutines that currently exist.")
	threads := m.Gauge("go_threads", "Number of OS threads created.")
	info := m.Gauge("go_info", "Information about the Go environment.", "version")
	pauses := m.declare(
		summary, "go_gc_duration_seconds",
		"A summary of the wall-time pause (stop-the-world) duration in garbage collection cycles.", nil, nil,
	)
	lastGC := m.Gauge("go_memstats_last_gc_time_seconds", "Number of seconds since 1970 of last garbage collection.")

	// The positions of each sum's parts among all names.
	var names []string
	var families []*family
	var sums [][]int
	for _, r := range runtimeMetrics() {
		var sum []int
		for _, name := range r.sum {
			i := slices.Index(names, name)
			if i < 0 {
				i, names = len(names), append(names, name)
			}
			sum = append(sum, i)
		}
		families = append(families, m.declare(r.kind, r.name, r.help, nil, nil))
		sums = append(sums, sum)
	}

	m.Collect(func(s *Scrape) {
		s.Gauge(goroutines, float64(runtime.NumGoroutine()))
		n, _ := runtime.ThreadCreateProfile(nil)
		s.Gauge(threads, float64(n))
		s.Gauge(info, 1, runtime.Version())

		stats := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
		debug.ReadGCStats(&stats)
		q := quantiles{sum: stats.PauseTotal.Seconds(), count: uint64(stats.NumGC)}
		for _, pause := range stats.PauseQuantiles {
			q.values = append(q.values, pause.Seconds())
		}
		s.add(pauses, q, nil)
		s.Gauge(lastGC, float64(stats.LastGC.UnixNano())/1e9)

		samples := make([]metrics.Sample, len(names))
		for i, name := range names {
			samples[i].Name = name
		}
		metrics.Read(samples)
		for i, f := range families {
			if v, ok := sumOf(samples, sums[i]); ok {
				s.add(f, constant(v), nil)
			}
		}
	})
}

// sumOf adds some of the samples. It returns false if the runtime does not know one of
// them, which can happen with any release of Go.
func sumOf(samples []metrics.Sample, places []int) (sum float64, ok bool) {
	var total uint64
	for _, i := range places {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0, false
		}
		total += samples[i].Value.Uint64()
	}
	return float64(total), true
}

func runtimeMetrics() []runtimeMetric {
	const (
		objects  = "/memory/classes/heap/objects:bytes"
		unused   = "/memory/classes/heap/unused:bytes"
		released = "/memory/classes/heap/released:bytes"
		free     = "/memory/classes/heap/free:bytes"
		stacks   = "/memory/classes/heap/stacks:bytes"
		mspan    = "/memory/classes/metadata/mspan/inuse:bytes"
		mcache   = "/memory/classes/metadata/mcache/inuse:bytes"
		tiny     = "/gc/heap/tiny/allocs:objects"
	)
	return []runtimeMetric{
		{
			gauge, "go_gc_gogc_percent",
			"Heap size target percentage configured by the user, otherwise 100. This value is set by the GOGC environment variable, and the runtime/debug.SetGCPercent function. Sourced from /gc/gogc:percent.",
			[]string{"/gc/gogc:percent"},
		},
		{
			gauge, "go_gc_gomemlimit_bytes",
			"Go runtime memory limit configured by the user, otherwise math.MaxInt64. This value is set by the GOMEMLIMIT environment variable, and the runtime/debug.SetMemoryLimit function. Sourced from /gc/gomemlimit:bytes.",
			[]string{"/gc/gomemlimit:bytes"},
		},
		{
			gauge, "go_sched_gomaxprocs_threads",
			"The current runtime.GOMAXPROCS setting, or the number of operating system threads that can execute user-level Go code simultaneously. Sourced from /sched/gomaxprocs:threads.",
			[]string{"/sched/gomaxprocs:threads"},
		},

		{
			gauge, "go_memstats_alloc_bytes",
			"Number of bytes allocated in heap and currently in use. Equals to /memory/classes/heap/objects:bytes.",
			[]string{objects},
		},
		{
			counter, "go_memstats_alloc_bytes_total",
			"Total number of bytes allocated in heap until now, even if released already. Equals to /gc/heap/allocs:bytes.",
			[]string{"/gc/heap/allocs:bytes"},
		},
		{
			gauge, "go_memstats_sys_bytes", "Number of bytes obtained from system. Equals to /memory/classes/total:byte.",
			[]string{"/memory/classes/total:bytes"},
		},
		{
			counter, "go_memstats_mallocs_total",
			"Total number of heap objects allocated, both live and gc-ed. Semantically a counter version for go_memstats_heap_objects gauge. Equals to /gc/heap/allocs:objects + /gc/heap/tiny/allocs:objects.",
			[]string{"/gc/heap/allocs:objects", tiny},
		},
		{
			counter, "go_memstats_frees_total",
			"Total number of heap objects frees. Equals to /gc/heap/frees:objects + /gc/heap/tiny/allocs:objects.",
			[]string{"/gc/heap/frees:objects", tiny},
		},
		{
			gauge, "go_memstats_heap_alloc_bytes",
			"Number of heap bytes allocated and currently in use, same as go_memstats_alloc_bytes. Equals to /memory/classes/heap/objects:bytes.",
			[]string{objects},
		},
		{
			gauge, "go_memstats_heap_sys_bytes",
			"Number of heap bytes obtained from system. Equals to /memory/classes/heap/objects:bytes + /memory/classes/heap/unused:bytes + /memory/classes/heap/released:bytes + /memory/classes/heap/free:bytes.",
			[]string{objects, unused, released, free},
		},
		{
			gauge, "go_memstats_heap_idle_bytes",
			"Number of heap bytes waiting to be used. Equals to /memory/classes/heap/released:bytes + /memory/classes/heap/free:bytes.",
			[]string{released, free},
		},
		{
			gauge, "go_memstats_heap_inuse_bytes",
			"Number of heap bytes that are in use. Equals to /memory/classes/heap/objects:bytes + /memory/classes/heap/unused:bytes",
			[]string{objects, unused},
		},
		{
			gauge, "go_memstats_heap_released_bytes",
			"Number of heap bytes released to OS. Equals to /memory/classes/heap/released:bytes.", []string{released},
		},
		{
			gauge, "go_memstats_heap_objects", "Number of currently allocated objects. Equals to /gc/heap/objects:objects.",
			[]string{"/gc/heap/objects:objects"},
		},
		{
			gauge, "go_memstats_stack_inuse_bytes",
			"Number of bytes obtained from system for stack allocator in non-CGO environments. Equals to /memory/classes/heap/stacks:bytes.",
			[]string{stacks},
		},
		{
			gauge, "go_memstats_stack_sys_bytes",
			"Number of bytes obtained from system for stack allocator. Equals to /memory/classes/heap/stacks:bytes + /memory/classes/os-stacks:bytes.",
			[]string{stacks, "/memory/classes/os-stacks:bytes"},
		},
		{
			gauge, "go_memstats_mspan_inuse_bytes",
			"Number of bytes in use by mspan structures. Equals to /memory/classes/metadata/mspan/inuse:bytes.",
			[]string{mspan},
		},
		{
			gauge, "go_memstats_mspan_sys_bytes",
			"Number of bytes used for mspan structures obtained from system. Equals to /memory/classes/metadata/mspan/inuse:bytes + /memory/classes/metadata/mspan/free:bytes.",
			[]string{mspan, "/memory/classes/metadata/mspan/free:bytes"},
		},
		{
			gauge, "go_memstats_mcache_inuse_bytes",
			"Number of bytes in use by mcache structures. Equals to /memory/classes/metadata/mcache/inuse:bytes.",
			[]string{mcache},
		},
		{
			gauge, "go_memstats_mcache_sys_bytes",
			"Number of bytes used for mcache structures obtained from system. Equals to /memory/classes/metadata/mcache/inuse:bytes + /memory/classes/metadata/mcache/free:bytes.",
			[]string{mcache, "/memory/classes/metadata/mcache/free:bytes"},
		},
		{
			gauge, "go_memstats_buck_hash_sys_bytes",
			"Number of bytes used by the profiling bucket hash table. Equals to /memory/classes/profiling/buckets:bytes.",
			[]string{"/memory/classes/profiling/buckets:bytes"},
		},
		{
			gauge, "go_memstats_gc_sys_bytes",
			"Number of bytes used for garbage collection system metadata. Equals to /memory/classes/metadata/other:bytes.",
			[]string{"/memory/classes/metadata/other:bytes"},
		},
		{
			gauge, "go_memstats_other_sys_bytes",
			"Number of bytes used for other system allocations. Equals to /memory/classes/other:bytes.",
			[]string{"/memory/classes/other:bytes"},
		},
		{
			gauge, "go_memstats_next_gc_bytes",
			"Number of heap bytes when next garbage collection will take place. Equals to /gc/heap/goal:bytes.",
			[]string{"/gc/heap/goal:bytes"},
		},
	}
}
