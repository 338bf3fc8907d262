package kube

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// observers are told of requests besides the one that the configuration names. No
// lock is held while they are called: an observer may stop itself, add another or
// make a request.
type observers struct {
	mu sync.Mutex
	// list is never changed, but replaced. It holds pointers, so that each can be
	// told from the others.
	list []*func(RequestInfo)
}

// OnRequest has f called after every request, as [Config].Observe is, until stop
// is called. A call that is under way when stop is called goes on.
func (c *Client) OnRequest(f func(RequestInfo)) (stop func()) {
	added := &f
	c.observers.change(func(list []*func(RequestInfo)) []*func(RequestInfo) { return append(list, added) })
	return func() {
		c.observers.change(func(list []*func(RequestInfo)) []*func(RequestInfo) {
			return slices.DeleteFunc(list, func(g *func(RequestInfo)) bool { return g == added })
		})
	}
}

func (o *observers) change(to func([]*func(RequestInfo)) []*func(RequestInfo)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = to(slices.Clone(o.list))
}

func (o *observers) all() []*func(RequestInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list
}

func (c *Client) observed(r RequestInfo) {
	if c.observe != nil {
		c.tell(c.observe, r)
	}
	for _, f := range c.observers.all() {
		c.tell(*f, r)
	}
}

// tell calls an observer. If it panics, that costs what it observes and not the
// request, which may be a watch's in a goroutine of its own.
func (c *Client) tell(f func(RequestInfo), r RequestInfo) {
	defer func() {
		if p := recover(); p != nil && c.warnings.fresh(fmt.Sprint("observer ", p)) {
			c.logger.Error("observer of requests panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f(r)
}
