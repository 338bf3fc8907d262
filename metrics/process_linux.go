package metrics

import (
	"os"
	"sync"
)

func (p *process) collectors() []func(*Scrape) {
	return []func(*Scrape){p.usage, p.descriptors, p.network, p.memory()}
}

// descriptors asks newer kernels, which know the number, and older ones for a
// list.
func (p *process) descriptors(s *Scrape) {
	if info, err := os.Stat("/proc/self/fd"); err == nil && info.Size() > 0 {
		s.Gauge(p.openFDs, float64(info.Size()))
		return
	}
	p.countFDs(s, "/proc/self/fd")
}

// network tells of the process's network namespace, as there are no numbers of
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

// memory also tells the time of the start, which is worked out once: it would
// move with the machine's clock, and a process that has moved is taken for one
// that has started again.
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
