package plan

import "cmp"

// crew sends requests side by side, a limited number at a time.
type crew struct {
	limit   int
	running int
	queue   []errand
	ended   chan int
}

// errand is the work for a node.
type errand struct {
	node int
	do   func()
}

func newCrew(limit int) *crew {
	limit = max(cmp.Or(limit, defaultConcurrency), 1)
	return &crew{limit: limit, ended: make(chan int, limit)}
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
		go func() {
			defer func() { c.ended <- e.node }()
			e.do()
		}()
	}
}

// next returns the nodes whose work has ended. It waits for one, and returns false if no
// work is left.
func (c *crew) next() (nodes []int, ok bool) {
	if c.running == 0 {
		return nil, false
	}
	nodes = append(nodes, <-c.ended)
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

// wait drops the work that has not begun, and waits for the rest.
func (c *crew) wait() {
	c.queue = nil
	for ok := true; ok; {
		_, ok = c.next()
	}
}
