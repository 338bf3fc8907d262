package controller

// Priority says which keys go first when more keys wait than can be worked on. Within a
// priority, keys go in the order in which they came. One of 33 turns goes to a lower
// priority, if a key of a lower priority waits. controller-runtime has numbers instead,
// and the metrics show them: 100, 0 and -100.
type Priority int8

const (
	// Default leaves the priority to the package: Low for objects that are listed at the
	// start and for resyncs, Normal for all other causes. A failed reconcile is retried
	// with the priority that it had.
	Default Priority = iota
	High
	Normal
	Low
)

// prioritize sets the priority of a request to the controller's choice.
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
