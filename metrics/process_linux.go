package metrics

import (
	"os"
	"sync"
)

func (p *process) collectors() []func(*Scrape) {
	return []func(*Scrape){p.usage, p.descriptors, p.network, p.memory()}
}

// descriptors reads the number of descriptors from newer kernels, and counts a list on
// older ones.
func (p *process) descriptors(s *Scrape) {
	if info, err := os.Stat("/proc/self/fd"); err == nil && info.Size() > 0 {
		s.Gauge(p.openFDs, float64(info.Size()))
		return
	}
	p.countFDs(s, "/proc/self/fd")
}

// network reports the process's network namespace, because the kernel has no numbers of
// the process itself.
func (p *process) network(s *Scrape) {
	text, err := os.ReadFile("/proc/self/net/netstat")
	if err != nil {
		return
	}
	if n, ok := parseNetstat(text, "IpExt", "InOctets"); ok {
		s.Counter(p.received, n)
	}
	if n, ok := parseNetstat(text, "IpExt", "OutOctets"); ok {
		s.Counter(p.sent, n)
	}
}

// memory also reports the start time. It is computed once, because it would move with the
// machine's clock, and Prometheus takes a process with another start time for a restarted
// one.
func (p *process) memory() func(*Scrape) {
	boot := sync.OnceValues(func() (float64, bool) {
		text, err := os.ReadFile("/proc/stat")
		if err != nil {
			return 0, false
		}
		return parseBootTime(text)
	})
	return func(s *Scrape) {
		text, err := os.ReadFile("/proc/self/stat")
		if err != nil {
			return
		}
		stat, ok := parseStat(text)
		if !ok {
			return
		}
		s.Gauge(p.virtual, stat.virtual)
		s.Gauge(p.resident, stat.pages*float64(os.Getpagesize()))
		if boot, ok := boot(); ok {
			s.Gauge(p.start, boot+stat.start)
		}
	}
}
