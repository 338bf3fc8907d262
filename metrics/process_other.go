//go:build !linux && !darwin

package metrics

func (p *process) collectors() []func(*Scrape) { return nil }
