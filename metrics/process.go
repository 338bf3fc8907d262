package metrics

// process holds the metrics of a process that Prometheus' own Go library has by default,
// with the same names and help texts. Metrics that the system does not provide are left
// out. macOS provides processor time, descriptors and limits. Systems other than macOS
// and Linux provide nothing.
type process struct {
	cpu, received, sent           *Family[Counter]
	openFDs, maxFDs               *Family[Gauge]
	virtual, maxVirtual, resident *Family[Gauge]
	start                         *Family[Gauge]
}

func collectProcess(m *Metrics) {
	p := process{
		cpu:        m.Counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds."),
		openFDs:    m.Gauge("process_open_fds", "Number of open file descriptors."),
		maxFDs:     m.Gauge("process_max_fds", "Maximum number of open file descriptors."),
		virtual:    m.Gauge("process_virtual_memory_bytes", "Virtual memory size in bytes."),
		maxVirtual: m.Gauge("process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes."),
		resident:   m.Gauge("process_resident_memory_bytes", "Resident memory size in bytes."),
		start:      m.Gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds."),
		received: m.Counter(
			"process_network_receive_bytes_total", "Number of bytes received by the process over the network.",
		),
		sent: m.Counter(
			"process_network_transmit_bytes_total", "Number of bytes sent by the process over the network.",
		),
	}
	for _, collect := range p.collectors() {
		m.Collect(collect)
	}
}
