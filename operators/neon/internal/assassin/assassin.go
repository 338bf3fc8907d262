// Package assassin kills an operator, in tests, at one of its requests.
//
// A test lets all requests of a process pass through [Assassin.APIServer], [Assassin.Outside] and
// [Assassin.Dial]. From the chosen request on, none of them is sent and each fails. That is all that
// others see of a process that was killed. The test stops the process when [Assassin.Done] is closed,
// and starts another one.
package assassin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
)

// ErrKilled is the error of each request of a process that was killed.
var ErrKilled = errors.New("the process was killed")

// Assassin kills one process. Its methods may be called at the same time. Make one with [New].
type Assassin struct {
	done chan struct{}

	mu     sync.Mutex
	seen   int // requests since armed
	at     int // the request to kill at; 0: none
	effect bool
	dead   bool
	where  string
}

// New returns an assassin that kills nobody until it is armed.
func New() *Assassin { return &Assassin{done: make(chan struct{})} }

// Arm counts from 0 again, and kills the process at a request, the first of which is 1. The request
// has its effect or not, and the process does not hear of it. An at of 0 only counts.
func (a *Assassin) Arm(at int, effect bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen, a.at, a.effect = 0, at, effect
}

// Disarm lets the process live, unless it was killed before. Then it waits for the effect of the last
// request, and returns true.
func (a *Assassin) Disarm() (killed bool) {
	a.mu.Lock()
	a.at = 0
	killed = a.dead
	a.mu.Unlock()
	if killed {
		<-a.done
	}
	return killed
}

// Count returns the number of requests since the assassin was armed.
func (a *Assassin) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// Done is closed when the process was killed, after the effect of its last request.
func (a *Assassin) Done() <-chan struct{} { return a.done }

// Where returns the request at which the process was killed, empty if it lives.
func (a *Assassin) Where() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.where
}

// APIServer sends a request to the API server. Writes count, except those of Events.
func (a *Assassin) APIServer(r *http.Request, send http.RoundTripper) (*http.Response, error) {
	return a.send(r, send, r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events"))
}

// Outside sends a request to anything else. Each one counts.
func (a *Assassin) Outside(r *http.Request, send http.RoundTripper) (*http.Response, error) {
	return a.send(r, send, true)
}

// Dial makes a connection that is no request over HTTP. Each one counts.
func (a *Assassin) Dial(address string, dial func() (net.Conn, error)) (net.Conn, error) {
	err := a.see("dial "+address, true, func() {
		if conn, err := dial(); err == nil {
			conn.Close()
		}
	})
	if err != nil {
		return nil, err
	}
	return dial()
}

func (a *Assassin) send(r *http.Request, send http.RoundTripper, counts bool) (*http.Response, error) {
	err := a.see(r.Method+" "+r.URL.Path, counts, func() {
		if resp, err := send.RoundTrip(r.WithContext(context.WithoutCancel(r.Context()))); err == nil {
			resp.Body.Close()
		}
	})
	if err != nil {
		return nil, err
	}
	return send.RoundTrip(r)
}

// see counts a request, and returns an error if the process was killed before it or is killed at it. In
// the second case act is its effect.
func (a *Assassin) see(what string, counts bool, act func()) error {
	a.mu.Lock()
	if a.dead {
		a.mu.Unlock()
		return ErrKilled
	}
	if counts {
		a.seen++
	}
	if !counts || a.at == 0 || a.seen != a.at {
		a.mu.Unlock()
		return nil
	}
	a.dead, a.where = true, what
	effect := a.effect
	a.mu.Unlock()
	defer close(a.done)
	if effect {
		act()
	}
	return ErrKilled
}
