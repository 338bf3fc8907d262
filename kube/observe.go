package kube

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// RequestInfo describes a request that was answered or failed.
type RequestInfo struct {
	Verb   string // get, list, watch, create, update, patch, apply, delete …
	Method string // HTTP method
	Host   string
	Kind   string // empty if the request is for no kind
	// Namespace, Name and Subresource are empty if the request names none.
	Namespace, Name, Subresource string

	Code     int           // HTTP status, 0 if there was no answer
	Duration time.Duration // until the answer's headers
}

// observers are called after requests, in addition to the observer that the configuration
// names. No lock is held during a call: an observer may stop itself, add another observer
// or make a request.
type observers struct {
	mu sync.Mutex
	// list is never changed, only replaced. It holds pointers, so that its functions can
	// be compared.
	list []*func(RequestInfo)
}

// OnRequest has f called after every request, as [Config].Observe is, until stop is
// called. If a call of f is under way when stop is called, that call goes on. Its
// counterparts are the RequestLatency and RequestResult metrics of client-go.
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

// tell calls an observer in a goroutine of its own, which takes half a microsecond. If
// the observer panics or ends its goroutine, only its observation is lost. The request,
// which may be a watch, goes on.
func (c *Client) tell(f func(RequestInfo), r RequestInfo) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if p := recover(); !returned && c.warnings.fresh(fmt.Sprint("observer ", p)) {
				c.logger.Error("observer of requests panicked, or ended its goroutine",
					"panic", p, "stack", string(debug.Stack()))
			}
		}()
		asReflector(func() { f(r) }) // a store may wait for the request
		returned = true
	}()
	<-done
}
