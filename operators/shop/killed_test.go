package main

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
)

// TestKilled kills the operator while its requests to the payment service are under way,
// and at other times. Some of these requests take effect when the next process runs. The
// service never has two accounts of a name, and none is lost.
func TestKilled(t *testing.T) {
	b := newBench(t, kubetest.Start(t, kubetest.Options{Nodes: 2}))
	held, release := make(chan bool), make(chan struct{})
	var holds atomic.Pointer[bool] // the requests to hold are those before (false) or after (true) an account is made
	b.service.Hold = func(made bool) {
		if now := holds.Load(); now == nil || *now != made || !holds.CompareAndSwap(now, nil) {
			return
		}
		held <- made
		<-release
	}
	b.greet("Come in!")
	b.apply()
	for _, made := range []bool{true, false} {
		holds.Store(&made)
		b.start()
		select {
		case <-held:
		case <-time.After(patience):
			t.Fatal("no account is made")
		}
		b.kill()
		if made {
			release <- struct{}{} // the answer reaches nobody
			continue
		}
		b.start()
		time.Sleep(2 * time.Second) // the next process looks for the account in vain
		release <- struct{}{}
		b.untilReady()
		b.ok(b.shops.Delete(b.soon(), "corner"))
		b.ok(b.shops.UntilGone(b.soon(), "corner"))
		b.kill()
		b.apply()
	}
	for range 3 {
		b.start()
		time.Sleep(700 * time.Millisecond) // it is killed in the middle of its work
		b.kill()
	}
	b.start()
	b.untilReady()
	b.hasAccounts("", "-east", "-west")

	s, err := b.shops.Get(b.soon(), "corner")
	b.ok(err)
	before := b.service.Created(string(s.UID))
	b.kill()
	b.start()
	b.settled()
	if after := b.service.Created(string(s.UID)); after != before {
		t.Errorf("a restart made the account %d times", after-before)
	}
	b.hasAccounts("", "-east", "-west")

	b.ok(b.shops.Delete(b.soon(), "corner"))
	for range 2 {
		time.Sleep(500 * time.Millisecond) // likewise
		b.kill()
		b.start()
	}
	b.ok(b.shops.UntilGone(b.soon(), "corner"))
	b.onlyPassword()
	if n := b.service.Most(); n != 1 {
		t.Errorf("there were %d accounts of a name", n)
	}
}
