package kube

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
)

// afterServing waits until the server has answered the next read, and calls f before the
// answer arrives.
func (c *ownCase) afterServing(f func()) {
	served := false
	c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
		if served || r.Method != http.MethodGet || isWatch(r) {
			return nil, nil
		}
		served = true
		resp, err := c.s.serve(r)
		f()
		return resp, err
	})
}

// A write may be made before the server's answer about its object arrives. The answer is
// older than such a write, so reads still wait for the write.
func TestAnswersThatWritesOvertake(t *testing.T) {
	for _, tc := range []struct {
		name string
		ask  func(c *ownCase)
	}{
		{"a question", func(c *ownCase) {
			c.s.remove(key("a"))
			c.cms.handle.client.stores.unsure(c.cms.handle.kind, key("a"))
			_, _ = c.store.Get(c.Context(), key("a"))
		}},
		{"a refresh", func(c *ownCase) {
			c.s.remove(key("a"))
			feed := c.cms.Open(context.Background())
			defer feed.Close()
			if err := feed.Refresh(c.Context()); err != nil {
				c.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.afterServing(func() { c.write("a", "new") })
				tc.ask(c)
				c.wantNote("a", "new")
				wantLines(c.T, "all", content(c.T, c.store), "default/a new")
			})
		})
		t.Run(tc.name+" and a lost answer", func(t *testing.T) {
			ownWritesTest(t, asIs, func(c *ownCase) {
				c.s.put(key("b"), "one") // a question finds this object
				c.afterServing(func() {
					c.s.put(key("a"), "new")
					c.s.put(key("b"), "new")
					c.cms.handle.client.stores.unsure(c.cms.handle.kind, key("a"))
					c.cms.handle.client.stores.unsure(c.cms.handle.kind, key("b"))
				})
				if tc.name == "a question" {
					c.cms.handle.client.stores.unsure(c.cms.handle.kind, key("b"))
					_, _ = c.store.Get(c.Context(), key("b"))
					c.wantNote("b", "new")
					return
				}
				feed := c.cms.Open(context.Background())
				defer feed.Close()
				if err := feed.Refresh(c.Context()); err != nil {
					c.Error(err)
				}
				c.wantNote("a", "new")
				c.wantNote("b", "new")
			})
		})
	}
}

// A lagging server answers a Refresh with a state from before the state that the watch
// has shown. No object is lost.
func TestRefreshFromALaggingServer(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		old := newAPIServer()
		old.put(key("a"), "one")
		c.s.release()
		c.s.put(key("a"), "two")
		c.s.put(key("b"), "new")
		synctest.Wait()
		stale := 1000
		c.s.setIntercept(func(_ int, r *http.Request) (*http.Response, error) {
			if stale--; stale >= 0 && r.Method == http.MethodGet && !isWatch(r) {
				return old.serve(r)
			}
			return nil, nil
		})
		feed := c.cms.Open(context.Background())
		defer feed.Close()
		if err := feed.Refresh(c.Context()); err != nil {
			c.Error(err)
		}
		wantLines(c.T, "all", content(c.T, c.store), "default/a two", "default/b new")
		// The server catches up, and the watch does not show the latest writes.
		stale = 2
		c.s.hold()
		c.s.put(key("a"), "three")
		c.s.remove(key("b"))
		if err := feed.Refresh(c.Context()); err != nil {
			c.Error(err)
		}
		wantLines(c.T, "all", content(c.T, c.store), "default/a three")
	})
}
