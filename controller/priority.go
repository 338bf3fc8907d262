package controller

// Priority says which keys go first when more of them wait than can be worked on.
// Within a priority they go in the order in which they came. Of 33 turns one is of
// a lower priority, if a key of one waits. controller-runtime has numbers instead,
// which the metrics show: 100, 0 and -100.
type Priority int8

const (
	// Default leaves the priority to the package: Low for what is listed at the
	// start and for resyncs, Normal for all else. A failed reconcile is tried again
	// with the priority that it had.
	Default Priority = iota
	High
	Normal
	Low
)

// prioritize sets the priority of a request as the controller says.
func (e *engine[T]) prioritize(r *request) {
	if e.Priority == nil {
		return
	}
	p := Default
	cause := r.cause
	e.guard("Priority", func() error { p = e.Priority(cause); return nil })
	switch p {
	case High:
		r.priority = high
	case Normal:
		r.priority = live
	case Low:
		r.priority = low
	}
}
