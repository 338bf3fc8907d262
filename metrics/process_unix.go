//go:build linux || darwin

package metrics

import (
	"os"
	"syscall"
	"time"
)

// usage reports the data of getrusage and getrlimit.
func (p *process) usage(s *Scrape) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
		s.Counter(p.cpu, cpu.Seconds())
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		s.Gauge(p.maxFDs, float64(limit.Cur))
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &limit); err == nil {
		s.Gauge(p.maxVirtual, float64(limit.Cur))
	}
}

// countFDs counts the entries in a directory of the process's descriptors. One entry is
// the descriptor that reads the directory.
func (p *process) countFDs(s *Scrape, dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	if names, err := d.Readdirnames(-1); err == nil && len(names) > 0 {
		s.Gauge(p.openFDs, float64(len(names)-1))
	}
}
