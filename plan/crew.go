package plan

import (
	"cmp"
	"time"
)

// crew sends requests side by side, a limited number at a time.
type crew struct {
	limit   int
	running int
	queue   []errand
	workers int         // goroutines, at most limit
	work    chan errand // has room for all that run
	ended   chan int
}

// errand is the work for a node.
type errand struct {
	node int
	do   func()
}

func newCrew(limit int) *crew {
	limit = max(cmp.Or(limit, defaultConcurrency), 1)
	return &crew{limit: limit, work: make(chan errand, limit), ended: make(chan int, limit)}
}

// send has work done for a node.
func (c *crew) send(node int, do func()) {
	c.queue = append(c.queue, errand{node, do})
	c.start()
}

func (c *crew) start() {
	for c.running < c.limit && len(c.queue) > 0 {
		e := c.queue[0]
		c.queue = c.queue[1:]
		c.running++
		c.work <- e
		if c.workers == 0 {
			c.join()
		}
	}
}

func (c *crew) join() {
	c.workers++
	go c.serve()
}

// brief is how long work takes that sends no request. One goroutine does such work sooner
// than many, because each new one has to get the stack that a request needs.
const brief = 100 * time.Microsecond

// staff starts the goroutines that it takes to do all work side by side.
func (c *crew) staff() {
	for c.workers < c.running {
		c.join()
	}
}

// serve does work until there is no more. A goroutine that is used again has the stack
// already that a request needs.
func (c *crew) serve() {
	grow(0)
	over := false
	defer func() {
		if !over { // the work has ended the goroutine
			go c.serve()
		}
	}()
	for e := range c.work {
		c.do(e)
	}
	over = true
}

// stackSize is about the size of the stack that a request needs, which is encoded and sent,
// and whose answer is decoded.
const stackSize = 16 << 10 // bytes

// grow makes the stack of a goroutine that has just begun as large as a request needs.
// Otherwise it grows in the middle of a request, which copies it frame by frame each time.
//
//go:noinline
func grow(i int) byte {
	var room [stackSize]byte
	return room[i]
}

func (c *crew) do(e errand) {
	defer func() { c.ended <- e.node }()
	e.do()
}

// next returns the nodes whose work has ended. It waits for one, until a time unless that is
// zero, and returns false if no work is left.
func (c *crew) next(until time.Time) (nodes []int, ok bool) {
	if c.running == 0 {
		return nil, false
	}
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		over = timer.C
	}
	if c.workers < c.running {
		late := time.NewTimer(brief)
		defer late.Stop()
		select {
		case node := <-c.ended:
			nodes = append(nodes, node)
		case <-late.C:
			c.staff()
		}
	}
	if len(nodes) == 0 {
		select {
		case node := <-c.ended:
			nodes = append(nodes, node)
		case <-over:
			return nil, true
		}
	}
	for more := true; more; {
		select {
		case node := <-c.ended:
			nodes = append(nodes, node)
		default:
			more = false
		}
	}
	c.running -= len(nodes)
	c.start()
	return nodes, true
}

// wait drops the work that has not begun, and waits for the rest. The crew takes no more
// work after that.
func (c *crew) wait() {
	c.queue = nil
	for ok := true; ok; {
		_, ok = c.next(time.Time{})
	}
	close(c.work)
}
