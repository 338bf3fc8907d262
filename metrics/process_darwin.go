package metrics

func (p *process) collectors() []func(*Scrape) {
	return []func(*Scrape){p.usage, func(s *Scrape) { p.countFDs(s, "/dev/fd") }}
}
